package notifier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// RelayConfig configures a Relay.
type RelayConfig struct {
	Conn    *bus.Conn
	Store   eventstore.Store
	LogID   domain.ID
	Times   RelayTimes // zero: those of a real deployment
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Relay copies the log into the JetStream stream EVENTS, in order, each event
// exactly once, its sequence being its position.
//
// It has no state. At the start and after any failure it reads the JetStream stream's last sequence
// and continues from there, provided the copy is one of this log: its log id is ours, it is no
// longer than the log, it has no gaps and its last messages are byte for byte the records at their
// positions. Every message carries the sequence it expects before it, so even if publishers,
// retries and restarts overlap, no message can be stored twice or out of order, and an embedded
// EVENTS has no other writer. A foreign copy is deleted and recreated on the embedded server; on an
// external one the relay leaves it alone, says so through Err, and checks again from time to time.
type Relay struct {
	config  RelayConfig
	trouble health.State
	copied  atomic.Uint64 // position of the last event known to be in EVENTS
	damage  string        // of EVENTS, as watch found; empty: none is known
	swept   sweep
	rebuilt prometheus.Counter
	readers *bus.Durables
	times   RelayTimes
}

// RelayTimes are the relay's pauses.
type RelayTimes struct {
	Retry  health.Backoff // after a failure
	Watch  time.Duration  // between checks of an idle JetStream stream
	Sweep  time.Duration  // between the beginnings of comparisons of all of it, at least
	Answer time.Duration  // for JetStream's answer
}

// gather is how long an event waits for others before it is published. Each publishing
// wakes some ten goroutines of ours and of the embedded server, as the answers to
// requests go out. Without it a POST costs a tenth more CPU at one connection, a
// twentieth more at 16, and the same at 64.
const gather = time.Millisecond

// NewRelay makes a relay; Run lets it work.
func NewRelay(c RelayConfig) *Relay {
	r := &Relay{
		config: c, trouble: health.State{Log: c.Log, Part: "relay"},
		times: cmp.Or(c.Times, RelayTimes{
			Retry: health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second},
			Watch: 2 * time.Second, Sweep: time.Hour, Answer: 5 * time.Second,
		}),
	}
	r.readers = bus.NewDurables(c.Conn, c.Log, c.Metrics)
	r.rebuilt = health.Counter(c.Metrics, "payledger_relay_rebuilds_total", "Copies of the log in JetStream that were deleted and rebuilt.")
	health.GaugeFunc(c.Metrics, "payledger_relay_position", "Position of the last event known to be in JetStream.",
		func() float64 { return float64(r.Position()) })
	health.GaugeFunc(c.Metrics, "payledger_relay_lag_events", "Events in the log that are not yet in JetStream.",
		func() float64 { return health.Lag(c.Store, r.Position()) })
	health.GaugeFunc(c.Metrics, "payledger_relay_lag_seconds", "Age of the oldest event in the log that is not yet in JetStream; 0 when all are.",
		func() float64 { return health.Age(c.Store, r.Position()) })
	health.UpGauge(c.Metrics, "relay", "events reach JetStream", r.Err)
	health.FlagFunc(c.Metrics, "payledger_relay_refuses", "1 while the relay refuses a JetStream stream that is not of this log, until the operator has decided.",
		func() bool { return errors.As(r.Err(), new(*bus.ForeignStreamError)) })
	return r
}

// Err says why events do not reach JetStream just now, nil when they do. A
// *ForeignStreamError awaits the operator; anything else passes by itself.
func (r *Relay) Err() error { return r.trouble.Err() }

// Durables are the durable consumers of EVENTS, which the relay maintains.
func (r *Relay) Durables() *bus.Durables { return r.readers }

// Position is that of the last event known to be in JetStream.
func (r *Relay) Position() eventstore.Position { return eventstore.Position(r.copied.Load()) }

// Progress is how far the relay got, and whether events wait for it.
func (r *Relay) Progress(ctx context.Context) (moved uint64, waiting bool) {
	last, err := r.config.Store.Last(ctx)
	at := r.Position()
	return uint64(at), r.Err() != nil || err == nil && last > at
}

// Run copies until ctx ends; then the error is nil. Otherwise it is the
// store's: the log can no longer be read.
func (r *Relay) Run(ctx context.Context) error {
	for {
		err := r.copyLog(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to stop
		}
		if health.Ends(err) || errors.As(err, new(*eventstore.CorruptError)) {
			return fmt.Errorf("relay: %w", err)
		}
		r.trouble.Set(err)
		if !r.times.Retry.Wait(ctx) {
			return nil
		}
	}
}

// Check checks once whether the relay would copy to the JetStream stream EVENTS, and creates it if
// there is none. If not, it returns a *ForeignStreamError on an external server; other errors mean
// that this cannot be decided now.
func (r *Relay) Check(ctx context.Context) error {
	_, _, err := r.open(ctx)
	return err
}

// copyLog publishes from where the copy ends until something fails.
func (r *Relay) copyLog(ctx context.Context) error {
	ctx, cancel := r.config.Conn.WhileConnected(ctx)
	defer cancel()
	stream, from, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.copied.Store(uint64(from))
	if last, err := r.config.Store.Last(ctx); err == nil && last == from {
		r.working()
	}
	out, err := bus.NewPublisher(r.config.Conn, r.config.LogID)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.publish(ctx, from, out) })
	g.Go(func() error { return r.confirm(ctx, out) })
	g.Go(func() error { return r.watch(ctx, stream, out.Waits) })
	g.Go(func() error {
		<-ctx.Done()
		out.Close()
		return nil
	})
	return g.Wait()
}

// working notes that the copy goes well.
func (r *Relay) working() {
	r.times.Retry.Reset()
	r.trouble.Set(nil)
}

func (r *Relay) publish(ctx context.Context, from eventstore.Position, out *bus.Publisher) error {
	last := from
	return r.config.Store.Follow(ctx, from, eventstore.Filter{}, func(s eventstore.Stored) error {
		if s.Position > last && !health.Pause(ctx, gather) {
			return ctx.Err()
		}
		if s.Position >= last {
			var err error
			if last, err = r.config.Store.Last(ctx); err != nil {
				return err
			}
		}
		if err := out.Publish(ctx, s, s.Position >= last); err != nil {
			return fmt.Errorf("publishing to JetStream: %w", err)
		}
		return nil
	})
}

func (r *Relay) confirm(ctx context.Context, out *bus.Publisher) error {
	for {
		copied, more, err := out.Confirmed(ctx)
		if err != nil {
			return fmt.Errorf("publishing to JetStream: %w", err)
		}
		r.copied.Store(uint64(copied))
		if !more || copied%bus.PublishAhead == 0 {
			r.working()
		}
	}
}

// watch notices when the copy is deleted, rolled back, replaced or damaged while
// there is nothing to publish, when it cannot be read any more, and when
// JetStream does not answer. The copy on an external server is compared with the
// log at the start only: the server's replicas keep it.
func (r *Relay) watch(ctx context.Context, stream jetstream.Stream, answersWait func() bool) error {
	created := stream.CachedInfo().Created
	copied, moved := r.copied.Load(), time.Now()
	for health.Pause(ctx, r.times.Watch) {
		before := copied
		copied = r.copied.Load()
		if copied != before || !answersWait() {
			moved = time.Now()
		}
		info, err := stream.Info(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("looking at the JetStream stream %s: %w", bus.EventsStream, err)
		case !info.Created.Equal(created), info.State.LastSeq < copied:
			return fmt.Errorf("the JetStream stream %s was replaced", bus.EventsStream)
		case time.Since(moved) > r.times.Answer:
			return errors.New("publishing to JetStream: no answer")
		}
		if r.config.Conn.Embedded() && !answersWait() && copied-before < sweepAtOnce {
			r.damage = r.sweepOn(ctx, stream)
		}
		if r.damage != "" {
			return fmt.Errorf("the JetStream stream %s is damaged: %s", bus.EventsStream, r.damage)
		}
		if r.config.Conn.Embedded() {
			r.readers.Keep(ctx, stream)
		}
	}
	return ctx.Err()
}
