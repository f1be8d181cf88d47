package merchant

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/checkout"
	"payledger/httpapi/edge"
	"payledger/projections"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what the operations work with.
type Config struct {
	Ledger    eventstore.Ledger
	Views     *projections.Engine
	IDs       *domain.IDs      // the process's only source of event ids
	Now       func() time.Time // default: time.Now
	Links     *checkout.Links
	PublicURL string      // where the world reaches this program; base of links and of problem types
	Sandbox   Sandbox     // nil: no sandbox endpoints
	Webhooks  Webhooks    // nil: no endpoints for webhooks
	KeyTimes  KeyTimes    // nil: times of use of keys are not kept
	Limits    edge.Limits // zero: none
	Entropy   io.Reader   // default: crypto/rand; must be safe for concurrent use

	// Checkpoint answers a signed checkpoint of everything that is durable
	// when it is called, or more. nil: no endpoints for checkpoints.
	Checkpoint func(context.Context) ([]byte, error)

	// Stopping ends when the server begins to shut down: answers that would
	// go on for as long as the client stays end with it. nil: never.
	Stopping context.Context

	// Heartbeat is the time between signs of life in a feed that has nothing
	// to send. 0: 15 s.
	Heartbeat time.Duration
}

// Prefix is the path of the public URL, "" for the root.
func (c Config) Prefix() string {
	u, err := url.Parse(c.PublicURL)
	if err != nil { // checked before
		return ""
	}
	return u.EscapedPath()
}

// Edge is the edge of a listener, which is its label in metrics.
func (c Config) Edge(log zerolog.Logger, m prometheus.Registerer, listener string) edge.Config {
	return edge.Config{
		Now: c.Now, Entropy: c.Entropy, PublicURL: c.PublicURL, Log: log, Metrics: m, Listener: listener, Explain: Explain,
	}
}

// Checked fills in the defaults and refuses what cannot work.
func (c Config) Checked() (Config, error) {
	if c.Ledger.Store == nil || c.Ledger.Codec == nil || c.Views == nil || c.IDs == nil || c.Links == nil {
		return c, errors.New("httpapi: Ledger, Views, IDs and Links are needed")
	}
	base, err := url.Parse(c.PublicURL)
	switch {
	case err != nil:
		return c, fmt.Errorf("public URL: %w", err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return c, fmt.Errorf("public URL %q: want http:// or https://, a host and nothing after the path", c.PublicURL)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	for _, r := range []edge.Rate{c.Limits.Writes, c.Limits.Reads} {
		if r.PerSecond < 0 || r.Burst < 0 || (r.PerSecond > 0) != (r.Burst > 0) {
			return c, fmt.Errorf("rate limit of %v/s, burst %d: want both above 0, or both 0 for no limit", r.PerSecond, r.Burst)
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Entropy == nil {
		c.Entropy = rand.Reader
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	return c, nil
}

// KeyTimes keeps when each API key was used last.
type KeyTimes interface {
	Use(project, key string, at time.Time)
	LastUse(project, key string) (domain.Instant, bool)
}

// API does what merchants ask for. An operation is a method that takes a
// context, the Caller and its typed input, and answers a typed output or an
// error; wire.Problem, domain.FieldErrors and *domain.Refusal among the errors
// are what the caller did wrong. Handlers, which read requests and write
// answers, are on Handlers. Safe for concurrent use.
type API struct {
	cfg      Config
	nobody   domain.Project
	writes   *edge.Limiter // nil, as the next two: no limit
	reads    *edge.Limiter
	failures *edge.Limiter
	feeds    openStreams
}

// Handlers answer requests by the operations of an API. The method of an
// operation has the name of its operationId in openapi.yaml.
type Handlers struct {
	api    *API
	caller func(*edge.Exchange) (Caller, error)
}

// Handlers answer the requests of keys.
func (a *API) Handlers() Handlers {
	return Handlers{a, func(x *edge.Exchange) (Caller, error) { return CallerOf(x), nil }}
}

// HandlersFor answer the operator's requests; project finds the project that
// a request is about.
func (a *API) HandlersFor(project func(*edge.Exchange) (domain.Project, error)) Handlers {
	return Handlers{a, func(x *edge.Exchange) (Caller, error) {
		p, err := project(x)
		return Operator(p), err
	}}
}

// New checks the configuration.
func New(c Config) (*API, error) {
	c, err := c.Checked()
	if err != nil {
		return nil, err
	}
	a := &API{
		cfg: c, nobody: nobody(),
		writes: edge.NewLimiter("writes", c.Limits.Writes),
		reads:  edge.NewLimiter("reads", c.Limits.Reads),
		feeds:  openStreams{byProject: make(map[string]int)},
	}
	if n := c.Limits.FailedAuthPerMinute; n > 0 {
		a.failures = edge.NewLimiter("failed-authentication", edge.Rate{PerSecond: float64(n) / 60, Burst: n})
	}
	return a, nil
}
