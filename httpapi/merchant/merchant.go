package merchant

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
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
	IDs       *domain.IDs           // the process's only source of event ids
	Now       func() time.Time      // default: time.Now
	Links     *checkout.Links       // nil: payments have no links, and none can be made
	Routing   func() domain.Routing // the rules that choose new payments' routes; nil: they wait for one
	PublicURL string                // where the world reaches this program; base of links and of problem types
	Sandbox   Sandbox               // nil: no sandbox endpoints
	Webhooks  Webhooks              // nil: only for an administration without rows for webhooks
	KeyTimes  KeyTimes              // nil: only for an administration
	Tracer    *tracing.Tracer       // nil: requests have no spans
	Entropy   io.Reader             // default: crypto/rand; must be safe for concurrent use

	Limits              domain.Limits // of projects without limits; default: no rates, and sessions of the usual length
	FailedAuthPerMinute int           // per client address; 0: no limit

	// Checkpoint returns a signed checkpoint of everything that is durable
	// when it is called, or more. nil: no endpoints for checkpoints.
	Checkpoint func(context.Context) ([]byte, error)

	// Stopping ends when the server begins to shut down: answers that last as long as the client stays
	// end with it. nil: never.
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
		Tracer: c.Tracer,
	}
}

// checked fills in the defaults and refuses what cannot work.
func (c Config) checked() (Config, error) {
	if c.Ledger.Store == nil || c.Ledger.Codec == nil || c.Views == nil || c.IDs == nil {
		return c, errors.New("httpapi: Ledger, Views and IDs are needed")
	}
	base, err := url.Parse(c.PublicURL)
	switch {
	case err != nil:
		return c, fmt.Errorf("public URL: %w", err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return c, fmt.Errorf("public URL %q: want http:// or https://, a host and nothing after the path", c.PublicURL)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	usual := domain.DefaultLimits()
	c.Limits.SessionIdleSeconds = cmp.Or(c.Limits.SessionIdleSeconds, usual.SessionIdleSeconds)
	c.Limits.SessionMaxSeconds = cmp.Or(c.Limits.SessionMaxSeconds, usual.SessionMaxSeconds)
	if faults := c.Limits.Validate(); len(faults) > 0 {
		return c, fmt.Errorf("the limit %s is out of its bounds", faults[0].Field)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Entropy == nil {
		c.Entropy = rand.Reader
	}
	c.Heartbeat = cmp.Or(c.Heartbeat, 15*time.Second)
	return c, nil
}

// KeyTimes records when each API key, by its id, was used last. Use is called for every request,
// and does not block; LastUse is false when that is not known.
type KeyTimes interface {
	Use(key string, at time.Time)
	LastUse(key string) (domain.Instant, bool)
}

// Webhooks sends notifications and has their deliveries. Callers check that an endpoint is the
// project's.
type Webhooks interface {
	// Secret returns a signing secret of an endpoint. KeyVersion is that of
	// the master key for new ones, with which Secret does not fail.
	Secret(endpoint string, s projects.Secret) (string, error)
	KeyVersion() int

	// CheckTarget answers nil, or why a URL may not be called, in words that
	// are shown to the merchant.
	CheckTarget(url string) error

	// Test sends endpoint.test. The refusal is webhook_endpoint_disabled.
	Test(ctx context.Context, project, endpoint string) (domain.DeliveryObject, error)

	// Resend makes a delivery pending again. Refusals are delivery_not_found,
	// delivery_superseded with the event that can be sent, and
	// webhook_endpoint_disabled.
	Resend(ctx context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error)

	// RecoverSince enqueues the newest snapshot of every payment of which an
	// event since the instant was not delivered, and returns how many.
	RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (enqueued int, err error)

	// Deliveries lists deliveries, the newest first. An After that is not from a page is an
	// invalid_cursor refusal.
	Deliveries(ctx context.Context, f domain.DeliveryFilter) (domain.DeliveryPage, error)

	// Health is the state of deliveries to an endpoint; for an endpoint without deliveries the zero
	// value.
	Health(ctx context.Context, endpoint string) (domain.EndpointHealth, error)
}

// API does what merchants ask for. An operation is a method that takes a
// context, the Caller and its typed input, and returns a typed output or an
// error; wire.Problem, domain.FieldErrors and *domain.Refusal among the errors
// are what the caller did wrong. Handlers, which read requests and write
// answers, are on Handlers. Safe for concurrent use.
type API struct {
	cfg      Config
	nobody   projects.Project // what unknown ones are checked as: no secret has its key's hash
	writes   *edge.Limiter
	reads    *edge.Limiter
	failures *edge.Limiter
	feeds    places
	lists    places
	folded   sync.Map // of a project's id to folded
}

// Handlers answer requests by the operations of an API. The method of an
// operation has the name of its operationId in openapi.yaml.
type Handlers struct{ api *API }

// Handlers answer the requests of keys.
func (a *API) Handlers() Handlers { return Handlers{a} }

// Config is the configuration with its defaults.
func (a *API) Config() Config { return a.cfg }

// New checks the configuration.
func New(c Config) (*API, error) {
	c, err := c.checked()
	if err != nil {
		return nil, err
	}
	a := &API{
		cfg: c, nobody: projects.Project{Keys: []projects.Key{{}}},
		writes: edge.NewLimiter("writes"), reads: edge.NewLimiter("reads"),
		failures: edge.NewLimiter("failed-authentication"),
		feeds:    places{number: MaxFeeds}, lists: places{number: maxLists},
	}
	return a, nil
}
