package embedded

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// Patience is how long a client may take to authenticate.
	Patience = 2 * time.Second
	// MaxWaiting bounds the connections that wait.
	MaxWaiting = 128
	// PerAddress bounds those of one address.
	PerAddress = 64

	settled    = 250 * time.Millisecond // before it gives way to one of the same address
	retryAfter = 100 * time.Millisecond // when no file can be opened
	reportEach = 30 * time.Second
)

// admission bounds the TCP connections whose clients have not yet proved who they are.
//
// A connection that it accepts waits until it is authenticated, and is
// closed after Patience otherwise. At most PerAddress connections of one address wait,
// and at most MaxWaiting of all; those that have authenticated do not count.
//
// Where it is full no address keeps others out: a new connection replaces the oldest one of the
// address that has most. One of that address itself replaces it only if the oldest one has waited
// for some time, and is closed at once otherwise, so that a client that connects again and again
// costs little.
//
// An address is an IPv4 address, or the /64 in which an IPv6 client can choose its own. Safe for
// concurrent use.
type admission struct {
	net.Listener

	log zerolog.Logger

	mu      sync.Mutex
	waiting map[netip.Addr][]*admitted // the oldest first
	count   int
}

// newAdmission bounds a listener. The name is that of log records.
func newAdmission(l net.Listener, name string, log zerolog.Logger) *admission {
	return &admission{
		Listener: l, waiting: make(map[netip.Addr][]*admitted),
		log: log.With().Str("listener", name).Logger().Sample(&zerolog.BurstSampler{Burst: 1, Period: reportEach}),
	}
}

// accept waits for a connection. It continues when no more files can be opened, and fails only once
// the listener is closed.
func (l *admission) accept() (*admitted, error) {
	for {
		raw, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			<-time.After(retryAfter)
		default:
			if c := l.admit(raw, time.Now()); c != nil {
				return c, nil
			}
			discard(raw)
		}
	}
}

// waits is how many connections wait.
func (l *admission) waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// admit returns nil if the connection has to give way to those that wait.
func (l *admission) admit(raw net.Conn, now time.Time) *admitted {
	c := &admitted{Conn: raw, of: l, address: addressOf(raw.RemoteAddr()), since: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.waiting[c.address]
	if full := l.count >= MaxWaiting; full || len(own) >= PerAddress {
		l.log.Warn().Stringer("client", c.address).
			Msg("too many connections wait for their clients to sign in: the oldest ones or new ones are closed (client is the address of the last one)")
		from := own
		if full {
			from = l.most(own)
		}
		if len(from) == len(own) && now.Sub(from[0].since) < settled {
			return nil
		}
		victim := from[0]
		l.leave(victim)
		discard(victim.Conn)
	}
	l.waiting[c.address] = append(l.waiting[c.address], c)
	l.count++
	c.waits.Store(true)
	c.timer = time.AfterFunc(Patience, func() {
		if c.leaves() {
			c.Conn.Close()
		}
	})
	return c
}

// most is the longest list, and first if there is no longer one. The caller holds mu.
func (l *admission) most(first []*admitted) []*admitted {
	for _, all := range l.waiting {
		if len(all) > len(first) {
			first = all
		}
	}
	return first
}

// leave reports whether the connection has waited until now. The caller holds mu.
func (l *admission) leave(c *admitted) bool {
	all := l.waiting[c.address]
	i := slices.Index(all, c)
	if i < 0 {
		return false
	}
	l.count--
	c.waits.Store(false)
	c.timer.Stop()
	if len(all) == 1 {
		delete(l.waiting, c.address)
	} else {
		l.waiting[c.address] = slices.Delete(all, i, i+1)
	}
	return true
}

// admitted is an accepted connection.
type admitted struct {
	net.Conn

	of      *admission
	address netip.Addr // that it counts for
	since   time.Time
	timer   *time.Timer // closes it
	waits   atomic.Bool // it has yet to authenticate
}

// leaves ends its wait: from then on it is neither counted nor closed. It reports whether it has waited
// until now.
func (c *admitted) leaves() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.of.leave(c)
}

// Close implements net.Conn.
func (c *admitted) Close() error {
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
	known, _ := unmapped(remote)
	addr := known.Addr()
	if addr.Is4() {
		return addr
	}
	network, _ := addr.Prefix(64) // all others have one
	return network.Addr()
}
