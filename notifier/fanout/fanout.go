// Package fanout decides which webhook endpoints are notified of an event, and
// enqueues the notifications. Package delivery sends them.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	"payledger/notifier/queue"
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
	Ledger    eventstore.Ledger
	Lanes     Lanes
	Endpoints EndpointsView
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none
}

// FanOut enqueues the events of payments for the webhook endpoints that
// subscribed to them and were there before. Each event is dealt with once, in
// the log's order, whatever becomes of JetStream or of this process: how far
// it got is kept with what it enqueued.
//
// It takes the events that the workers' dispatcher hands on and never makes it
// wait. When it is behind, at the start or because lanes were slow, it reads what
// it missed from the log, until it has caught up with the dispatcher. New payments
// thus never wait for old webhooks, and what it holds in memory is bounded.
type FanOut struct {
	lanes     Lanes
	endpoints EndpointsView
	store     eventstore.Store
	codec     *eventstore.Codec
	log       zerolog.Logger
	trouble   health.State
	reading   health.State   // the log
	retry     health.Backoff // the pauses after an error
	enqueued  prometheus.Counter
	fellBack  prometheus.Counter

	base         eventstore.Position // of the lanes
	checkpointed eventstore.Position // the lanes know
	done         atomic.Uint64       // position up to which events are enqueued or concern nobody
	began        chan struct{}       // closed when the dispatcher knows where it begins

	mu         sync.Mutex
	offered    eventstore.Position // by the dispatcher, the newest
	taken      eventstore.Position // what is up to here was put into ahead, or concerns nobody
	attached   bool                // the dispatcher hands on what follows taken
	pending    []delivery.Event    // taken and not being dealt with; they name no endpoint
	maxPending int                 // in ahead
	arrived    chan struct{}       // taken has risen
	room       chan struct{}       // ahead was emptied
	detached   chan struct{}       // attached has become false
}

const (
	maxFanOutPending   = 8192        // events in memory
	maxFanOutBatch     = 1024        // events looked at before what they lead to is enqueued
	checkpointEvery    = time.Second // how far it got, while there is nothing to enqueue
	maxCheckpointAtEnd = time.Second // at most, for noting that at the end
)

// New makes a fan-out; Run lets it work.
func New(c Config) *FanOut {
	f := &FanOut{
		lanes: c.Lanes, endpoints: c.Endpoints, store: c.Ledger.Store, codec: c.Ledger.Codec, log: c.Log,
		trouble: health.State{Log: c.Log, Part: "fan-out"}, reading: health.State{Log: c.Log, Part: "fan-out's reader"},
		retry: health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second},
		began: make(chan struct{}), maxPending: maxFanOutPending,
		arrived: make(chan struct{}, 1), room: make(chan struct{}, 1), detached: make(chan struct{}, 1),
		enqueued: health.Counter(c.Metrics, "payledger_fanout_enqueued_total", "Notifications enqueued for webhook endpoints."),
		fellBack: health.Counter(c.Metrics, "payledger_fanout_fallbacks_total", "Times that webhooks were slower than payments and their events had to be read from the log again."),
	}
	health.GaugeFunc(c.Metrics, "payledger_fanout_position", "Position up to which events were enqueued for the webhook endpoints that want them.",
		func() float64 { return float64(f.done.Load()) })
	health.GaugeFunc(c.Metrics, "payledger_fanout_lag_events", "Events in the log that were not yet looked at for webhooks.",
		func() float64 { return health.Lag(f.store, eventstore.Position(f.done.Load())) })
	health.UpGauge(c.Metrics, "fanout", "events are enqueued for webhooks", func() error {
		return errors.Join(f.trouble.Err(), f.reading.Err())
	})
	return f
}

// DispatchedFrom sets the first position that the dispatcher will offer.
func (f *FanOut) DispatchedFrom(first eventstore.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offered = first - 1
	close(f.began)
}

// Offer shows an event that the dispatcher hands on. It does not wait: what
// there is no room for is read again.
func (f *FanOut) Offer(a bus.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offered = a.Position
	if !f.attached || a.Position <= f.taken {
		return
	}
	if !f.take(a) {
		f.attached = false
		f.fellBack.Inc()
		queue.Poke(f.detached)
	}
}

// attach lets the dispatcher hand on what follows, if it has not done so
// already.
func (f *FanOut) attach() bool {
	f.attached = f.taken >= f.offered
	return f.attached
}

// take puts an event behind those taken before, and reports whether there was
// room for it.
func (f *FanOut) take(a bus.Event) bool {
	kind, notifies := domain.KindOfType(a.Type)
	if kind == domain.KindPaymentCreated {
		if e, err := f.codec.Event(a.Stored); err == nil {
			kind, _ = domain.KindOf(e)
		}
	}
	payment, isPayment := domain.ParseID(a.Stream.ID)
	if notifies && isPayment && a.Stream.Kind == eventstore.KindPayment {
		if len(f.pending) >= f.maxPending {
			return false
		}
		f.pending = append(f.pending, delivery.Event{
			Project: a.Stream.Project, Payment: payment, ID: a.Commit, Kind: kind, Sequence: a.Sequence, Position: a.Position,
		})
	}
	f.taken = a.Position
	queue.Poke(f.arrived)
	return true
}

// Progress is how far it got, and whether it cannot read what it missed.
func (f *FanOut) Progress(context.Context) (moved uint64, waiting bool) {
	return f.done.Load(), f.reading.Err() != nil
}

// Run works until ctx ends; then the error is nil. Otherwise it is the store's.
func (f *FanOut) Run(ctx context.Context) error {
	if err := f.run(ctx); ctx.Err() == nil || health.Ends(err) {
		return err
	}
	return nil
}

func (f *FanOut) run(ctx context.Context) error {
	if err := f.untilDone(ctx, &f.trouble, func() error { return f.start(ctx) }); err != nil {
		return err
	}
	select {
	case <-f.began:
	case <-ctx.Done():
		return ctx.Err()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.follow(ctx) })
	g.Go(func() error { return f.work(ctx) })
	return g.Wait()
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
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = max(f.checkpointed, oldest)
	f.done.Store(uint64(f.taken))
	return nil
}

// follow reads from the log what the dispatcher does not hand on.
func (f *FanOut) follow(ctx context.Context) error {
	for {
		f.mu.Lock()
		attached := f.attached || f.attach()
		f.mu.Unlock()
		if !attached {
			if err := f.untilDone(ctx, &f.reading, func() error { return f.catchUp(ctx) }); err != nil {
				return err
			}
			continue
		}
		select {
		case <-f.detached:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp takes the events that the dispatcher has offered meanwhile, and waits
// where there is no room. A record that cannot be read is left out: no
// notification could be rendered from it.
func (f *FanOut) catchUp(ctx context.Context) error {
	f.mu.Lock()
	next, upTo := f.taken+1, f.offered
	f.mu.Unlock()
	for r, err := range f.store.Scan(ctx, next-1, eventstore.Filter{}) {
		if corrupt, ok := errors.AsType[*eventstore.CorruptError](err); ok && corrupt.Position == next {
			f.log.Error().Err(err).Msg("a record of the log cannot be read; nobody is notified of it")
			r, err = eventstore.Stored{Position: next}, nil
		}
		if err != nil {
			return err
		}
		typ, _ := bus.EventType(r.Body) // what has no type concerns nobody
		for !f.takeBehind(bus.Event{Stored: r, Type: typ}) {
			select {
			case <-f.room:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if next = r.Position + 1; next > upTo {
			return nil
		}
	}
	return &eventstore.CorruptError{Position: next, Reason: "missing"}
}

func (f *FanOut) takeBehind(a bus.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.take(a)
}
