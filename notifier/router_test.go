package notifier

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// routing runs a router over payments until each is decided.
func routing(t *testing.T, b *book, store eventstore.Store, table domain.RoutingTable, ids []domain.ID) error {
	t.Helper()
	ledger := b.Ledger
	ledger.Store = store
	r := newRouter(WorkersConfig{Ledger: ledger, IDs: b.ids, Table: table, Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	for _, id := range ids {
		if err := r.take(ctx, eventstore.PaymentStream(testProject, id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		for b.payment(t, id).Status == domain.Created {
			select {
			case err := <-done:
				return err
			case <-time.After(time.Millisecond):
			}
		}
	}
	cancel()
	return <-done
}

func TestRouterFollowsTheWeights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		b.ids = domain.NewIDs(time.Now, rand.NewChaCha8([32]byte{1}), domain.ID{})
		table := domain.RoutingTable{
			{Route: "one", Currency: "RUB", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1},
			{Route: "three", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 3},
			{Route: "never", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 0},
			{Route: "dollars", Currency: "USD", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 100},
			{Route: "small", Min: domain.MinAmount, Max: 100, Weight: 100},
		}
		const n = 2000
		ids := make([]domain.ID, n)
		for i := range ids {
			ids[i] = b.create(t, time.Hour)
		}
		// Each twice, as after an outage.
		if err := routing(t, b, b.Store, table, slices.Concat(ids, ids)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		routes := map[string]int{}
		for _, id := range ids {
			p := b.payment(t, id)
			if p.Status != domain.AwaitingPayment {
				t.Fatalf("payment is %s", p.Status)
			}
			routes[p.Route]++
		}
		// The drawn ids are always the same; 500 are expected.
		if routes["one"]+routes["three"] != n || routes["one"] < 440 || routes["one"] > 560 {
			t.Errorf("%v", routes)
		}
		if last := b.last(t); last != 2*n {
			t.Errorf("%d events for %d payments", last, n)
		}
	})
}

func TestPaymentsWithoutARouteFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		id := b.create(t, time.Hour)
		_ = routing(t, b, b.Store, domain.RoutingTable{{Route: "dollars", Currency: "USD", Min: 1, Max: 2, Weight: 1}}, []domain.ID{id})
		if p := b.payment(t, id); p.Status != domain.Failed || p.FailureReason != domain.ReasonNoRoute {
			t.Errorf("%s, %s", p.Status, p.FailureReason)
		}
	})
}

func TestRouterWaitsForABusyStoreAndStopsWithAFatalOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		fails := &failing{Store: b.Store, left: make(chan error, 8)}
		for _, err := range []error{eventstore.ErrBusy, eventstore.ErrFull, eventstore.ErrFull} {
			fails.left <- err
		}
		id := b.create(t, time.Hour)
		// A payment that is not there is none of its business.
		_ = routing(t, b, fails, domain.SandboxTable(), []domain.ID{id})
		if p := b.payment(t, id); p.Status != domain.AwaitingPayment || len(fails.left) != 0 {
			t.Errorf("%s", p.Status)
		}
		fails.left <- &eventstore.FatalError{Err: errors.New("disk on fire")}
		err := routing(t, b, fails, domain.SandboxTable(), []domain.ID{b.create(t, time.Hour)})
		if !errors.As(err, new(*eventstore.FatalError)) {
			t.Errorf("%v", err)
		}
	})
}

// A payment that cannot be read, and one that is decided by somebody else in
// between, do not keep those that came with them from their routes.
func TestRouterDecidesEachByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		damaged, raced, last := b.create(t, time.Hour), b.create(t, time.Hour), b.create(t, time.Hour)
		store, _ := b.Store.(*memory.Store)
		store.Damage(1)
		conflicts := &racing{Store: b.Store, first: func() { b.do(t, raced, domain.AssignRoute{Table: domain.SandboxTable()}) }}
		ledger := b.Ledger
		ledger.Store = conflicts
		r := newRouter(WorkersConfig{Ledger: ledger, IDs: b.ids, Table: domain.SandboxTable(), Log: zerolog.Nop()})
		again, wait, err := r.route(t.Context(), []eventstore.Stream{
			eventstore.PaymentStream(testProject, damaged), eventstore.PaymentStream(testProject, raced), eventstore.PaymentStream(testProject, last),
		})
		if len(again) != 1 || again[0].ID != raced.String() || wait || err != nil {
			t.Errorf("%v, %t, %v", again, wait, err)
		}
		if again, _, err = r.route(t.Context(), again); len(again) > 0 || err != nil {
			t.Errorf("%v, %v", again, err)
		}
		if p := b.payment(t, last); p.Status != domain.AwaitingPayment || b.last(t) != 5 {
			t.Errorf("%s, %d events", p.Status, b.last(t))
		}
	})
}

// racing lets somebody else be first.
type racing struct {
	eventstore.Store
	first func()
}

func (r *racing) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	r.first()
	r.first = func() {}
	return r.Store.Append(ctx, commits...)
}

func TestRouterLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	r := newRouter(WorkersConfig{Ledger: b.Ledger, IDs: b.ids, Table: domain.SandboxTable(), Log: zerolog.Nop()})
	again, wait, err := r.route(t.Context(), []eventstore.Stream{
		eventstore.PaymentStream("prj_other", b.create(t, time.Hour)), {Project: testProject, Kind: "payment", ID: "x"},
	})
	if len(again) > 0 || wait || err != nil {
		t.Errorf("%v, %t, %v", again, wait, err)
	}
	if last := b.last(t); last != 1 {
		t.Errorf("%d events", last)
	}
}
