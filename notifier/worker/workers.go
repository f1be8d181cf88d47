// Package worker acts on payments by itself: it gives new payments a route and
// expires payments whose time is over.
package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// UnroutedView knows the payments that have no route yet.
type UnroutedView interface {
	// OldestUnrouted is the lowest position of a payment.created whose payment
	// is still in status created, of all payments up to the log's end at the
	// time of the call.
	OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error)
	// EachUnrouted calls fn for the positions of all such events, lowest first, from
	// behind a position, up to limit, and returns fn's error.
	EachUnrouted(ctx context.Context, after eventstore.Position, limit int, fn func(created eventstore.Position) error) error
}

// DueView knows when payments expire.
type DueView interface {
	// EachDue calls fn for up to limit payments whose expiry is due before an
	// instant, soonest first, and returns fn's error.
	EachDue(ctx context.Context, before domain.Instant, limit int, fn func(project string, payment domain.ID) error) error
	// NextDue is the soonest expiry of all.
	NextDue(ctx context.Context) (domain.Instant, bool, error)
}

// Config configures the Workers.
type Config struct {
	Conn   *bus.Conn
	Ledger eventstore.Ledger
	LogID  domain.ID
	IDs    *domain.IDs
	Now    func() time.Time
	Table  func() domain.RoutingTable // at each instant; nil: no rules
	// Split parts rules into those of routes in use and those of paused ones. nil: no
	// route is paused.
	Split func(domain.RoutingTable) (inUse, paused domain.RoutingTable)
	// Again brings a token when payments that wait for a paused route may get one.
	Again    <-chan struct{}
	Unrouted UnroutedView
	Due      DueView
	// Begins hears the first position that Offer will be called with, and Offer
	// each event the workers read, in order; it must not wait. nil: nobody.
	Begins  func(first eventstore.Position)
	Offer   func(bus.Event)
	Times   bus.ReaderTimes // zero: those of a real deployment
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Workers are the router and the expirer. One consumer on the
// JetStream stream EVENTS drives them; it keeps no state and starts at the
// oldest payment without a route, so nothing is left out after an outage or a
// restart. Expiry goes by the clock and needs no JetStream.
type Workers struct {
	dispatcher *bus.Reader
	router     *router
	expirer    *expirer
	begins     func(eventstore.Position)
	offer      func(bus.Event)
}

// New makes the workers; Run lets them work. The error is about the
// routing table of this instant.
func New(c Config) (*Workers, error) {
	if c.Table == nil {
		c.Table = func() domain.RoutingTable { return nil }
	}
	if err := c.Table().Validate(); err != nil {
		return nil, fmt.Errorf("routing table: %w", err)
	}
	w := &Workers{router: newRouter(c), expirer: newExpirer(c), begins: c.Begins, offer: c.Offer}
	w.dispatcher = bus.NewReader(bus.ReaderConfig{
		Conn: c.Conn, Store: c.Ledger.Store, LogID: c.LogID, Begin: w.begin, Hand: w.dispatch, Times: c.Times, Log: c.Log,
	})
	health.CounterFunc(c.Metrics, "payledger_dispatcher_restarts_total", "Consumers of the event stream that had to be replaced.",
		func() float64 { return float64(c.Conn.ReadersReplaced()) })
	health.UpGauge(c.Metrics, "dispatcher", "workers hear of events", w.Err)
	health.UpGauge(c.Metrics, "expirer", "payments whose time is over expire", w.expirer.trouble.Err)
	return w, nil
}

// Err says why the workers do not hear of events just now, nil when they do.
func (w *Workers) Err() error { return w.dispatcher.Err() }

// Reader is what reads EVENTS for the workers.
func (w *Workers) Reader() *bus.Reader { return w.dispatcher }

// begin is the first position the dispatcher hands on.
func (w *Workers) begin(ctx context.Context) (eventstore.Position, error) {
	first, err := w.router.begin(ctx)
	if err == nil && w.begins != nil {
		w.begins(first)
	}
	return first, err
}

// Run works until ctx ends; then the error is nil, and no command is under
// way. Otherwise it is the store's: the log takes no more commands.
func (w *Workers) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.router.run(gctx) })
	g.Go(func() error { return w.expirer.run(gctx) })
	g.Go(func() error { return w.dispatcher.Run(gctx) })
	err := g.Wait()
	if ctx.Err() != nil && !health.Ends(err) {
		return nil
	}
	return err
}

// dispatch hands an event on. It waits while the router's queue is full, and for
// nothing else.
func (w *Workers) dispatch(ctx context.Context, e bus.Event) error {
	if w.offer != nil {
		w.offer(e)
	}
	if e.Stream.Kind != eventstore.KindPayment || e.Type != domain.TypePaymentCreated {
		return nil
	}
	if created, ok := e.Event.(domain.PaymentCreated); ok && created.Route != "" {
		return nil
	}
	return w.router.take(ctx, e.Stored)
}
