// Package bus is NATS as the ledger uses it: the connection to the server embedded
// in this process or to an external one, the JetStream streams, the subjects, the
// consumers of outsiders, and the form of events, signals and checkpoints as
// messages. The embedded server itself is package embedded.
//
// Publisher writes events into EVENTS, ReadEvents reads them all.
package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Conn is the ledger's connection to NATS, embedded or external. It reconnects forever; while it is
// cut off, publishing fails at once instead of filling a buffer. Safe for concurrent use.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	server Embedded // nil: external
	closed chan struct{}

	session atomic.Pointer[session]
}

// session lasts until the connection is lost for the next time.
type session struct {
	ctx context.Context
	end context.CancelFunc
}

func newSession() *session {
	ctx, end := context.WithCancel(context.Background()) //nolint:forbidigo // no caller: it lasts as long as the connection
	return &session{ctx, end}
}

// The times of a connection.
const (
	requestTimeout      = 5 * time.Second
	ackTimeout          = 5 * time.Second
	reconnectEmbedded   = 50 * time.Millisecond
	reconnectExternal   = time.Second
	connectTimeout      = 5 * time.Second
	pingInterval        = 20 * time.Second // so that a silent loss is noticed within a minute
	publishedUnanswered = 1024             // bounds what awaits JetStream's answer, all publishers together
)

// away is what is logged when the connection is lost.
const away = "NATS is away; payments continue, what follows from them waits"

// Embedded is what a connection needs of the NATS server in this process, which
// is package embedded's.
type Embedded interface {
	InProcessConn() (net.Conn, error)
	Password() string // of the users of the ledger's account
	Addr() net.Addr   // for clients; nil: it does not listen
	Consumers() *Consumers
	ReloadConsumers() error // after a change of them
	// ForgetConsumer deletes the files of a consumer that the server did not load,
	// and reports whether there were any.
	ForgetConsumer(stream, consumer string) (lost bool, err error)
	// Replicas is how many servers keep each JetStream stream, this one included.
	Replicas() int
}

// EmbeddedStart bounds how long an embedded server reads a large directory. After
// a crash JetStream reads all of it: a million payments take some 7 s.
const EmbeddedStart = time.Hour

// Users of an embedded server. The first two are this process. Only the relay may
// write events, so that none of the others can take an event's place.
const (
	UserLedger    = "ledger"
	UserRelay     = "relay"
	ConnectorUser = "connector"
)

// ConnectEmbedded connects a user of the ledger's account to the embedded server:
// UserLedger or UserRelay.
func ConnectEmbedded(s Embedded, user string, log zerolog.Logger) (*Conn, error) {
	return connect(nats.DefaultURL, &Conn{server: s}, log,
		nats.InProcessServer(s), nats.UserInfo(user, s.Password()), nats.ReconnectWait(reconnectEmbedded))
}

// External are NATS servers of the operator's.
type External struct {
	// URL may list several servers, separated by commas, and may carry credentials,
	// which need full rights on payledger.>, _INBOX.>, _INBOX_ledger.>,
	// _INBOX_connector.> and JetStream. Empty: the embedded server is used.
	URL     string
	Options []nats.Option // other credentials, TLS
}

// Connect connects the ledger to an external NATS server or cluster with
// JetStream. Connect does not wait for the server: while it cannot be reached, the
// connection keeps trying. The error is about the URL.
func Connect(e External, log zerolog.Logger) (*Conn, error) {
	for server := range strings.SplitSeq(e.URL, ",") {
		if err := checkServer(strings.TrimSpace(server)); err != nil {
			return nil, err
		}
	}
	return connect(e.URL, &Conn{}, log, append(slices.Clone(e.Options), nats.ReconnectWait(reconnectExternal))...)
}

// checkServer refuses an address that no NATS server can have, which nats.go would try forever.
func checkServer(server string) error {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return fmt.Errorf("not the URL of a NATS server: %w", redacted(err))
	case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme), u.Hostname() == "",
		strings.Contains(u.Hostname(), ":") && u.Host[0] != '[':
		return fmt.Errorf("%s is not the URL of a NATS server: want nats://HOST:PORT, or tls, ws or wss", u.Redacted())
	}
	return nil
}

func connect(rawURL string, c *Conn, log zerolog.Logger, more ...nats.Option) (*Conn, error) {
	c.closed = make(chan struct{})
	c.session.Store(newSession())
	options := append([]nats.Option{
		nats.Name("payledger"),
		nats.CustomInboxPrefix(InboxLedger),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.session.Swap(newSession()).end()
			if err != nil {
				log.Warn().Err(err).Msg(away)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg("NATS is back")
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		// Each operation reports its own errors.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Debug().Err(err).Msg("NATS")
		}),
	}, more...)
	var err error
	if c.nc, err = nats.Connect(rawURL, options...); err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", redacted(err))
	}
	if !c.nc.IsConnected() {
		log.Warn().Msg(away)
	}
	if c.js, err = jetstream.New(c.nc,
		jetstream.WithDefaultTimeout(requestTimeout),
		jetstream.WithPublishAsyncTimeout(ackTimeout),
		jetstream.WithPublishAsyncMaxPending(publishedUnanswered)); err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return c, nil
}

// redacted keeps a password in a malformed URL out of the message.
func redacted(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// NATS is the connection itself.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Embedded reports whether the server is the one in this process, whose JetStream only the ledger
// uses.
func (c *Conn) Embedded() bool { return c.server != nil }

// Replicas is how many servers keep a JetStream stream that is made. That of a
// stream of an external server is the operator's to raise.
func (c *Conn) Replicas() int {
	if c.server == nil {
		return 1
	}
	return c.server.Replicas()
}

// Err says why NATS cannot be used just now; nil when it can.
func (c *Conn) Err() error {
	if c.nc.IsConnected() {
		return nil
	}
	if err := c.nc.LastError(); err != nil {
		return fmt.Errorf("NATS is away: %w", err)
	}
	return errors.New("NATS is away")
}

// WhileConnected derives a context that also ends when the connection is lost:
// the answer to a request that was under way then will not come.
func (c *Conn) WhileConnected(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.session.Load().ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Server is the embedded server, nil when the server is external.
func (c *Conn) Server() Embedded { return c.server }

// JetStream is the ledger's JetStream.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Close sends what is buffered and closes the connection. Whoever uses it has
// stopped before.
func (c *Conn) Close() {
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(time.Second) // nothing that is lost here is missed
	}
	c.nc.Close()
	<-c.closed
}
