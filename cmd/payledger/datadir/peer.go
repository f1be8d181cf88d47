package datadir

import (
	"net"
	"strconv"
)

// peerConn is a connection to the admin socket. Its remote address is the user at
// the other end, "uid:" and a number, where the system says who that is.
type peerConn struct {
	net.Conn
	addr net.Addr
}

func (c *peerConn) RemoteAddr() net.Addr { return c.addr }

type peerAddr uint32

func (peerAddr) Network() string  { return "unix" }
func (a peerAddr) String() string { return "uid:" + strconv.FormatUint(uint64(a), 10) }

// Accept implements net.Listener.
func (l *socketListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if unix, ok := c.(*net.UnixConn); ok {
		if uid, ok := peerUser(unix); ok {
			return &peerConn{unix, peerAddr(uid)}, nil
		}
	}
	return c, nil
}

// peerUser is the user of the process that connected, as the kernel knows it.
func peerUser(c *net.UnixConn) (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var unknown error
	err = raw.Control(func(fd uintptr) { uid, unknown = userOf(int(fd)) })
	return uid, err == nil && unknown == nil
}
