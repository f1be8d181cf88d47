package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"payledger/domain"
)

// connectTime bounds the way to a connection, from the name to the last of
// its addresses, and once more the TLS handshake on it.
const connectTime = 5 * time.Second

// useTime bounds the use of a connection for one attempt, on the connection
// itself: it ends there even where net/http has handed the connection to code
// that heeds no context, as it does after "101 Switching Protocols". It is
// longer than an attempt and the idle time after it together, so that it never
// cuts off an attempt that keeps its own limits.
const useTime = domain.AnswerTime + bodyTime + idleTime + time.Second

// maxAnswer and maxHandshake bound the bytes that are read: of an answer with its
// head, body and framing, and of a TLS handshake before it.
const (
	maxAnswer    = 64 << 10
	maxHandshake = 512 << 10
)

var errTooLong = errors.New("the receiver sends more than is read of an answer")

// failure is an error with its class.
type failure struct {
	class Class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// connect makes connections to where a notification may go.
type connect struct {
	// open is a net.Dialer's DialContext, with this Control.
	open  func(ctx context.Context, network, address string, control control) (net.Conn, error)
	guard control // nil: everything is allowed
	tls   *tls.Config

	sockets chan struct{} // has one in it for each connection
}

// control is called for each address that a name resolves to, when its socket
// exists and nothing was sent yet.
type control = func(network, address string, c syscall.RawConn) error

func newConnect(c Config, sockets int) *connect {
	d := &connect{
		open: func(ctx context.Context, network, address string, control control) (net.Conn, error) {
			dialer := net.Dialer{Resolver: c.Resolver, Control: control}
			return dialer.DialContext(ctx, network, address)
		},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs, NextProtos: []string{"http/1.1"}},

		sockets: make(chan struct{}, sockets),
	}
	if !c.AllowPrivate {
		d.guard = ssrf.New(ssrf.WithPorts(ports()...)).Safe
	}
	return d
}

// plain dials for http.
func (d *connect) plain(ctx context.Context, network, address string) (net.Conn, error) {
	m, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	renew(m)
	return m, nil
}

// dial makes the connection. The target is refused if the guard let none of its
// addresses pass; if one did, it is only unreachable.
func (d *connect) dial(ctx context.Context, network, address string) (*metered, error) {
	var passed atomic.Bool
	guarded := d.guard
	if guarded != nil {
		guarded = func(network, address string, c syscall.RawConn) error {
			err := d.guard(network, address, c)
			if err == nil {
				passed.Store(true)
			}
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	select {
	case d.sockets <- struct{}{}:
	case <-ctx.Done(): // only those that are being closed are too many, see Config.Requests
		return nil, &failure{ClassConnect, ctx.Err()}
	}
	release := sync.OnceFunc(func() { <-d.sockets })
	conn, err := d.open(ctx, network, address, guarded)
	if err == nil {
		m := &metered{Conn: conn, release: release}
		m.left.Store(maxHandshake)
		return m, nil
	}
	release()
	var dns *net.DNSError
	class := ClassConnect
	switch {
	case errors.As(err, &dns):
		class = ClassDNS
	case refusedByGuard(err) && !passed.Load():
		class = ClassRefusedTarget
	}
	return nil, &failure{class, err}
}

func refusedByGuard(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork) || errors.Is(err, ssrf.ErrInvalidHostPort)
}

// secure dials for https and shakes hands.
func (d *connect) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &failure{ClassRefusedTarget, err}
	}
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &failure{ClassTLS, fmt.Errorf("TLS handshake: %w", err)}
	}
	renew(conn)
	return conn, nil
}

// metered is a connection that reads a limited number of bytes for each request,
// and ends useTime after the last renewal.
type metered struct {
	net.Conn

	left    atomic.Int64
	release func() // gives the socket back
}

func (m *metered) Close() error {
	defer m.release()
	return m.Conn.Close()
}

// renew begins the use of a connection for one request: its bytes and its time.
func renew(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if m, ok := c.(*metered); ok {
		m.left.Store(maxAnswer)
		_ = m.SetDeadline(time.Now().Add(useTime)) // fails on a closed connection alone
	}
}

// Read reads until the limit and fails beyond it.
func (m *metered) Read(b []byte) (int, error) {
	left := m.left.Load()
	if left <= 0 {
		return 0, errTooLong
	}
	n, err := m.Conn.Read(b[:min(int64(len(b)), left)])
	m.left.Add(-int64(n))
	return n, err
}
