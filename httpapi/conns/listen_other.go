//go:build !linux

package conns

import (
	"context"
	"net"
)

// Listen opens a TCP address.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", addr)
}
