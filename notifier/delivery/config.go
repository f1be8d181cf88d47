package delivery

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/webhook"
)

// Config is what the lanes need. Every member is required unless it says
// otherwise.
type Config struct {
	Ledger   eventstore.Ledger
	Rows     Rows
	Views    Views
	Secrets  *webhook.Secrets
	Sender   Sender
	Schedule webhook.Schedule
	IDs      *domain.IDs

	Now    func() time.Time // nil: time.Now
	Random func() float64   // from 0 up to 1, safe for concurrent use; nil: math/rand
	Log    zerolog.Logger   // the zero value logs nothing
	Tracer *tracing.Tracer  // nil: attempts have no spans
	Limits Limits           // zero members: the defaults

	// Shared: other processes have the log and may have sent until now. An attempt that
	// was begun and whose end is missing is left alone until its request is over.
	Shared bool
}

// Rows is the fold of the log that says what is queued and what became of it: a
// *views.Deliveries.
type Rows interface {
	Fresh(ctx context.Context) error
	Wait(ctx context.Context, p eventstore.Position) error
	Watch(w *deliveries.Watch)

	State() deliveries.State
	Endpoints() map[string]*deliveries.Endpoint
	Endpoint(id string) deliveries.Endpoint
	Lane(endpoint string, payment domain.ID) (l deliveries.Lane, known bool, err error)
	Delivery(endpoint string, event domain.ID) (d deliveries.Delivery, known bool, err error)
	Due(ctx context.Context, endpoint string, after deliveries.DueKey, n int) ([]deliveries.DueKey, error)
	Of(ctx context.Context, event domain.ID) (endpoints []string, all []deliveries.Delivery, err error)
	Page(ctx context.Context, endpoint string, s domain.DeliveryState, before domain.ID, limit, look int) (found []deliveries.Delivery, last domain.ID, err error)
	Outdated(ctx context.Context, now domain.Instant) (bool, error)
	OldestPending(ctx context.Context, endpoint string) (event domain.ID, ok bool, err error)
}

// Views are what else the log says.
type Views interface {
	// Project has the webhook endpoints of a project as they are now.
	Project(ctx context.Context, id string) (projects.Project, bool, error)

	// PositionAt is the last position before the first event that is later than the time.
	PositionAt(ctx context.Context, at domain.Instant) (eventstore.Position, error)
}

// Sender makes attempts: a *webhook.Sender.
type Sender interface {
	// Send makes one attempt. Safe for concurrent use.
	Send(ctx context.Context, r webhook.Request) webhook.Outcome

	// Check says why a URL may not be called, nil if it may.
	Check(url string) error
}

// Limits bound what one endpoint gets, and all of them.
type Limits struct {
	Requests    int     // to all endpoints at the same time; default 1024
	Concurrency int     // requests at the same time; default 16
	Rate        float64 // requests per second, over time; default 1000
	Burst       int     // requests above that rate at once; default 1000
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.Limits = Limits{
		Requests:    cmp.Or(c.Limits.Requests, webhook.DefaultRequests),
		Concurrency: cmp.Or(c.Limits.Concurrency, 16),
		Rate:        cmp.Or(c.Limits.Rate, 1000),
		Burst:       cmp.Or(c.Limits.Burst, 1000),
	}
	return c
}
