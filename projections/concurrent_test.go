package projections

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/views"
)

// TestReadsAreNeverStale appends and reads from many goroutines while flushes
// go on all the time and memory is kept tiny: what Append has answered is
// found, in every view.
func TestReadsAreNeverStale(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{2, cachedPayments} {
		t.Run(fmt.Sprint(rows, " cached rows"), func(t *testing.T) {
			t.Parallel()
			readWhileWriting(t, rows)
		})
	}
}

func readWhileWriting(t *testing.T, rows int) {
	t.Helper()
	w := seeded(t, 21)
	w.Project()
	c := w.config(t.TempDir())
	c.FlushEvery = time.Millisecond
	c.cachedPayments = rows
	e := open(t, c)
	e.limit = 50
	stop := run(t, e)
	var reading atomic.Pointer[domain.ID] // the payment that is being written, for the readers
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if id := reading.Load(); id != nil {
					_, _, _ = e.Payment(ctx, *id)
				}
				runtime.Gosched() // others have work too
			}
		})
	}
	defer readers.Wait()
	defer cancel()

	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			for i := range 40 {
				if err := writeAndRead(t, w, e, &reading, fmt.Sprintf("%d-%d", n, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	diff(t, dump(t, e), w.rebuilt())
}

func writeAndRead(t *testing.T, w *world, e *Engine, reading *atomic.Pointer[domain.ID], description string) error {
	t.Helper()
	ctx := t.Context()
	id, event := w.IDs.Pair()
	reading.Store(&id)
	stream, start := eventstore.PaymentStream("prj_0", id), domain.Payment{Project: "prj_0", ID: id}
	do := func(cmd domain.PaymentCommand, event domain.ID) error {
		_, err := eventstore.Execute(ctx, w.Ledger(), stream, start, cmd, eventstore.Order{EventID: event})
		return err
	}
	if err := do(domain.CreatePayment{
		At: domain.IDTime(event), Amount: 100, Currency: "RUB", Description: &description, Settings: domain.DefaultSettings(),
	}, event); err != nil {
		return err
	}
	for name, q := range map[string]views.PaymentQuery{
		"list": {Limit: views.MaxLimit}, "status": {Status: domain.Created, Limit: views.MaxLimit},
		"description": {Description: &description}, "prefix": {DescriptionPrefix: description, Limit: views.MaxLimit},
	} {
		page, err := e.Payments(ctx, "prj_0", q)
		if err != nil {
			return err
		}
		found := false
		for _, p := range page.Payments {
			found = found || p.ID == id
		}
		if !found {
			return fmt.Errorf("%s: %s is not among %d", name, id, len(page.Payments))
		}
	}
	if at, ok, err := e.OldestUnrouted(ctx); err != nil || !ok || at == 0 {
		return fmt.Errorf("oldest unrouted: %d, %v, %w", at, ok, err)
	}
	table := domain.RoutingTable{{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}
	if err := do(domain.AssignRoute{Table: table}, w.IDs.Next()); err != nil {
		return err
	}
	if p, ok, err := e.Payment(ctx, id); err != nil || !ok || p.Status != domain.AwaitingPayment {
		return fmt.Errorf("payment: %+v, %v, %w", p, ok, err)
	}
	return nil
}
