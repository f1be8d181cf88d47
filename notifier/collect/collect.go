// Package collect completes what is open in the ledger at the providers: attempts to pay, refunds,
// and returns of late funds.
//
// The log is the list of what there is to do. An attempt is recorded as begun before its provider
// is called, as offered before the customer is sent on, and as failed or paid when the provider has
// said so; a refund is pending until then. The work on a payment reads its state, makes the one
// call that the state requires, and records the result. So no other state is needed: a crash
// between any two steps leads to the same call with the same key. Only the time of a payment's next
// poll and its customer's hand-off are in memory; a payment that is not in memory is found in the
// view of uncollected payments.
//
// There is one call at a time for a payment, at most one poll in MinInterval, and polls have
// growing pauses. A route has a limit of concurrent calls, a limit of calls per second, and a
// breaker, so that a provider that is slow or away delays no other and is not overrun. Refunds are
// requested, and attempts polled, until the provider has reported the end. An attempt without any
// news for MaxSilence is closed.
//
// Outcomes become signals on NATS, as those of any connector, and package signals judges them. The
// content of a notification or of a customer's return is never trusted: both lead to a poll of the
// provider.
package collect

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
	"payledger/notifier/health"
)

// The times of the work.
const (
	MinInterval = 2 * time.Second     // between two polls of one attempt
	MaxSilence  = 30 * 24 * time.Hour // after which an attempt of which nothing is learned is closed
	callTime    = 15 * time.Second    // of one call of a connector
	rescan      = time.Minute         // between two scans of the view

	disputeInterval = time.Hour // between two polls of open disputes
	alarmAfter      = time.Hour // that an attempt is open after its payment's end

	maxTasks  = 1 << 16 // payments in memory; others wait in the view
	maxSteps  = 256     // payments that are worked on at a time, of all routes
	scanBatch = 512
)

// Views are the reads that the work needs. Each shows what was durable when it was
// called.
type Views interface {
	Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error)
	PaymentOfReference(ctx context.Context, route, reference string) (domain.ID, bool, error)
	EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(o domain.Outstanding, payment domain.ID) error) error
}

// Config configures a Collector.
type Config struct {
	Ledger eventstore.Ledger
	IDs    *domain.IDs
	Now    func() time.Time
	Routes *connector.Set
	Views  Views
	// Paused reports whether the operator has paused the route: no attempt begins on it, and what is
	// open there continues. nil: none is.
	Paused func(route string) bool
	// Signal sends an outcome and returns what the judge recorded; as
	// connector.Sender.Send.
	Signal func(ctx context.Context, project string, payment domain.ID, s domain.Signal, said bus.Said) (domain.SignalReply, error)
	// ReturnURL is where the provider redirects the customer back to. It depends only on the payment:
	// it is part of a request that is repeated under one key.
	ReturnURL func(domain.Payment) string
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none
	Tracer    *tracing.Tracer       // nil: calls have no spans
}

// Collector works on what is open. Safe for concurrent use.
type Collector struct {
	config   Config
	tasks    *tasks
	limiters *limiters
	metrics  *metrics
	trouble  health.State

	backlogs atomic.Pointer[map[string]Backlog] // by route, as the last scan found them; the map is never changed
	rescan   atomic.Bool                        // the view is to be scanned at once
}

// New makes a collector; Run lets it work.
func New(c Config) *Collector {
	if c.Paused == nil {
		c.Paused = func(string) bool { return false }
	}
	co := &Collector{
		config: c, tasks: newTasks(c.Now), limiters: newLimiters(c.Now), trouble: health.State{Log: c.Log, Part: "collector"},
	}
	co.metrics = newMetrics(c.Metrics, co.tasks, c.Routes)
	co.backlogs.Store(new(map[string]Backlog))
	health.UpGauge(c.Metrics, "collector", "what is open at providers is polled", co.trouble.Err)
	return co
}

// RoutesChanged loads what is open on new routes, and starts their counters at 0.
func (c *Collector) RoutesChanged() {
	c.metrics.seed(c.config.Routes)
	c.rescan.Store(true)
	c.tasks.wake()
}

// beginnings open something at a provider.
func beginnings() []string {
	return []string{domain.TypeRefundCreated, domain.TypeReturnCreated, domain.TypePaymentAttemptBegun}
}

// ends of a payment mostly leave nothing open.
func ends() []string {
	return []string{domain.TypePaymentPaid, domain.TypePaymentExpired, domain.TypePaymentFailed}
}

// Hear loads what an event of a payment opens or may have left open. It does not wait, and what it
// misses is found in the view.
func (c *Collector) Hear(typ string, id domain.ID) {
	if slices.Contains(beginnings(), typ) || slices.Contains(ends(), typ) && c.tasks.has(id) {
		c.tasks.dueNow(id)
	}
}

// Wake has a payment polled soon, for instance because its customer came back.
func (c *Collector) Wake(id domain.ID) { c.tasks.dueNow(id) }

// Run works until ctx ends; then no call is under way. An error is the store's: the
// log takes no more commands.
func (c *Collector) Run(ctx context.Context) error {
	steps, ctx := errgroup.WithContext(ctx)
	steps.SetLimit(maxSteps)
	scanned := time.Time{}
	for ctx.Err() == nil {
		if c.rescan.Swap(false) || c.config.Now().Sub(scanned).Abs() >= rescan { // Abs: the clock may be set back
			c.trouble.Set(c.scan(ctx))
			scanned = c.config.Now()
		}
		due, pause := c.tasks.due()
		for _, id := range due {
			steps.Go(func() error { return c.work(ctx, id) })
		}
		select {
		case <-ctx.Done():
		case <-c.tasks.woken:
		case <-time.After(pause):
		}
	}
	return steps.Wait()
}

// work makes one step for a payment, and says when the next one is due. The error
// ends the collector.
func (c *Collector) work(ctx context.Context, id domain.ID) error {
	t, ok := c.tasks.tryLock(id)
	if !ok {
		return nil // another goroutine works on it and sets the next time
	}
	defer c.tasks.unlock(t)
	p, ok, err := c.config.Views.Payment(ctx, id)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		c.trouble.Set(err)
		t.next(time.Second)
		return nil
	case !ok || !p.Uncollected():
		return nil
	}
	conn, ok := c.config.Routes.Connector(p.Route)
	if !ok {
		return nil
	}
	if rest := t.rest(); rest > 0 {
		t.next(rest)
		return nil
	}
	leave, wait := c.limiters.of(p.Route).enter()
	if leave == nil {
		t.next(wait)
		return nil
	}
	defer leave()
	again, err := c.step(ctx, t, conn, p)
	t.tried(err)
	if health.Ends(err) {
		return err
	}
	t.next(again)
	return nil
}

// attemptOf is the attempt as a connector gets it.
func (c *Collector) attemptOf(p domain.Payment, a domain.Attempt) connector.Attempt {
	var payload struct {
		Receipt jsontext.Value `json:"receipt"`
	}
	if json.Unmarshal(p.Payload, &payload) != nil {
		payload.Receipt = nil
	}
	return connector.Attempt{
		Project: p.Project, Payment: p.ID, Number: a.Number, Key: domain.AttemptKey(p.ID, a.Number), Reference: a.Reference,
		Amount: p.Amount, Currency: p.Currency, BegunAt: a.BegunAt, ExpiresAt: p.ExpiresAt,
		ReturnURL: c.config.ReturnURL(p), Language: a.Language, Merchant: a.Merchant, Receipt: payload.Receipt,
	}
}

// ErrNoConnector: the payment's route has no connector that makes attempts.
var ErrNoConnector = errors.New("the payment's route has no connector that makes attempts")
