// Package signals takes the providers' outcomes from the JetStream stream
// SIGNALS and lets the ledger decide what each leads to.
//
// Each route has its own consumer and is judged separately: signals are fetched in batches, the
// events of a batch are appended in one commit, and each signal is answered and acknowledged. What
// cannot be judged is kept in the JetStream stream PARKED. What cannot be judged yet JetStream
// delivers again after a pause.
package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Routes  func() []string // those known at each instant; nil: only the sandbox and those that SIGNALS takes already
	Times   Times           // zero: DefaultTimes
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Enforcer judges the signals in SIGNALS, and answers on the subject the sender
// named, once what a signal led to is durable. Refusals and repetitions are
// answered too.
//
// Routes are judged concurrently, each in the order in which its signals came, so that a flood
// delays only its own route; the number of waiting signals of one payment is bounded by SIGNALS. A
// signal that comes before the payment has its route is tried again until it has. A message is
// removed from SIGNALS only when it is finished, so after a crash it is delivered again, and
// changes nothing the second time.
//
// Of a route with more than maxBacklog signals waiting, signals are dropped without an
// answer, and their senders send them again: else one route could fill SIGNALS.
type Enforcer struct {
	config     Config
	trouble    health.State
	judged     *prometheus.CounterVec
	mute       prometheus.Counter
	unrecorded prometheus.Counter
	alarms     zerolog.Logger // about money that was refused
	refusals   *prometheus.CounterVec
	remade     prometheus.Counter
	progress   atomic.Uint64 // counts signals taken and signals finished
	silent     atomic.Bool   // signals wait and none is delivered
	unfinished atomic.Int64  // signals delivered and not finished, at the last check
	sheds      prometheus.Counter
	shedLog    zerolog.Logger
	parker     *parker
	times      Times
	backlog    uint64                                        // maxBacklog
	states     map[string]map[eventstore.Stream]*cachedState // by route
}

// Times are the enforcer's pauses.
type Times struct {
	Retry     health.Backoff
	Watch     time.Duration // between checks of the consumers and the known routes
	Heartbeat time.Duration
}

const (
	// maxBacklog signals of a route may wait.
	maxBacklog = bus.MaxSignalBytes / bus.MaxSignal / 2
	// ackWait is after how long JetStream delivers a signal again of which it heard
	// nothing.
	ackWait = 2 * time.Minute
)

// DefaultTimes are those of a real deployment.
func DefaultTimes() Times {
	return Times{
		Retry: health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second}, Watch: 3 * time.Second, Heartbeat: time.Second,
	}
}

// New makes an enforcer; Run lets it work.
func New(c Config) *Enforcer {
	if c.Routes == nil {
		c.Routes = func() []string { return nil }
	}
	e := &Enforcer{
		config: c, trouble: health.State{Log: c.Log, Part: "enforcer"},
		judged: health.CounterVec(c.Metrics, "payledger_signals_total", "Signals by what they led to.", "result",
			domain.SignalApplied, domain.SignalUnchanged, domain.SignalRefused, domain.SignalLateFunds, domain.SignalParked),
		alarms: limitLines(c.Log), shedLog: limitLines(c.Log), parker: newParker(c),
		refusals: health.CounterVec(c.Metrics, "payledger_signals_refused_total", "Signals that changed nothing, by why.", "reason",
			domain.ReasonWrongRoute, domain.ReasonFinalStatus, domain.ReasonUnknownRefund, domain.ReasonReferenceConflict,
			domain.ReasonWrongAmount, domain.ReasonReferenceUsed, domain.ReasonStartedEarly, domain.ReasonNotPaid,
			domain.ReasonTooManyDisputes),
		remade: health.Counter(c.Metrics, "payledger_enforcer_restarts_total", "Consumers of signals that had to be replaced because they delivered nothing while signals waited."),
		mute:   health.Counter(c.Metrics, "payledger_signal_replies_refused_total", "Signals that asked for the answer on a subject that is no connector's inbox."),
		unrecorded: health.Counter(c.Metrics, "payledger_signals_unrecorded_total",
			"Refused signals that were only counted, because their payment has its maximum of recorded ones."),
		sheds: health.Counter(c.Metrics, "payledger_signals_shed_total",
			"Signals dropped without an answer because too many of their route waited."),
		times: cmp.Or(c.Times, DefaultTimes()), backlog: maxBacklog, states: make(map[string]map[eventstore.Stream]*cachedState),
	}
	health.GaugeFunc(c.Metrics, "payledger_signals_waiting",
		"Signals that were delivered and are not finished; for long only where their payment has no route yet, or PARKED cannot be written.",
		func() float64 { return float64(e.unfinished.Load()) })
	health.UpGauge(c.Metrics, "enforcer", "signals are taken", e.Err)
	return e
}

// Err says why signals are not taken just now, nil when they are. A
// *ForeignStreamError awaits the operator; anything else passes by itself.
func (e *Enforcer) Err() error { return e.trouble.Err() }

// ParkingFails reports whether signals that cannot be judged cannot be parked
// either just now.
func (e *Enforcer) ParkingFails() bool { return e.parker.trouble.Err() != nil }

// Progress counts signals taken and signals finished, and says whether signals
// wait that are not taken.
func (e *Enforcer) Progress(context.Context) (moved uint64, waiting bool) {
	return e.progress.Load(), e.Err() != nil || e.silent.Load()
}

// errNewRoute: a route has become known whose signals SIGNALS does not take.
var errNewRoute = errors.New("a route was added")

// Run takes signals until ctx ends; then the error is nil, and no command is
// under way. Otherwise it is the store's: the log takes no more commands.
func (e *Enforcer) Run(ctx context.Context) error {
	e.parker.fill.begin()
	for {
		err := e.consume(ctx)
		switch {
		case health.Ends(err):
			return fmt.Errorf("enforcer: %w", err)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to stop
		case errors.Is(err, errNewRoute):
			continue
		}
		e.trouble.Set(err)
		if !e.times.Retry.Wait(ctx) {
			return nil
		}
	}
}

// consume judges signals until JetStream or the store fails, or a route is added.
func (e *Enforcer) consume(ctx context.Context) error {
	ctx, cancel := e.config.Conn.WhileConnected(ctx)
	defer cancel()
	known := e.config.Routes()
	stream, routes, err := e.open(ctx, known)
	if err != nil {
		return err
	}
	if !e.silent.Load() {
		e.times.Retry.Reset()
		e.trouble.Set(nil)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range routes {
		g.Go(func() error { return r.take(ctx) })
		g.Go(func() error { return r.judge(ctx) })
	}
	g.Go(func() error { return e.parker.watchFill(ctx) })
	g.Go(func() error { return e.watch(ctx, stream, routes, known) })
	return g.Wait()
}

// open finds or creates the JetStream stream and recreates the consumers, without those of an
// earlier version. A new consumer begins with the oldest signal that was not acknowledged, so
// signals that were delivered before come again at once and in order. Its state is in memory only:
// read from disk it could be damaged, or belong to an earlier SIGNALS, and skip signals.
func (e *Enforcer) open(ctx context.Context, known []string) (jetstream.Stream, []*route, error) {
	stream, err := bus.OpenSignals(ctx, e.config.Conn, e.config.LogID, known)
	if err != nil {
		return nil, nil, err
	}
	before := stream.ConsumerNames(ctx)
	for name := range before.Name() {
		if strings.HasPrefix(name, bus.EnforcerConsumer) {
			if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return nil, nil, fmt.Errorf("recreating the consumers of %s: %w", bus.SignalsStream, err)
			}
		}
	}
	if err := before.Err(); err != nil {
		return nil, nil, fmt.Errorf("listing the consumers of %s: %w", bus.SignalsStream, err)
	}
	var routes []*route
	for _, name := range bus.SignalRoutes(stream.CachedInfo().Config) {
		consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: bus.RouteConsumer(name), Description: "The enforcer of payledger.", FilterSubject: bus.RouteSignals(name),
			DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: ackWait, MaxDeliver: -1, MaxAckPending: -1, MemoryStorage: true, // those that wait to be tried again hold up no other
		})
		if err != nil {
			return nil, nil, fmt.Errorf("making the consumer of the route %s in %s: %w", name, bus.SignalsStream, err)
		}
		routes = append(routes, e.newRoute(name, consumer))
	}
	return stream, routes, nil
}

// errSilent: signals wait in SIGNALS and a consumer does not deliver them.
var errSilent = errors.New("a consumer of " + bus.SignalsStream + " does not deliver the signals that wait")

// watch fails when the JetStream stream is deleted or replaced, when a consumer is gone
// or ahead of it, when one is silent while signals wait, whether it knows of them or
// not, and when a route is added.
func (e *Enforcer) watch(ctx context.Context, stream jetstream.Stream, routes []*route, known []string) error {
	created, last := stream.CachedInfo().Created, stream.CachedInfo().State.LastSeq
	moved, silent, delivered := e.progress.Load(), 0, make(map[string]uint64)
	for health.Pause(ctx, e.times.Watch) {
		if slices.ContainsFunc(e.config.Routes(), func(route string) bool { return !slices.Contains(known, route) }) {
			return errNewRoute
		}
		var ahead, pending, unacked uint64
		stuck := false
		for _, r := range routes {
			info, err := r.consumer.Info(ctx)
			if err != nil {
				return fmt.Errorf("looking at the consumer of the route %s in %s: %w", r.name, bus.SignalsStream, err)
			}
			r.unacked.Store(int64(info.NumAckPending))
			ahead, pending, unacked = max(ahead, info.Delivered.Stream), pending+info.NumPending, unacked+uint64(info.NumAckPending)
			stuck = stuck || info.NumPending > 0 && info.NumAckPending == 0 && info.Delivered.Consumer == delivered[r.name]
			delivered[r.name] = info.Delivered.Consumer
		}
		e.unfinished.Store(int64(unacked))
		now, err := stream.Info(ctx) // later than the consumers'
		if err != nil {
			return fmt.Errorf("looking at the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		if !now.Created.Equal(created) || now.State.LastSeq < last || ahead > now.State.LastSeq {
			return fmt.Errorf("the JetStream stream %s was replaced", bus.SignalsStream)
		}
		last = now.State.LastSeq
		before := moved
		moved = e.progress.Load()
		switch {
		case !stuck && (moved != before || pending > 0 || now.State.Msgs <= unacked):
			silent = 0
			if e.silent.Swap(false) {
				e.trouble.Set(nil)
			}
		case silent == 0:
			silent++ // acknowledgements may be on their way
		default:
			e.silent.Store(true)
			e.remade.Inc()
			return errSilent
		}
	}
	return ctx.Err()
}
