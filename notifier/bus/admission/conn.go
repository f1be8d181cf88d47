package admission

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Conn is an accepted connection.
type Conn struct {
	net.Conn

	of      *Listener
	address netip.Addr // that it counts for
	since   time.Time
	timer   *time.Timer // closes it
	waits   atomic.Bool
}

// Waits reports whether it has yet to authenticate.
func (c *Conn) Waits() bool { return c.waits.Load() }

// Authenticated ends its wait: from then on it is neither counted nor closed.
func (c *Conn) Authenticated() { c.leaves() }

func (c *Conn) leaves() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.of.leave(c)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.leaves()
	return c.Conn.Close()
}

// discard closes a connection so that the kernel keeps no state of it.
func discard(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func addressOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr
	}
	network, _ := addr.Prefix(64) // an IPv6 address has one
	return network.Addr()
}
