// Package admission bounds the TCP connections whose clients have not yet proved who
// they are.
//
// A connection that a Listener accepts waits until Authenticated is called, and is
// closed after Patience otherwise. At most PerAddress connections of one address wait,
// and at most Max of all; those that have authenticated do not count.
//
// In a full Listener no address keeps others out: a new connection replaces the oldest one of the
// address that has most. One of that address itself replaces it only if the oldest one has waited
// for some time, and is closed at once otherwise, so that a client that connects again and again
// costs little.
//
// An address is an IPv4 address, or the /64 in which an IPv6 client can choose its own.
package admission

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// Patience is how long a client may take to authenticate.
	Patience = 2 * time.Second
	// Max bounds the connections that wait.
	Max = 128
	// PerAddress bounds those of one address.
	PerAddress = 64

	settled    = 250 * time.Millisecond // before it gives way to one of the same address
	retryAfter = 100 * time.Millisecond // when no file can be opened
	reportEach = 30 * time.Second
)

// Listener accepts connections. Safe for concurrent use.
type Listener struct {
	listener net.Listener
	log      zerolog.Logger

	mu      sync.Mutex
	waiting map[netip.Addr][]*Conn // the oldest first
	count   int
}

// New bounds a listener. The name is that of log records.
func New(l net.Listener, name string, log zerolog.Logger) *Listener {
	return &Listener{
		listener: l, waiting: make(map[netip.Addr][]*Conn),
		log: log.With().Str("listener", name).Logger().Sample(&zerolog.BurstSampler{Burst: 1, Period: reportEach}),
	}
}

// Accept waits for a connection. It continues when no more files can be opened, and fails only once
// the listener is closed.
func (l *Listener) Accept() (*Conn, error) {
	for {
		raw, err := l.listener.Accept()
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

// Addr is the listener's address.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close takes no more connections. Those that were accepted stay.
func (l *Listener) Close() error { return l.listener.Close() }

// Waiting is how many connections wait.
func (l *Listener) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// admit returns nil if the connection has to give way to those that wait.
func (l *Listener) admit(raw net.Conn, now time.Time) *Conn {
	c := &Conn{Conn: raw, of: l, address: addressOf(raw.RemoteAddr()), since: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.waiting[c.address]
	if full := l.count >= Max; full || len(own) >= PerAddress {
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
func (l *Listener) most(first []*Conn) []*Conn {
	for _, all := range l.waiting {
		if len(all) > len(first) {
			first = all
		}
	}
	return first
}

// leave reports whether the connection has waited until now. The caller holds mu.
func (l *Listener) leave(c *Conn) bool {
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
