package delivery

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/delivery/store"
	"payledger/notifier/webhook"
)

// Config is what the lanes need. Every member is required unless it says
// otherwise.
type Config struct {
	Path  string    // of the lane file; it is made when it is not there
	Mark  string    // of the file beside it that tells the lane file from older copies
	LogID domain.ID // of the event log

	Ledger    eventstore.Ledger
	Endpoints Endpoints
	Secrets   *webhook.Secrets
	Sender    Sender
	Schedule  webhook.Schedule // nil: webhook.DefaultSchedule
	IDs       *domain.IDs      // for endpoint.test, and for events that disable endpoints

	Now     func() time.Time      // nil: time.Now
	Random  func() float64        // from 0 up to 1, safe for concurrent use; nil: math/rand
	Log     zerolog.Logger        // the zero value logs nothing
	Full    func() bool           // the disk has too little room to write to the file; asked by one goroutine; nil: never
	Metrics prometheus.Registerer // nil: none
	Tracer  *tracing.Tracer       // nil: attempts have no spans
	Limits  Limits                // zero members: the defaults

	// Lead, on a node of a cluster, brings the lane file to what the other nodes have,
	// ends the part of the node that led before, and has each change shared from
	// then on. Attempts that the other node had begun are left alone until its requests
	// are over. Where the file does not have them (store.Tables.RequestsUnknown), nothing
	// at all is sent until then. When sharing fails, so does Run. nil: there is one node.
	Lead func(context.Context, *store.File) error
}

// Endpoints finds the webhook endpoints of a project as they are now.
type Endpoints interface {
	Project(ctx context.Context, id string) (projects.Project, bool, error)
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

// Event is what the fan-out hands over: one event for one endpoint.
type Event struct {
	Project, Endpoint string
	Payment, ID       domain.ID
	Kind              domain.Kind
	Sequence          uint64 // within the payment
	Position          eventstore.Position

	// Unconfirmed is an outcome from before the lane file was made, with a later
	// event of its payment behind it. Whether it was delivered is unknown, and
	// sending it could move the merchant's status backward: it is listed, not sent.
	Unconfirmed bool
}
