package conns

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens a TCP address. Connections it accepts end when what was sent is
// not acknowledged, or the client's buffer stays full, for Patience (tcp(7),
// TCP_USER_TIMEOUT).
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return listen(ctx, addr, Patience)
}

func listen(ctx context.Context, addr string, patience time.Duration) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		// A kernel without it leaves the time limit of each write.
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
		})
	}}
	c.SetMultipathTCP(false) // its sockets do not heed the option
	return c.Listen(ctx, "tcp", addr)
}
