// Package signals takes the providers' outcomes from the JetStream stream
// SIGNALS and lets the ledger decide what each leads to.
//
// A signal is inflight from when it is taken from SIGNALS until it is finished.
// It waits in the queue of its payment and route; a worker decides a batch of
// signals from different payments, appends the events in one commit, answers and
// acknowledges. What cannot be judged is kept in the JetStream stream PARKED:
// messages that are no signals at once, others when it is their turn.
package signals

import (
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

// Config configures an Enforcer.
type Config struct {
	Conn    *bus.Conn
	Ledger  eventstore.Ledger
	LogID   domain.ID
	IDs     *domain.IDs
	Table   func() domain.RoutingTable // at each instant; its routes are known before any payment has one; nil: none
	Times   Times                      // zero: DefaultTimes
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Enforcer judges the signals in SIGNALS, and answers on the subject the sender
// named, once what a signal led to is durable. Refusals and repetitions are
// answered too.
//
// Signals for one payment through one route are judged in the order in which
// they came, all others concurrently: routes take turns, and so do the payments
// of a route, so that a flood delays only itself. A signal that comes before the
// payment has its route waits, and so do those behind it in its queue. A message
// leaves SIGNALS only when it is finished, so after a crash it comes again, and
// changes nothing the second time.
//
// The enforcer takes signals as fast as JetStream delivers them, and when there
// are many still to deliver it fetches some from behind them: see scout. Beyond
// the limits of signalQueues, signals of the routes that have the most are dropped
// without an answer, and their senders send them again.
type Enforcer struct {
	config     Config
	trouble    health.State
	judged     *prometheus.CounterVec
	mute       prometheus.Counter
	unrecorded prometheus.Counter
	alarms     zerolog.Logger // about money that was refused
	refusals   *prometheus.CounterVec
	folds      *folds
	routes     knownRoutes
	remade     prometheus.Counter
	progress   atomic.Uint64 // counts signals taken and signals finished
	silent     atomic.Bool   // signals wait and none is delivered
	sheds      prometheus.Counter
	shedLog    zerolog.Logger
	parker     *parker
	queues     atomic.Pointer[signalQueues] // of the present consumer; nil: none yet
	times      Times
}

// Times are the enforcer's pauses.
type Times struct {
	Retry      health.Backoff
	Watch      time.Duration // between looks at the consumer
	Heartbeat  time.Duration
	AckWait    time.Duration // after which JetStream delivers again
	EarlyFirst time.Duration // before a too early signal is tried again
	EarlyMost  time.Duration
	Scout      time.Duration // between looks behind many signals
	EarlyEach  time.Duration // more, for each other that waits
}

// maxUnacknowledged is more than can be inflight.
const maxUnacknowledged = 2 * maxInflight

// DefaultTimes are those of a real deployment.
func DefaultTimes() Times {
	return Times{
		Retry: health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second},
		Watch: 3 * time.Second, Heartbeat: time.Second, AckWait: 2 * time.Minute, Scout: 100 * time.Millisecond,
		EarlyFirst: 10 * time.Millisecond, EarlyMost: 500 * time.Millisecond, EarlyEach: 50 * time.Microsecond,
	}
}

// New makes an enforcer; Run lets it work.
func New(c Config) *Enforcer {
	if c.Table == nil {
		c.Table = func() domain.RoutingTable { return nil }
	}
	e := &Enforcer{
		config: c, trouble: health.State{Log: c.Log, Part: "enforcer"}, folds: newFolds(),
		judged: health.CounterVec(c.Metrics, "payledger_signals_total", "Signals by what they led to.", "result",
			domain.SignalApplied, domain.SignalUnchanged, domain.SignalRefused, domain.SignalLateFunds, domain.SignalParked),
		alarms: limitLines(c.Log), shedLog: limitLines(c.Log), parker: newParker(c),
		refusals: health.CounterVec(c.Metrics, "payledger_signals_refused_total", "Signals that changed nothing, by why.", "reason",
			domain.ReasonWrongRoute, domain.ReasonFinalStatus, domain.ReasonUnknownRefund, domain.ReasonReferenceConflict,
			domain.ReasonWrongAmount, domain.ReasonReferenceUsed, domain.ReasonStartedEarly),
		remade: health.Counter(c.Metrics, "payledger_enforcer_restarts_total", "Consumers of signals that had to be replaced because they delivered nothing while signals waited."),
		mute:   health.Counter(c.Metrics, "payledger_signal_replies_refused_total", "Signals that asked for the answer on a subject that is no connector's inbox."),
		unrecorded: health.Counter(c.Metrics, "payledger_signals_unrecorded_total",
			"Refused signals that were only counted, because their payment has recorded as many as it keeps."),
		sheds: health.Counter(c.Metrics, "payledger_signals_shed_total",
			"Signals dropped without an answer because too many of their route waited, or PARKED could not be written."),
		times: c.Times,
	}
	if c.Times == (Times{}) {
		e.times = DefaultTimes()
	}
	health.GaugeFunc(c.Metrics, "payledger_signals_waiting", "Signals that wait for their payment to get a route.",
		func() float64 { return float64(e.waiting()) })
	health.GaugeFunc(c.Metrics, "payledger_signals_in_hand", "Signals taken from SIGNALS and not yet done with.", func() float64 {
		if l := e.queues.Load(); l != nil {
			return float64(l.count())
		}
		return 0
	})
	health.UpGauge(c.Metrics, "enforcer", "signals are taken", e.Err)
	return e
}

// Err says why signals are not taken just now, nil when they are. A
// *ForeignStreamError awaits the operator; anything else passes by itself.
func (e *Enforcer) Err() error { return e.trouble.Err() }

// ParkingFails reports whether signals that cannot be judged cannot be parked
// either just now.
func (e *Enforcer) ParkingFails() bool { return e.parker.failing.Load() }

// Progress counts signals taken and signals finished, and says whether signals
// wait that are not taken.
func (e *Enforcer) Progress(context.Context) (moved uint64, waiting bool) {
	return e.progress.Load(), e.Err() != nil || e.silent.Load()
}

// Run takes signals until ctx ends; then the error is nil, and no command is
// under way. Otherwise it is the store's: the log takes no more commands.
func (e *Enforcer) Run(ctx context.Context) error {
	for {
		err := e.consume(ctx)
		switch {
		case health.Ends(err):
			return fmt.Errorf("enforcer: %w", err)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to stop
		}
		e.trouble.Set(err)
		if !e.times.Retry.Wait(ctx) {
			return nil
		}
	}
}

// consume takes signals until the consumer fails.
func (e *Enforcer) consume(ctx context.Context) error {
	ctx, cancel := e.config.Conn.WhileConnected(ctx)
	defer cancel()
	stream, consumer, err := e.open(ctx)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(512),
		jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(e.times.Heartbeat))
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
	}
	defer messages.Stop()
	if !e.silent.Load() {
		e.times.Retry.Reset()
		e.trouble.Set(nil)
	}

	g, ctx := errgroup.WithContext(ctx)
	h := newInflight()
	e.queues.Store(h.signalQueues)
	g.Go(func() error { return e.take(ctx, h, messages) })
	g.Go(func() error { return e.scout(ctx, h, stream) })
	g.Go(func() error { return e.forget(ctx, h, stream) })
	g.Go(func() error { return e.keepAlive(ctx, h) })
	g.Go(func() error {
		return e.parker.run(ctx, h, func(k parking) error {
			return e.close(h, k.signal, domain.SignalReply{Result: domain.SignalParked, Reason: k.reason})
		})
	})
	g.Go(func() error { return e.parker.watchFill(ctx) })
	for range batchWorkers {
		g.Go(func() error { return e.work(ctx, h) })
	}
	g.Go(func() error { return e.watch(ctx, stream, h.signalQueues) })
	return g.Wait()
}

// take takes signals as fast as they come, so that those behind a flood are seen.
func (e *Enforcer) take(ctx context.Context, h inflight, messages jetstream.MessagesContext) error {
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		e.progress.Add(1)
		h.behind.Store(meta.NumPending)
		s := newSignal(msg.Subject(), meta.Sequence.Stream, meta.Timestamp, msg.Data(), msg.Headers())
		s.ack = msg.Reply()
		came, err := e.admit(h, s)
		if err != nil {
			return err
		}
		if came == tooMany {
			e.noteShed(s)
			if err := msg.Ack(); err != nil {
				return fmt.Errorf("acknowledging a signal: %w", err)
			}
		}
	}
}

// admit takes a signal in if there is room for it.
func (e *Enforcer) admit(h inflight, s *signal) (arrived, error) {
	came := h.take(s)
	if came == queued && s.malformed != nil {
		return came, e.park(h, parking{signal: s, reason: ParkedMalformed, detail: s.malformed.Error()})
	}
	return came, nil
}

// keepAlive tells JetStream that the signals inflight are being worked on, so that it
// does not deliver them again. If it does, take recognises them.
func (e *Enforcer) keepAlive(ctx context.Context, h inflight) error {
	for health.Pause(ctx, e.times.AckWait/3) {
		for i, subject := range h.acks() {
			if i%1024 == 0 && ctx.Err() != nil {
				break
			}
			_ = e.config.Conn.NATS().Publish(subject, []byte(progressWord))
		}
	}
	return ctx.Err()
}

// waiting is how many signals are too early just now.
func (e *Enforcer) waiting() int {
	if l := e.queues.Load(); l != nil {
		return l.delayed()
	}
	return 0
}

// open finds or makes the JetStream stream and makes the consumer anew. A new
// consumer begins with the oldest signal that was not acknowledged, so signals
// that were inflight before come again at once and in order. Its state is in
// memory only: read from disk it could be damaged, or belong to an earlier
// SIGNALS, and skip signals.
func (e *Enforcer) open(ctx context.Context) (jetstream.Stream, jetstream.Consumer, error) {
	stream, err := bus.OpenStream(ctx, e.config.Conn, bus.SignalsConfig(e.config.LogID))
	if err != nil {
		return nil, nil, err
	}
	e.parker.prepare(ctx)
	if err := stream.DeleteConsumer(ctx, bus.EnforcerConsumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, nil, fmt.Errorf("making the consumer of %s anew: %w", bus.SignalsStream, err)
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: bus.EnforcerConsumer, Description: "The enforcer of payledger.",
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: e.times.AckWait, MaxDeliver: -1, MaxAckPending: maxUnacknowledged, MemoryStorage: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the consumer of %s: %w", bus.SignalsStream, err)
	}
	return stream, consumer, nil
}
