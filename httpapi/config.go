package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/projections"
)

// Config is what the handlers work with. Ledger, Views, IDs, Links and
// PublicURL are needed; everything else has a default.
type Config struct {
	Ledger    eventstore.Ledger
	Views     *projections.Engine
	IDs       *domain.IDs      // the process's only source of event ids
	Now       func() time.Time // default: time.Now
	Links     *checkout.Links
	PublicURL string        // where the world reaches this program; base of links and of problem types
	Sandbox   Sandbox       // nil: no sandbox endpoints
	Webhooks  Webhooks      // nil: no endpoints for webhooks
	Limits    Limits        // zero: none
	Account   *account.File // of the account's sessions; nil: no account, and no times of use of keys
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none are kept
	Ready     func() error          // nil: always ready; the error says why not
	Degraded  func() []string       // nil: never; sentences on what waits although requests are answered
	Entropy   io.Reader             // default: crypto/rand; must be safe for concurrent use

	// RetrySchedule are the waits before each try of a notification, for the
	// page that explains them. Needed with Webhooks.
	RetrySchedule []time.Duration

	// Checkpoint answers a signed checkpoint of everything that is durable
	// when it is called, or more. nil: no endpoints for checkpoints.
	Checkpoint func(context.Context) ([]byte, error)

	// Stopping ends when the server begins to shut down: answers that would
	// go on for as long as the client stays end with it. nil: never.
	Stopping context.Context

	// MaxStreams is how many payment pages may follow their payment live. 0: 2000.
	MaxStreams int

	// Backup copies the log as it is at one moment: begin is told the position
	// of the last event in the copy and the bytes that will come, and answers
	// where they go. nil: no backups over the admin interface.
	Backup func(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error

	// Parked are the providers' signals that could not be judged. nil: none
	// over the admin interface.
	Parked Parked

	streams streamTimes
}

// Sandbox plays the provider: it sends the signal a provider would send and
// answers once the signal is recorded, or when ctx ends. The reference is the
// provider's name for the attempt.
type Sandbox interface {
	SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome, reference string) (domain.SignalReply, error)
	SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, outcome domain.Outcome, reference string) (domain.SignalReply, error)
}

// Parked are the signals that could not be judged, oldest first. found tells
// whether there is one of the id.
type Parked interface {
	List(ctx context.Context, after uint64, reason string, limit int) (domain.ParkedPage, error)
	Retry(ctx context.Context, id uint64) (reply domain.SignalReply, found bool, err error)
	Discard(ctx context.Context, id uint64) (found bool, err error)
	DiscardThrough(ctx context.Context, id uint64) (uint64, error)
}

// Rate is a token bucket: Burst requests at once, PerSecond on average. A
// zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Limits bound how often the API may be called.
type Limits struct {
	Writes              Rate // per project: every request that may change something
	Reads               Rate // per project: every other
	FailedAuthPerMinute int  // per client address; 0: no limit
	CustomersPerMinute  int  // requests to the payment page per client address, forms a tenth of it; 0: no limit
}

// DefaultLimits are those of a server that was told nothing else.
func DefaultLimits() Limits {
	return Limits{
		Writes:              Rate{PerSecond: 25, Burst: 50},
		Reads:               Rate{PerSecond: 100, Burst: 200},
		FailedAuthPerMinute: 10,
		CustomersPerMinute:  600,
	}
}

// prefix is the path of the public URL, "" for the root.
func (c Config) prefix() string {
	u, err := url.Parse(c.PublicURL)
	if err != nil { // checked before
		return ""
	}
	return u.EscapedPath()
}

// checked fills in the defaults and refuses what cannot work.
func (c Config) checked() (Config, error) {
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
	for _, r := range []Rate{c.Limits.Writes, c.Limits.Reads} {
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
	if c.Degraded == nil {
		c.Degraded = func() []string { return nil }
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	return c, nil
}
