package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/client"
)

// useTime bounds the use of a connection for one attempt, on the connection itself: it ends there
// even where net/http has passed the connection to code that ignores contexts, as it does after
// "101 Switching Protocols". It is longer than an attempt and the idle time after it together, so
// that it never cuts off an attempt that keeps its own limits.
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

// dialingKey is the key, in the context that the transport dials with, of the
// context that ends when the attempt no longer needs the dial. The transport's
// own context does not end then.
type dialingKey struct{}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// needed dials by next until the Sender is closed. When another connection becomes free first, the
// transport lets a dial continue for the next attempt: the size of spare bounds these, because each
// takes a socket.
func (s *Sender) needed(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dialing.RLock()
		defer s.dialing.RUnlock()
		if s.closed.Err() != nil {
			return nil, &failure{ClassCancelled, net.ErrClosed}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.closed, cancel)()
		if dialing, ok := ctx.Value(dialingKey{}).(context.Context); ok {
			defer context.AfterFunc(dialing, func() {
				select {
				case s.spare <- struct{}{}:
					<-ctx.Done()
					<-s.spare
				default:
					cancel()
				}
			})()
		}
		return next(ctx, network, address)
	}
}

// plain dials for http, and makes the connection for secure. The target is refused
// if the guard let none of its addresses pass; if one did, it is only unreachable.
func (s *Sender) plain(ctx context.Context, network, address string) (net.Conn, error) {
	var passed atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
		if !client.Refused(err) {
			passed.Store(true)
		}
	}})
	ctx, cancel := context.WithTimeout(ctx, client.ConnectTime)
	defer cancel()
	select {
	case s.sockets <- struct{}{}:
	case <-ctx.Done(): // only those that are being closed are too many, see Config.Requests
		return nil, &failure{ClassConnect, ctx.Err()}
	}
	release := sync.OnceFunc(func() { <-s.sockets })
	conn, err := s.connect(ctx, network, address)
	if err == nil {
		m := &metered{Conn: conn, release: release}
		renew(m, maxHandshake)
		return m, nil
	}
	release()
	switch {
	case errors.As(err, new(*net.DNSError)):
		return nil, &failure{ClassDNS, err}
	case client.Refused(err) && !passed.Load():
		return nil, &failure{ClassRefusedTarget, err}
	default:
		return nil, &failure{ClassConnect, err}
	}
}

// secure dials for https and shakes hands.
func (s *Sender) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &failure{ClassRefusedTarget, err}
	}
	raw, err := s.plain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := s.pool.TLSClientConfig.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	ctx, cancel := context.WithTimeout(ctx, client.ConnectTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &failure{ClassTLS, fmt.Errorf("TLS handshake: %w", err)}
	}
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

// renew begins the use of a connection for one request or a handshake: its bytes
// and its time.
func renew(c net.Conn, bytes int64) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if m, ok := c.(*metered); ok {
		m.left.Store(bytes)
		_ = m.SetDeadline(time.Now().Add(useTime)) // fails only on a closed connection
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
