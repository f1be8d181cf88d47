package conns

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sendBuffer bounds the bytes that the kernel buffers for a client that does not read them (Linux
// doubles it). A write into a full buffer continues when a third was read: with a larger one, a
// slow client would exceed Patience.
const sendBuffer = 64 << 10

// Listen opens a TCP address. Connections it accepts end when what was sent is
// not acknowledged, or the client's buffer stays full, for Patience (tcp(7),
// TCP_USER_TIMEOUT).
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return listen(ctx, addr, Patience)
}

func listen(ctx context.Context, addr string, patience time.Duration) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		// Without these options the time limit of each write remains.
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
		})
	}}
	c.SetMultipathTCP(false) // its sockets ignore the option
	return c.Listen(ctx, "tcp", addr)
}
