// Package fanout decides which webhook endpoints are notified of an event, and
// enqueues the notifications. Package delivery sends them.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
)

// Lanes take the events that webhook endpoints are to be notified of, and keep
// how far each was notified; *delivery.Lanes do.
type Lanes interface {
	// Start answers the position up to which events were enqueued, and base, at
	// or below which an event is sent only as its payment's newest, and an outcome
	// that is not listed as unconfirmed.
	Start() (after, base eventstore.Position, err error)
	// Enqueue keeps the events and the position they were found up to, both or
	// neither.
	Enqueue(ctx context.Context, upTo eventstore.Position, events []delivery.Event) error
}

// EndpointsView knows the webhook endpoints of projects.
type EndpointsView interface {
	// EachEndpoint calls fn for each of a project's endpoints with the position
	// at which it was added, as they are at the position or later.
	EachEndpoint(ctx context.Context, project string, at eventstore.Position, fn func(one projects.Endpoint, added eventstore.Position)) error
	// OldestEndpoint is the lowest position at which one of all endpoints was
	// added, as they are at the log's end at the time of the call or later.
	OldestEndpoint(ctx context.Context) (eventstore.Position, bool, error)
}

// Config configures a FanOut.
type Config struct {
	Conn      *bus.Conn
	LogID     domain.ID
	Ledger    eventstore.Ledger
	Lanes     Lanes
	Endpoints EndpointsView
	Times     bus.ReaderTimes // zero: those of a real deployment
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none
}

// FanOut enqueues the events of payments for the webhook endpoints that
// subscribed to them and were there before. Each event is dealt with once, in
// the log's order, whatever becomes of JetStream or of this process: how far
// it got is kept with what it enqueued.
//
// Its reader brings the events of EVENTS from there on, and waits while lanes are
// slow and as many events as it may hold in memory have not been dealt with.
type FanOut struct {
	lanes     Lanes
	endpoints EndpointsView
	store     eventstore.Store
	codec     *eventstore.Codec
	log       zerolog.Logger
	reader    *bus.Reader
	trouble   health.State
	retry     health.Backoff // the pauses after an error
	enqueued  prometheus.Counter

	first        eventstore.Position // to be read
	base         eventstore.Position // of the lanes
	checkpointed eventstore.Position // the lanes know
	done         atomic.Uint64       // position up to which events are enqueued or concern nobody
	taken        chan delivery.Event // read and not dealt with; they name no endpoint, and what notifies nobody no kind
}

const (
	maxFanOutTaken     = 4096        // events in memory
	maxFanOutBatch     = 1024        // events looked at before what they lead to is enqueued
	checkpointEvery    = time.Second // how far it got, while there is nothing to enqueue
	maxCheckpointAtEnd = time.Second // at most, for noting that at the end
)

// New makes a fan-out; Run lets it work.
func New(c Config) *FanOut {
	f := &FanOut{
		lanes: c.Lanes, endpoints: c.Endpoints, store: c.Ledger.Store, codec: c.Ledger.Codec, log: c.Log,
		trouble:  health.State{Log: c.Log, Part: "fan-out"},
		retry:    health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second},
		taken:    make(chan delivery.Event, maxFanOutTaken),
		enqueued: health.Counter(c.Metrics, "payledger_fanout_enqueued_total", "Notifications enqueued for webhook endpoints."),
	}
	f.reader = bus.NewReader(bus.ReaderConfig{
		Conn: c.Conn, Store: c.Ledger.Store, LogID: c.LogID, Hand: f.take, Times: c.Times, Log: c.Log,
		Begin: func(context.Context) (eventstore.Position, error) { return f.first, nil },
	})
	health.GaugeFunc(c.Metrics, "payledger_fanout_position", "Position up to which events were enqueued for the webhook endpoints that want them.",
		func() float64 { return float64(f.done.Load()) })
	health.GaugeFunc(c.Metrics, "payledger_fanout_lag_events", "Events in the log that were not yet looked at for webhooks.",
		func() float64 { return health.Lag(f.store, eventstore.Position(f.done.Load())) })
	health.CounterFunc(c.Metrics, "payledger_fanout_restarts_total", "Consumers of the event stream that had to be replaced.",
		func() float64 { return float64(c.Conn.ReadersReplaced()) })
	health.UpGauge(c.Metrics, "fanout", "events are enqueued for webhooks", f.Err)
	return f
}

// Err says why events are not enqueued just now, nil when they are.
func (f *FanOut) Err() error { return errors.Join(f.trouble.Err(), f.reader.Err()) }

// Reader is what reads EVENTS for it.
func (f *FanOut) Reader() *bus.Reader { return f.reader }

// Run works until ctx ends; then the error is nil. Otherwise it is the store's.
func (f *FanOut) Run(ctx context.Context) error {
	err := f.untilDone(ctx, func() error { return f.start(ctx) })
	if err == nil {
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return f.reader.Run(gctx) })
		g.Go(func() error { return f.work(gctx) })
		err = g.Wait()
	}
	if ctx.Err() == nil || health.Ends(err) {
		return err
	}
	return nil
}

// start finds out where to begin: behind what was dealt with, or where the
// oldest endpoint was added if that is later.
func (f *FanOut) start(ctx context.Context) error {
	// In this order: an endpoint the view does not know is behind last.
	last, err := f.store.Last(ctx)
	if err != nil {
		return err
	}
	oldest, ok, err := f.endpoints.OldestEndpoint(ctx)
	if err != nil {
		return fmt.Errorf("looking for webhook endpoints: %w", err)
	}
	if !ok {
		oldest = last
	}
	if f.checkpointed, f.base, err = f.lanes.Start(); err != nil {
		return fmt.Errorf("asking how far events were enqueued: %w", err)
	}
	done := max(f.checkpointed, oldest)
	f.done.Store(uint64(done))
	f.first = done + 1
	return nil
}

// take hands an event to work. It waits while that is too far behind.
func (f *FanOut) take(ctx context.Context, e bus.Event) error {
	out := delivery.Event{Project: e.Stream.Project, ID: e.Commit, Sequence: e.Sequence, Position: e.Position}
	if kind, notifies := domain.KindOfType(e.Type); notifies && e.Stream.Kind == eventstore.KindPayment {
		if kind == domain.KindPaymentCreated { // what notifies of it depends on whether it has a route
			if event, err := f.codec.Event(e.Stored); err == nil {
				kind, _ = domain.KindOf(event)
			}
		}
		if payment, ok := domain.ParseID(e.Stream.ID); ok {
			out.Payment, out.Kind = payment, kind
		}
	}
	select {
	case f.taken <- out:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
