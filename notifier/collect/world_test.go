package collect

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

const route = "cards"

// world is a ledger, a provider and a collector between them, on the clock of a
// synctest bubble. The collector can be killed between any two of its effects.
type world struct {
	*testing.T
	*bustest.Book

	provider connectortest.Provider
	says     setting[func(*connector.State, error) error] // changes what the provider says of attempts; nil: nothing
	calls    atomic.Int64                                 // of the provider
	log      healthtest.Buffer
	paused   setting[bool]
	now      *life
}

// life is one run of the process.
type life struct {
	*Collector

	effects atomic.Int64 // left before the process is dead; negative: it never dies
	dead    atomic.Bool
	stop    func()
}

var errDead = errors.New("the process is dead")

// effect is asked before each effect on the log or the provider, which it lets
// happen or not.
func (l *life) effect() error {
	if l.dead.Load() || l.effects.Add(-1) == 0 {
		l.dead.Store(true)
		return errDead
	}
	return nil
}

// setting is something that a test changes while the collector works.
type setting[T any] struct{ v atomic.Pointer[T] }

func (s *setting[T]) set(v T) { s.v.Store(&v) }

func (s *setting[T]) get() (v T) {
	if p := s.v.Load(); p != nil {
		v = *p
	}
	return v
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Book: bustest.NewBook(t), provider: connectortest.NewMemory()}
	w.start(-1)
	return w
}

// start starts the process anew. It dies at the given effect; -1: it does not.
func (w *world) start(effects int64) {
	w.Helper()
	l := &life{}
	l.effects.Store(effects)
	ledger := w.Ledger
	ledger.Store = mortal{w.Store, l}
	set := connector.NewSet(connector.Routes{Connectors: map[string]connector.Opened{
		route: {Type: "memory", Connector: mortalConnector{w.provider.Connector(), l, w}},
	}})
	l.Collector = New(Config{
		Ledger: ledger, IDs: w.IDs, Now: time.Now, Routes: set, Views: views{bustest.Views{Book: w.Book}}, Signal: w.judge(l),
		ReturnURL: func(p domain.Payment) string { return "https://shop.example.com/p/" + p.ID.String() }, Log: zerolog.New(&w.log),
		Paused: func(string) bool { return w.paused.get() },
	})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	l.stop = func() {
		cancel()
		if err := <-ended; err != nil && !l.dead.Load() {
			w.Error(err)
		}
	}
	w.now = l
}

// restart kills the process and starts it again.
func (w *world) restart(effects int64) {
	w.Helper()
	w.now.dead.Store(true)
	w.now.stop()
	w.start(effects)
}

// judge applies a signal as package signals does.
func (w *world) judge(l *life) func(context.Context, string, domain.ID, domain.Signal, bus.Said) (domain.SignalReply, error) {
	return func(ctx context.Context, project string, id domain.ID, s domain.Signal, said bus.Said) (domain.SignalReply, error) {
		if err := l.effect(); err != nil {
			return domain.SignalReply{}, err
		}
		apply := func(used bool) (eventstore.Result[domain.Payment], error) {
			return eventstore.Execute(ctx, w.Ledger, eventstore.PaymentStream(project, id), domain.Payment{Project: project, ID: id},
				domain.PaymentCommand(domain.ApplySignal{Signal: s, Reason: said.Reason, EvidenceDueBy: said.EvidenceDueBy, ReferenceUsed: used}), eventstore.Order{EventID: w.IDs.Next()})
		}
		r, err := apply(false)
		if errors.As(err, new(*eventstore.ClaimedError)) {
			r, err = apply(true) // another payment has the reference
		}
		switch f := domain.FactsOf(r.Event); {
		case err != nil:
			return domain.SignalReply{}, err
		case r.Event == nil:
			return domain.SignalReply{Result: domain.SignalUnchanged}, nil
		default:
			return domain.SignalReply{Result: f.Result, Reason: f.Reason}, nil
		}
	}
}

// payable is a payment with the route under test.
func (w *world) payable(lifetime time.Duration) domain.ID {
	w.Helper()
	id := w.Create(w.T, lifetime)
	w.Do(w.T, id, domain.AssignRoute{Table: domain.RoutingTable{{Route: route, Min: 1, Max: domain.MaxAmount, Weight: 1}}})
	return id
}

// press is a customer pressing Pay.
func (w *world) press(id domain.ID) (*domain.HandOff, error) {
	return w.now.Begin(w.Context(), id, "ru", "Shop")
}

// pressed is press that must lead to a hand-off.
func (w *world) pressed(id domain.ID) string {
	w.Helper()
	h, err := w.press(id)
	if err != nil || h == nil {
		w.Fatalf("%v, %v", h, err)
	}
	return h.URL
}

// reference is that of the newest attempt that was offered.
func (w *world) reference(id domain.ID) string {
	a := w.Payment(w.T, id).Attempts
	return a[len(a)-1].Reference
}

// expire runs the expirer's command.
func (w *world) expire(id domain.ID) error {
	_, err := eventstore.Execute(w.Context(), w.Ledger, eventstore.PaymentStream(bustest.Project, id), domain.Payment{Project: bustest.Project, ID: id},
		domain.PaymentCommand(domain.ExpirePayment{At: domain.InstantOf(time.Now())}), eventstore.Order{EventID: w.IDs.Next()})
	return err
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// types are the wire names of the payment's events.
func (w *world) types(id domain.ID) []string {
	var names []string
	for r, err := range w.Store.Load(w.Context(), eventstore.PaymentStream(bustest.Project, id)) {
		if err != nil {
			w.Fatal(err)
		}
		e, err := w.Codec.Event(r)
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, e.Type())
	}
	return names
}

// views adds what the collector asks to those of the tests.
type views struct{ bustest.Views }

func (v views) EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(domain.Outstanding, domain.ID) error) error {
	all, err := v.All(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b domain.Payment) int { return a.ID.Compare(b.ID) })
	for _, p := range all {
		if p.ID.Compare(after) <= 0 || !p.Uncollected() {
			continue
		}
		if limit--; limit < 0 {
			return nil
		}
		if err := fn(p.Outstanding(), p.ID); err != nil {
			return err
		}
	}
	return nil
}

func (v views) PaymentOfReference(ctx context.Context, of, reference string) (domain.ID, bool, error) {
	all, err := v.All(ctx)
	for _, p := range all {
		if _, ok := p.AttemptOf(reference); ok && p.Route == of {
			return p.ID, true, err
		}
	}
	return domain.ID{}, false, err
}

// mortal is a store that a dead process cannot reach.
type mortal struct {
	eventstore.Store

	life *life
}

func (m mortal) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	if m.life.effect() != nil {
		out := make([]eventstore.Appended, len(commits))
		for i := range out {
			out[i].Err = eventstore.ErrClosed
		}
		return out
	}
	return m.Store.Append(ctx, commits...)
}

// mortalConnector is a connector that a dead process cannot call.
type mortalConnector struct {
	connector.Connector

	life  *life
	world *world
}

// called is a call of a connector, unless the process is dead.
func called[A, S any](m mortalConnector, ctx context.Context, call func(context.Context, A) (S, error), a A) (s S, err error) {
	if err := m.life.effect(); err != nil {
		return s, err
	}
	m.world.calls.Add(1)
	s, err = call(ctx, a)
	says := m.world.says.get()
	if st, ok := any(&s).(*connector.State); ok && says != nil {
		err = says(st, err)
	}
	return s, err
}

func (m mortalConnector) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	return called(m, ctx, m.Connector.Begin, a)
}

func (m mortalConnector) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	return called(m, ctx, m.Connector.Read, a)
}

func (m mortalConnector) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	return called(m, ctx, m.Connector.Cancel, a)
}

func (m mortalConnector) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	return called(m, ctx, m.Connector.Refund, r)
}

func (m mortalConnector) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	return called(m, ctx, m.Connector.Refunds, a)
}
