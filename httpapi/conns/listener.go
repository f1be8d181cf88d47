package conns

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// Patience is how long a client may leave an answer unread.
	Patience = 30 * time.Second

	minStall   = 250 * time.Millisecond // a body that does not come or an answer that is not taken gives way only after it
	retryAfter = 100 * time.Millisecond // when no file can be opened and no connection can be evicted
)

// Config sets the limits of a Listener. Max is required.
type Config struct {
	Name       string        // in metrics and log records
	Max        int           // connections at once
	PerAddress int           // of them by one address; 0: no such limit
	Patience   time.Duration // 0: Patience
	Log        zerolog.Logger
	Metrics    prometheus.Registerer // nil: none
}

// Listener is a net.Listener for an http.Server, whose ConnState must be its
// State. Safe for concurrent use.
type Listener struct {
	net.Listener

	config Config
	report *report

	mu        sync.Mutex
	open      map[*conn]struct{}
	byAddress map[string]int
}

// New bounds a listener.
func New(l net.Listener, c Config) (*Listener, error) {
	if c.Max < 1 || c.PerAddress < 0 {
		return nil, fmt.Errorf("connections: at most %d, %d of an address: want 1 or more, and 0 or more", c.Max, c.PerAddress)
	}
	c.Patience = cmp.Or(c.Patience, Patience)
	out := &Listener{Listener: l, config: c, open: make(map[*conn]struct{}), byAddress: make(map[string]int)}
	out.report = newReport(c, func() float64 {
		out.mu.Lock()
		defer out.mu.Unlock()
		return float64(len(out.open))
	})
	return out, nil
}

// Accept implements net.Listener. When no more files can be opened, it evicts one connection and
// continues.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.report.count(noFiles, "")
			l.mu.Lock()
			evicted := l.evict("")
			l.mu.Unlock()
			if !evicted {
				<-time.After(retryAfter)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		raw.Close()
	}
}

// admit returns nil when the limit is reached and no other connection can be evicted.
func (l *Listener) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, of: l}
	if addr, name := ofRemote(raw.RemoteAddr().String()); addr.IsValid() && !mayBeProxy(addr) {
		c.address = name
	}
	c.yields.Store(later(0))
	l.mu.Lock()
	defer l.mu.Unlock()
	full := c.address != "" && l.config.PerAddress > 0 && l.byAddress[c.address] >= l.config.PerAddress
	if full && !l.evict(c.address) {
		l.report.count(tooManyOfAddress, c.address)
		return nil
	}
	if !full && len(l.open) >= l.config.Max && !l.evict("") {
		l.report.count(tooMany, c.address)
		return nil
	}
	l.open[c] = struct{}{}
	l.byAddress[c.address]++
	return c
}

// evict closes the connection, of one address or of all, whose client is waited for
// longest, if there is one. The caller holds mu.
func (l *Listener) evict(address string) bool {
	var victim *conn
	first := later(0)
	for c := range l.open {
		if at := c.yields.Load(); at != 0 && at <= first && (address == "" || c.address == address) {
			victim, first = c, at
		}
	}
	if victim == nil {
		return false
	}
	l.forget(victim)
	victim.ended(gaveWay)
	victim.Conn.Close()
	return true
}

// forget gives the connection's place back. The caller holds mu.
func (l *Listener) forget(c *conn) {
	if _, open := l.open[c]; !open {
		return
	}
	delete(l.open, c)
	if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
		delete(l.byAddress, c.address)
	}
}

// State is for http.Server.ConnState.
func (l *Listener) State(nc net.Conn, s http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	switch s {
	case http.StateActive:
		c.yields.Store(0)
	case http.StateIdle:
		c.begun.Store(false)
		c.yields.Store(later(0))
	}
}
