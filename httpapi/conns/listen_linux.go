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
		// Without this option the time limit of each write remains.
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
		})
	}}
	c.SetMultipathTCP(false) // its sockets ignore the option
	return c.Listen(ctx, "tcp", addr)
}

// unsentBytes is how many bytes the kernel still holds because the client has
// not taken them; -1 where it does not say (tcp(7), SIOCOUTQ).
func unsentBytes(c net.Conn) int {
	s, ok := c.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return -1
	}
	n := -1
	_ = raw.Control(func(fd uintptr) {
		if held, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			n = held
		}
	})
	return n
}
