package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/bustest"
)

// routing runs a router over payments until each is decided.
func routing(t *testing.T, b *bustest.Book, store eventstore.Store, table domain.RoutingTable, ids []domain.ID) error {
	t.Helper()
	ledger := b.Ledger
	ledger.Store = store
	r := newRouter(Config{
		Ledger: ledger, IDs: b.IDs, Table: func() (inUse, _ domain.RoutingTable) { return table, nil }, Unrouted: bustest.Views{Book: b}, Log: zerolog.Nop(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	for _, id := range ids {
		for b.Payment(t, id).Status == domain.Created {
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
		b := bustest.NewBook(t)
		b.IDs = domain.NewIDs(time.Now, rand.NewChaCha8([32]byte{1}), domain.ID{})
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
			ids[i] = b.Create(t, time.Hour)
		}
		if err := routing(t, b, b.Store, table, ids); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		routes := map[string]int{}
		for _, id := range ids {
			p := b.Payment(t, id)
			if p.Status != domain.AwaitingPayment {
				t.Fatalf("payment is %s", p.Status)
			}
			routes[p.Route]++
		}
		// The drawn ids are always the same; 500 are expected.
		if routes["one"]+routes["three"] != n || routes["one"] < 440 || routes["one"] > 560 {
			t.Errorf("%v", routes)
		}
		if last := b.Last(t); last != 2*n {
			t.Errorf("%d events for %d payments", last, n)
		}
	})
}

func TestPaymentsWithoutARouteFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		id := b.Create(t, time.Hour)
		_ = routing(t, b, b.Store, domain.RoutingTable{{Route: "dollars", Currency: "USD", Min: 1, Max: 2, Weight: 1}}, []domain.ID{id})
		if p := b.Payment(t, id); p.Status != domain.Failed || p.FailureReason != domain.ReasonNoRoute {
			t.Errorf("%s, %s", p.Status, p.FailureReason)
		}
	})
}

func TestRouterWaitsForABusyStoreAndStopsWithAFatalOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		fails := &bustest.Failing{Store: b.Store, Left: make(chan error, 8)}
		for _, err := range []error{eventstore.ErrBusy, eventstore.ErrFull, eventstore.ErrFull} {
			fails.Left <- err
		}
		id := b.Create(t, time.Hour)
		// A payment that is not there is none of its business.
		_ = routing(t, b, fails, domain.SandboxTable(), []domain.ID{id})
		if p := b.Payment(t, id); p.Status != domain.AwaitingPayment || len(fails.Left) != 0 {
			t.Errorf("%s", p.Status)
		}
		fails.Left <- &eventstore.FatalError{Err: errors.New("disk on fire")}
		err := routing(t, b, fails, domain.SandboxTable(), []domain.ID{b.Create(t, time.Hour)})
		if !errors.As(err, new(*eventstore.FatalError)) {
			t.Errorf("%v", err)
		}
	})
}

// TestPaymentsWaitForAPausedRoute: those that another route takes are given to it,
// those that no route would take fail, and the others wait until a route is resumed.
func TestPaymentsWaitForAPausedRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		both := domain.Rule{Route: "cash", Currency: "RUB", Min: 1, Max: 149999, Weight: 1}
		only := domain.Rule{Route: "cards", Currency: "RUB", Min: 1, Max: 150000, Weight: 1}
		views, again, metrics := bustest.Views{Book: b}, make(chan struct{}, 1), prometheus.NewRegistry()
		var paused atomic.Bool
		paused.Store(true)
		r := newRouter(Config{
			Ledger: b.Ledger, IDs: b.IDs, Log: zerolog.Nop(), Unrouted: views, Again: again, Metrics: metrics,
			Table: func() (inUse, resting domain.RoutingTable) {
				if paused.Load() {
					return domain.RoutingTable{both}, domain.RoutingTable{only}
				}
				return domain.RoutingTable{both, only}, nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.run(ctx) }()
		var waiting []domain.ID
		for range routerBatch + 3 { // more than one page of the view
			waiting = append(waiting, b.Create(t, time.Hour))
		}
		time.Sleep(routerEvery)
		synctest.Wait()
		again <- struct{}{} // nothing was resumed
		synctest.Wait()
		for _, id := range waiting {
			if p := b.Payment(t, id); p.Status != domain.Created {
				t.Fatalf("%s %s while its route is paused", p.Status, p.FailureReason)
			}
		}
		if got := testutil.ToFloat64(r.held); got != float64(len(waiting)) {
			t.Errorf("%v payments held, want %d", got, len(waiting))
		}
		paused.Store(false)
		again <- struct{}{}
		synctest.Wait()
		for _, id := range waiting {
			if p := b.Payment(t, id); p.Route != "cards" {
				t.Fatalf("%s, route %q after its route was resumed", p.Status, p.Route)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A payment that cannot be read, and one that is decided by somebody else in between, do not keep
// those that came with them from their routes.
func TestRouterDecidesEachByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		damaged, raced, last := b.Create(t, time.Hour), b.Create(t, time.Hour), b.Create(t, time.Hour)
		if p, known, err := (bustest.Views{Book: b}).Payment(t.Context(), damaged); !known || err != nil { // the view has it
			t.Fatal(p, err)
		}
		store, _ := b.Store.(*memory.Store)
		store.Damage(1)
		conflicts := &racing{Store: b.Store, first: sync.OnceFunc(func() { b.Do(t, raced, domain.AssignRoute{Table: domain.SandboxTable()}) })}
		if err := routing(t, b, conflicts, domain.SandboxTable(), []domain.ID{raced, last}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if p := b.Payment(t, last); p.Status != domain.AwaitingPayment || b.Last(t) != 5 {
			t.Errorf("%s, %d events", p.Status, b.Last(t))
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
	return r.Store.Append(ctx, commits...)
}

// strange is a view that has a payment of another project.
type strange struct{ id domain.ID }

func (v strange) EachUnrouted(_ context.Context, after eventstore.Position, _ int, fn func(eventstore.Position, string, domain.ID) error) error {
	if after > 0 {
		return nil
	}
	return fn(1, "prj_other", v.id)
}

func TestRouterLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	r := newRouter(Config{Ledger: b.Ledger, IDs: b.IDs, Table: func() (inUse, _ domain.RoutingTable) { return domain.SandboxTable(), nil }, Unrouted: strange{b.Create(t, time.Hour)}, Log: zerolog.Nop()})
	if upTo, err := r.routeWaiting(t.Context(), 0, 0); upTo != 1 || err != nil {
		t.Errorf("%d, %v", upTo, err)
	}
	if last := b.Last(t); last != 1 {
		t.Errorf("%d events", last)
	}
}
