package eventstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const project = "prj_01M7W78FJBM8T4R7B5N0C1D2E3"

// ledger is a store with what the tests need of it.
type ledger struct {
	eventstore.Ledger
	t      *testing.T
	ids    *domain.IDs
	reopen func() eventstore.Store
}

type verifiable interface {
	eventstore.Store
	Verify(context.Context) error
}

func newLedger(t *testing.T, s eventstore.Store) *ledger {
	t.Helper()
	return &ledger{
		Ledger: eventstore.Ledger{Store: s, Codec: eventstore.NewCodec()}, t: t,
		ids: domain.NewIDs(time.Now, rand.Reader, domain.ID{}),
	}
}

// onBothStores runs the test on each store and the store's verifier after it.
func onBothStores(t *testing.T, test func(*testing.T, *ledger)) {
	t.Helper()
	run := func(name string, open func(*testing.T) (store verifiable, reopen func() verifiable)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, reopen := open(t)
			l := newLedger(t, store)
			l.reopen = func() eventstore.Store {
				store = reopen()
				l.Store = store
				return store
			}
			test(t, l)
			if err := store.Verify(t.Context()); err != nil {
				t.Errorf("Verify: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	run("memory", func(*testing.T) (verifiable, func() verifiable) {
		s := memory.New()
		return s, func() verifiable {
			s = s.Reopen()
			return s
		}
	})
	run("bolt", func(t *testing.T) (verifiable, func() verifiable) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := bolt.Init(path, domain.ID{1}); err != nil {
			t.Fatal(err)
		}
		open := func() *bolt.Store {
			s, err := bolt.Open(path, bolt.Options{MinFree: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		s := open()
		return s, func() verifiable {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
			return s
		}
	})
}

func (l *ledger) create() domain.CreatePayment {
	return domain.CreatePayment{
		At: domain.InstantOf(time.Now()), Amount: 150000, Currency: "RUB",
		Payload: domain.EmptyObject(), Settings: domain.DefaultSettings(),
	}
}

func (l *ledger) order() eventstore.Order { return eventstore.Order{EventID: l.ids.Next()} }

func (l *ledger) do(p domain.ID, c domain.PaymentCommand) eventstore.Result[domain.Payment] {
	l.t.Helper()
	o := l.order()
	_, o.New = c.(domain.CreatePayment)
	r, err := l.execute(p, c, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *ledger) execute(p domain.ID, c domain.PaymentCommand, o eventstore.Order) (eventstore.Result[domain.Payment], error) {
	return eventstore.Execute(l.t.Context(), l.Ledger, eventstore.PaymentStream(project, p), domain.Payment{Project: project, ID: p}, c, o)
}

func signal(reference string, outcome domain.Outcome) domain.ApplySignal {
	return domain.ApplySignal{Signal: domain.Signal{
		Route: "sandbox", Outcome: outcome, Reference: reference, Amount: 150000, Currency: "RUB", StartedAt: domain.InstantOf(time.Now()),
	}}
}

var table = domain.RoutingTable{{Route: "sandbox", Currency: "RUB", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1}}

// paid brings a new payment to paid.
func (l *ledger) paid() domain.ID {
	l.t.Helper()
	p := l.ids.Next()
	l.do(p, l.create())
	l.do(p, domain.AssignRoute{Table: table})
	if r := l.do(p, signal("ref", domain.OutcomePaid)); r.State.Status != domain.Paid {
		l.t.Fatalf("the payment is %s", r.State.Status)
	}
	return p
}

func (l *ledger) records(p domain.ID) (n int) {
	l.t.Helper()
	for _, err := range l.Store.Load(l.t.Context(), eventstore.PaymentStream(project, p)) {
		if err != nil {
			l.t.Fatal(err)
		}
		n++
	}
	return n
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	// A store may or may not return the event with its record.
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(eventstore.Stored{}, "Event")); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestEventsComeAlong: records of Execute have their event, equal to the decoded
// body, until the log is opened again.
func TestEventsComeAlong(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		l.paid()
		for _, along := range []bool{true, false} {
			for r, err := range l.Store.Scan(t.Context(), 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
				if err != nil {
					t.Fatal(err)
				}
				if (r.Event != nil) != along {
					t.Errorf("position %d: its event came along: %t, want %t", r.Position, r.Event != nil, along)
				}
				decoded, err := l.Codec.Decode(r)
				if err != nil {
					t.Fatal(err)
				}
				event, err := l.Codec.Event(r)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "the event at hand", event, decoded)
			}
			l.reopen()
		}
	})
}

// An event without a trace of its own is in that of the event before it.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.ids.Next()
		var got []eventstore.Cause
		for _, step := range []struct {
			command domain.PaymentCommand
			cause   eventstore.Cause
		}{
			{l.create(), eventstore.Cause{Trace: first}},
			{domain.AssignRoute{Table: table}, eventstore.Cause{}},
			{signal("ref", domain.OutcomePaid), eventstore.Cause{}},
			{domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: l.ids.Next()}, eventstore.Cause{Actor: "key_1", Trace: second}},
			{signal("late", domain.OutcomePaid), eventstore.Cause{}},
		} {
			o := l.order()
			o.Cause = step.cause
			r, err := l.execute(p, step.command, o)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, eventstore.CauseOf(r.Stored.Body))
			l.reopen()
		}
		want := []eventstore.Cause{{Trace: first}, {Trace: first}, {Trace: first}, {Actor: "key_1", Trace: second}, {Trace: second}}
		same(t, "causes", got, want)
	})
}

func TestExecuteAnswersStateAndRecord(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		state, last, err := eventstore.Fold(t.Context(), l.Ledger, eventstore.PaymentStream(project, p), domain.Payment{Project: project, ID: p})
		if err != nil {
			t.Fatal(err)
		}
		if state.Status != domain.Paid || last.Sequence != 3 {
			t.Errorf("the fold is %s at sequence %d", state.Status, last.Sequence)
		}
		refund := l.ids.Next()
		r := l.do(p, domain.CreateRefund{RefundID: refund})
		e, err := l.Codec.Decode(r.Stored)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the event", r.Event, e)
		same(t, "the state", r.State, state.Evolve(e))
		if r.Replayed || r.Stored.Sequence != 4 || r.Stored.Prev != last.Position {
			t.Errorf("%+v", r)
		}
	})
}

// meddling is a payment that decides after another command has changed the stream.
type meddling struct {
	domain.Payment
	meddle func()
}

func (m meddling) Decide(c domain.PaymentCommand) (domain.Event, error) {
	m.meddle()
	return m.Payment.Decide(c)
}

func (m meddling) Evolve(e domain.Event) meddling {
	m.Payment = m.Payment.Evolve(e)
	return m
}

func TestExecuteDecidesAnewAfterAConflict(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		rivals := 0
		start := meddling{Payment: domain.Payment{Project: project, ID: p}, meddle: func() {
			if rivals < 3 {
				l.do(p, signal(string(rune('a'+rivals)), domain.OutcomePaid))
				rivals++
			}
		}}
		r, err := eventstore.Execute[meddling, domain.PaymentCommand](t.Context(), l.Ledger, eventstore.PaymentStream(project, p), start,
			domain.CreateRefund{RefundID: l.ids.Next()}, l.order())
		if err != nil {
			t.Fatal(err)
		}
		if len(r.State.Signals) != 4 || len(r.State.Refunds) != 1 || r.Stored.Sequence != 7 {
			t.Errorf("decided on %d signals, %d refunds, sequence %d", len(r.State.Signals), len(r.State.Refunds), r.Stored.Sequence)
		}
	})
}

func TestExecuteGivesUp(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		rivals := 0
		start := meddling{Payment: domain.Payment{Project: project, ID: p}, meddle: func() {
			l.do(p, signal(string(rune('a'+rivals)), domain.OutcomePaid))
			rivals++
		}}
		_, err := eventstore.Execute[meddling, domain.PaymentCommand](t.Context(), l.Ledger, eventstore.PaymentStream(project, p), start,
			domain.CreateRefund{RefundID: l.ids.Next()}, l.order())
		if !errors.Is(err, eventstore.ErrBusy) || rivals != 16 {
			t.Errorf("%v after %d tries, want ErrBusy after 16", err, rivals)
		}
	})
}

func claim(key, fingerprint byte) *eventstore.Claim {
	return &eventstore.Claim{Key: domain.Digest{key}, Fingerprint: domain.Digest{fingerprint}}
}

// Concurrent refunds with the same key: one is created, all return it.
func TestExecuteReplaysARace(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		var mu sync.Mutex
		var first, replayed int
		events := map[domain.ID]bool{}
		var all sync.WaitGroup
		for range 24 {
			all.Go(func() {
				o := l.order()
				o.Claim = claim(1, 1)
				r, err := l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, o)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				events[r.Stored.Commit] = true
				if r.Replayed {
					replayed++
				} else {
					first++
				}
			})
		}
		all.Wait()
		if first != 1 || replayed != 23 || len(events) != 1 || l.records(p) != 4 {
			t.Errorf("%d made, %d replayed, %d events told, %d records", first, replayed, len(events), l.records(p))
		}
	})
}

func TestExecuteReplays(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		first := l.order()
		first.Claim = claim(1, 1)
		want, err := l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, first)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again := l.order()
			again.Claim = claim(1, 1)
			got, err := l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, again)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the second answer", got.Stored, want.Stored)
			same(t, "the second event", got.Event, want.Event)
			if !got.Replayed {
				t.Error("it is not marked as replayed")
			}

			// The same key for a new payment, with and without a refusal.
			for _, amount := range []domain.Amount{150000, domain.MaxAmount + 1} {
				c := l.create()
				c.Amount = amount
				fresh := l.order()
				fresh.Claim, fresh.New = claim(1, 2), true
				_, err = l.execute(l.ids.Next(), c, fresh)
				var claimed *eventstore.ClaimedError
				if !errors.As(err, &claimed) {
					t.Fatalf("%v, want that the key was used", err)
				}
				same(t, "what the key was used for", claimed.Value, want.Stored)
			}

			other := l.order()
			other.Claim = claim(2, 1)
			_, err = l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, other)
			var refusal *domain.Refusal
			if !errors.As(err, &refusal) || refusal.Code != domain.RefundExists {
				t.Errorf("%v, want refund_exists", err)
			}
			if _, ok, err := l.Store.Claimed(t.Context(), project, other.Claim.Key); ok || err != nil {
				t.Errorf("a refused command used up its key: %v, %v", ok, err)
			}
			l.reopen()
		}
	})
}

// While the store refuses commits, a key still returns the event recorded under it.
func TestExecuteReplaysWithoutRoom(t *testing.T) {
	t.Parallel()
	s := memory.New()
	l := newLedger(t, s)
	p := l.ids.Next()
	first := l.order()
	first.Claim, first.New = claim(1, 1), true
	want, err := l.execute(p, l.create(), first)
	if err != nil {
		t.Fatal(err)
	}
	for _, refusal := range []error{eventstore.ErrFull, eventstore.ErrBusy, &eventstore.SuspendedError{Err: errors.New("damaged")}} {
		s.Refuse(refusal)
		for key, want := range map[byte]eventstore.Stored{1: want.Stored, 2: {}} {
			o := l.order()
			o.Claim, o.New = claim(key, 1), true
			r, err := l.execute(l.ids.Next(), l.create(), o)
			if replayed := key == 1; r.Replayed != replayed || (err == nil) != replayed || (!replayed && !errors.Is(err, refusal)) {
				t.Errorf("key %d while %v: replayed %t, %v", key, refusal, r.Replayed, err)
			}
			same(t, "the record", r.Stored, want)
		}
	}
}

// counting counts how often streams are loaded.
type counting struct {
	eventstore.Store
	loads atomic.Int32
}

func (c *counting) LoadAfter(ctx context.Context, s eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	c.loads.Add(1)
	return c.Store.LoadAfter(ctx, s, after)
}

func TestExecuteDoesNotLoadWhatIsNew(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		c := &counting{Store: l.Store}
		l.Store = c
		p := l.ids.Next()
		l.do(p, l.create())
		if n := c.loads.Load(); n != 0 {
			t.Errorf("a new stream was loaded %d times", n)
		}
		l.do(p, domain.AssignRoute{Table: table})
		if n := c.loads.Load(); n != 1 {
			t.Errorf("the stream was loaded %d times, want once", n)
		}

		taken := l.order()
		taken.New = true
		_, err := l.execute(p, l.create(), taken)
		var conflict *eventstore.ConflictError
		if !errors.As(err, &conflict) || conflict.Actual != 2 {
			t.Errorf("%v, want a conflict at position 2", err)
		}
	})
}

func TestExecuteWithNothingToDo(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.paid()
		r := l.do(p, domain.AssignRoute{Table: table})
		if r.Event != nil || r.Stored.Position != 0 || r.State.Status != domain.Paid || r.Replayed {
			t.Errorf("%+v", r)
		}
		if n := l.records(p); n != 3 {
			t.Errorf("%d records, want 3", n)
		}
	})
}

func TestExecutePassesRefusalsOn(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		p := l.ids.Next()
		r := l.do(p, l.create())
		for _, o := range []eventstore.Order{{EventID: l.ids.Next()}, {EventID: l.ids.Next(), Claim: claim(1, 1)}} {
			_, err := l.execute(p, domain.ExpirePayment{At: r.State.CreatedAt}, o)
			var early *domain.TooEarlyError
			if !errors.As(err, &early) || early.Until != r.State.ExpiresAt {
				t.Errorf("%v, want too early until %v", err, r.State.ExpiresAt)
			}
			_, err = l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, o)
			var refusal *domain.Refusal
			if !errors.As(err, &refusal) || refusal.Code != domain.PaymentNotPaid {
				t.Errorf("%v, want payment_not_paid", err)
			}
			_, err = l.execute(l.ids.Next(), domain.CreateRefund{RefundID: l.ids.Next()}, o)
			if !errors.As(err, &refusal) || refusal.Code != domain.PaymentNotFound {
				t.Errorf("%v, want payment_not_found", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := eventstore.Execute(ctx, l.Ledger, eventstore.PaymentStream(project, p), domain.Payment{}, domain.PaymentCommand(l.create()), l.order())
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
	})
}

// The money of a reference is booked once, as payment or as late funds: when two
// payments race with the same reference, only one is paid.
func TestReferencesAreUsedOnce(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		const payments = 8
		all := make([]domain.ID, payments)
		for i := range all {
			all[i] = l.ids.Next()
			l.do(all[i], l.create())
			l.do(all[i], domain.AssignRoute{Table: table})
		}
		late := signal("shared", domain.OutcomePaid)
		late.Signal.Amount++
		var mu sync.Mutex
		var winner eventstore.Stored
		var losers []eventstore.Stored
		var racing sync.WaitGroup
		for i, p := range all {
			racing.Go(func() {
				cmd := signal("shared", domain.OutcomePaid)
				if i%2 == 1 {
					cmd = late
				}
				r, err := l.execute(p, cmd, l.order())
				var claimed *eventstore.ClaimedError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && winner.Position == 0:
					winner = r.Stored
				case errors.As(err, &claimed):
					losers = append(losers, claimed.Value)
				default:
					t.Errorf("%+v, %v", r.Stored, err)
				}
			})
		}
		racing.Wait()
		if len(losers) != payments-1 {
			t.Fatalf("%d lost", len(losers))
		}
		want := eventstore.Claim{Key: late.Signal.ReferenceKey(), Forever: true}
		for _, r := range losers {
			if r.Position != winner.Position || r.Claim == nil || *r.Claim != want {
				t.Errorf("a loser was told of position %d, the winner is at %d", r.Position, winner.Position)
			}
		}
		l.reopen()
		for _, p := range all {
			if p.String() == winner.Stream.ID {
				continue
			}
			used := signal("shared", domain.OutcomePaid)
			if _, err := l.execute(p, used, l.order()); !errors.As(err, new(*eventstore.ClaimedError)) {
				t.Errorf("%v", err)
			}
			used.ReferenceUsed = true
			r, err := l.execute(p, used, l.order())
			if e, ok := r.Event.(domain.PaymentSignalRefused); err != nil || !ok || e.Reason != domain.ReasonReferenceUsed {
				t.Errorf("%+v, %v", r.Event, err)
			}
			l.do(p, signal("of "+p.String(), domain.OutcomePaid)) // its own
		}
	})
}

// A command whose result was lost returns it again, with or without a key, and is
// recorded once.
func TestExecuteAfterALostAnswer(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, l *ledger) {
		for _, c := range []*eventstore.Claim{nil, claim(7, 7)} {
			p := l.ids.Next()
			opening := l.order()
			opening.New, opening.Claim = true, c
			create := l.create()
			first, err := l.execute(p, create, opening)
			if err != nil {
				t.Fatal(err)
			}
			l.reopen()
			create.Settings.LifetimeSeconds *= 2 // something else would be decided now
			again, err := l.execute(p, create, opening)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the creation again", again, first)

			l.do(p, domain.AssignRoute{Table: table})
			order, pay := l.order(), signal("of "+p.String(), domain.OutcomePaid)
			first, err = l.execute(p, pay, order)
			if err != nil {
				t.Fatal(err)
			}
			l.reopen()
			again, err = l.execute(p, pay, order)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the payment again", again, first)
			if n := l.records(p); n != 3 {
				t.Errorf("%d records, want 3", n)
			}
		}
	})
}

// Where the store cannot tell whether it recorded the event, the key shows that it did:
// that is no replay.
func TestExecuteFindsItsOwnEvent(t *testing.T) {
	t.Parallel()
	s := memory.New()
	l := newLedger(t, s)
	p := l.ids.Next()
	for i, c := range []domain.PaymentCommand{l.create(), domain.AssignRoute{Table: table}, signal("ref", domain.OutcomePaid), domain.CreateRefund{RefundID: l.ids.Next()}} {
		if _, ok := c.(domain.ApplySignal); ok { // it claims the provider's reference
			l.do(p, c)
			continue
		}
		o := l.order()
		o.New, o.Claim = i == 0, claim(byte(i), 1)
		s.Lose(eventstore.ErrUnconfirmed)
		r, err := l.execute(p, c, o)
		s.Lose(nil)
		if err != nil {
			t.Fatal(err)
		}
		want, last, err := eventstore.Fold(t.Context(), l.Ledger, eventstore.PaymentStream(project, p), domain.Payment{Project: project, ID: p})
		if err != nil || r.Replayed || r.Event == nil || last.Commit != o.EventID {
			t.Errorf("replayed: %v, event %v, %v", r.Replayed, r.Event, err)
		}
		same(t, "the record", r.Stored, last)
		same(t, "the state", r.State, want)
	}
}

// After a failed commit, the store refuses all commits. After it is opened again,
// the same command leads to one record, whether or not the first was on disk.
func TestExecuteAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		s := memory.New()
		l := newLedger(t, s)
		p := l.paid()
		o := l.order()
		o.Claim = claim(1, 1)
		refund := domain.CreateRefund{RefundID: l.ids.Next()}
		s.FailNext(memory.Fault{Persisted: kept})
		var fatal *eventstore.FatalError
		for range 2 {
			if _, err := l.execute(p, refund, o); !errors.As(err, &fatal) {
				t.Fatalf("kept %v: %v, want a fatal error", kept, err)
			}
		}
		select {
		case <-s.Fatal():
		default:
			t.Error("Fatal is not closed")
		}
		s = s.Reopen()
		l.Store = s
		o.EventID = l.ids.Next() // the merchant's retry
		r, err := l.execute(p, refund, o)
		if err != nil || r.Replayed != kept || l.records(p) != 4 {
			t.Errorf("kept %v: %v, replayed %v, %d records", kept, err, r.Replayed, l.records(p))
		}
		if err := errors.Join(s.Verify(t.Context()), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A damaged stream is an error; no command is decided on it.
func TestExecuteOnADamagedStream(t *testing.T) {
	t.Parallel()
	s := memory.New()
	l := newLedger(t, s)
	p := l.paid()
	s.Damage(2)
	_, err := l.execute(p, domain.CreateRefund{RefundID: l.ids.Next()}, l.order())
	var corrupt *eventstore.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Position != 2 {
		t.Errorf("%v, want that record 2 is damaged", err)
	}
	s.Damage(2)
	if n := l.records(p); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

// confirmer is a store whose answers have to be confirmed.
type confirmer struct {
	*memory.Store
	log     []string
	failing error
}

func (c *confirmer) Arrive(soon bool) func(context.Context) error {
	c.log = append(c.log, fmt.Sprintf("arrived, soon %t", soon))
	return func(context.Context) error {
		c.log = append(c.log, "confirmed")
		return c.failing
	}
}

func (c *confirmer) LoadAfter(ctx context.Context, s eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	c.log = append(c.log, "loaded")
	return c.Store.LoadAfter(ctx, s, after)
}

// On one of several machines a command is refused, or found to have nothing to do, once it is
// known that this one had everything before the stream was loaded. What is recorded needs no
// such answer, nor does what a claim shows that was made.
func TestExecuteConfirmsBeforeItRefuses(t *testing.T) {
	t.Parallel()
	s := &confirmer{Store: memory.New()}
	defer func() { _ = s.Close() }()
	l := newLedger(t, s)
	p := l.paid()
	refund := func(o eventstore.Order) (eventstore.Result[domain.Payment], error) {
		s.log = nil
		return l.execute(p, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: l.ids.Next()}, o)
	}
	did := func(what string, then ...string) {
		t.Helper()
		want := append([]string{"arrived, soon false"}, then...)
		if !slices.Equal(s.log, want) {
			t.Errorf("%s: %v, want %v", what, s.log, want)
		}
	}
	keyed := l.order()
	keyed.Claim = claim(1, 1)
	if r, err := refund(keyed); err != nil || r.Event == nil {
		t.Errorf("%+v, %v, want a refund", r, err)
	}
	did("a refund", "loaded")
	again := l.order()
	again.Claim = claim(1, 1)
	if r, err := refund(again); err != nil || !r.Replayed {
		t.Errorf("%+v, %v, want the earlier refund", r, err)
	}
	did("the same again")
	if _, err := refund(l.order()); !errors.As(err, new(*domain.Refusal)) {
		t.Errorf("%v, want that there is a refund", err)
	}
	did("another refund", "loaded", "confirmed")
	s.log = nil
	if r, err := l.execute(p, signal("ref", domain.OutcomePaid), l.order()); err != nil || r.Event != nil {
		t.Errorf("%+v, %v: a repeated signal has nothing to do", r, err)
	}
	did("a repeated signal", "loaded", "confirmed")
	s.failing = eventstore.ErrBusy
	if _, err := refund(l.order()); !errors.Is(err, eventstore.ErrBusy) {
		t.Errorf("%v, want that it cannot be known", err)
	}
	did("a refusal that cannot be confirmed", "loaded", "confirmed")
}
