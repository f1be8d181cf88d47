package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/client"
)

// bodyTime is how long the body of an answer, which decides nothing, may take
// after the head.
const bodyTime = 2 * time.Second

// Idle connections end before the receiver's side ends them (the shortest
// usual limit is Node's five seconds), so that no request meets a closing one.
// There are at most as many as requests under way, and half of them to one host.
const (
	idleTime = 4 * time.Second
	maxIdle  = 512
)

// DefaultRequests is how many attempts are made at the same time by default.
const DefaultRequests = 1024

// Config is how notifications are sent.
type Config struct {
	// Requests is how many attempts the caller makes at the same time, at most. Besides their
	// connections at most as many idle ones are kept for reuse, and a quarter as many are being
	// dialled. Default: DefaultRequests.
	Requests int

	// AllowPrivate permits http, every port and every address, for
	// development.
	AllowPrivate bool

	// UserAgent is the header of that name. Default: "payledger".
	UserAgent string

	// Resolver and RootCAs replace those of the system.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool

	// Transport carries the requests in place of the network. Then only the URL
	// is checked, and no resolved address.
	Transport http.RoundTripper
}

// Sender makes attempts, many at the same time. Connections are kept and used
// again for a few seconds.
type Sender struct {
	config  Config
	pool    *http.Transport
	dialer  *net.Dialer
	connect dial // of dialer

	sockets chan struct{} // has one in it for each connection
	spare   chan struct{} // has one in it for each dial whose attempt does not need it

	dialing sync.RWMutex // is held for reading by each dial
	closed  context.Context
	close   context.CancelFunc
}

// Request is one attempt to notify.
type Request struct {
	URL     string
	ID      string    // the event's
	Attempt int       // from 1
	At      time.Time // when the attempt begins
	Body    []byte
	Secrets []string // the newest first, see Sign
	Trace   domain.Traceparent
}

// NewSender returns a Sender, which lives until Close.
func NewSender(c Config) *Sender {
	c.UserAgent, c.Requests = cmp.Or(c.UserAgent, "payledger"), cmp.Or(c.Requests, DefaultRequests)
	idle, spare := min(maxIdle, c.Requests), c.Requests/4
	s := &Sender{config: c, sockets: make(chan struct{}, c.Requests+idle+spare), spare: make(chan struct{}, spare)}
	s.closed, s.close = context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	s.pool, s.dialer = client.Transport(client.Config{AllowPrivate: c.AllowPrivate, Resolver: c.Resolver, RootCAs: c.RootCAs})
	s.connect = s.dialer.DialContext
	s.pool.DialContext, s.pool.DialTLSContext = s.needed(s.plain), s.needed(s.secure)
	s.pool.MaxIdleConns, s.pool.MaxIdleConnsPerHost, s.pool.IdleConnTimeout = idle, max(idle/2, 1), idleTime
	if c.Transport == nil {
		s.config.Transport = s.pool
	}
	return s
}

// Close ends the connections. It waits for dials under way, not for attempts:
// they end with their contexts, before this.
func (s *Sender) Close() {
	s.close()
	s.dialing.Lock()
	defer s.dialing.Unlock()
	s.pool.CloseIdleConnections()
}

// Send makes one attempt. It takes at most some 17 seconds. If ctx ends before
// that, the class is ClassCancelled, which says nothing about the receiver.
func (s *Sender) Send(ctx context.Context, r Request) Outcome {
	began := time.Now()
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := s.request(attempt, r)
	if err != nil {
		return failed(ClassRefusedTarget)
	}
	signed, err := Sign(r.ID, r.At, r.Body, r.Secrets...)
	if err != nil {
		return failed(ClassUnsigned)
	}
	maps.Copy(req.Header, signed)

	var begun atomic.Bool // an answer
	dialing, connected := context.WithCancel(attempt)
	defer connected()
	req = traced(dialing, req, connected, &begun)
	head := time.AfterFunc(domain.AnswerTime, cancel)
	resp, err := s.config.Transport.RoundTrip(req)
	inTime := head.Stop()
	if err != nil {
		o := failed(classOf(ctx, err, inTime, begun.Load()))
		o.Duration = time.Since(began)
		return o
	}
	o := answered(resp, time.Now())
	o.Duration = time.Since(began)
	if resp.StatusCode >= http.StatusOK { // what follows a 101 is no body, and no context ends it
		body := time.AfterFunc(bodyTime, cancel)
		o.Answer = readAnswer(resp.Body)
		body.Stop()
	}
	resp.Body.Close()
	return o
}

// request builds the attempt, whose headers are these and no others.
func (s *Sender) request(ctx context.Context, r Request) (*http.Request, error) {
	u, err := parseTarget(r.URL, s.config.AllowPrivate)
	if err != nil {
		return nil, err
	}
	req := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {s.config.UserAgent},
			HeaderAttempt:  {strconv.Itoa(r.Attempt)},
		},
		Body:          io.NopCloser(bytes.NewReader(r.Body)),
		ContentLength: int64(len(r.Body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Body)), nil },
	}
	if r.Trace != "" {
		req.Header[HeaderTraceparent] = []string{string(r.Trace)}
	}
	return req.WithContext(ctx), nil
}

// traced watches the request: it renews its connection, calls connected when there
// is one, so that a dial still under way counts as spare, and sets
// begun when an answer begins.
func traced(dialing context.Context, req *http.Request, connected func(), begun *atomic.Bool) *http.Request {
	ctx := context.WithValue(req.Context(), dialingKey{}, dialing)
	return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			connected()
			renew(i.Conn, maxAnswer)
		},
		GotFirstResponseByte: func() { begun.Store(true) },
	}))
}

// classOf classifies an error before the whole head of an answer.
func classOf(ctx context.Context, err error, inTime, begun bool) Class {
	var f *failure
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ClassCancelled
	case errors.As(err, &f):
		return f.class
	case !inTime, errors.As(err, &timeout) && timeout.Timeout():
		return ClassTimeout
	case !begun, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return ClassReset
	default:
		return ClassBadResponse
	}
}
