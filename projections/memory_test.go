package projections

import (
	"context"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/views"
)

// TestMemoryStaysBounded folds where nobody flushes by the clock.
func TestMemoryStaysBounded(t *testing.T) {
	t.Parallel()
	w := seeded(t, 32)
	e := open(t, w.config(t.TempDir()))
	e.limit = 30
	w.Steps(400)
	for r, err := range w.Store.Scan(t.Context(), 0, eventstore.Filter{}) {
		must(t, err)
		must(t, e.apply(r))
		must(t, e.boundMemory(t.Context()))
		if n := e.pendingNow(); n >= 2*e.limit {
			t.Fatalf("%d entries in memory, limit %d", n, e.limit)
		}
	}
	diff(t, dump(t, e), w.rebuilt())
}

// TestNoWaiterIsForgotten lets the last advance and a waiter race.
func TestNoWaiterIsForgotten(t *testing.T) {
	t.Parallel()
	e := newEngine(seeded(t, 33).config(t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	wanted, gone := make(chan eventstore.Position), make(chan error)
	go func() {
		for p := range wanted {
			gone <- e.Wait(ctx, p)
		}
		close(gone)
	}()
	for p := range eventstore.Position(20_000) {
		wanted <- p + 1
		e.advance(p + 1)
		if err := <-gone; err != nil {
			t.Fatalf("waiting for %d: %v", p+1, err)
		}
	}
	close(wanted)
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
}

// TestForeignDescriptions finds descriptions that no command would take but an
// event may hold: with zero bytes, and longer than a key can be.
func TestForeignDescriptions(t *testing.T) {
	t.Parallel()
	w := seeded(t, 34)
	w.Project()
	long := string(make([]byte, 2000))
	all := []string{"a", "a\x00", "a\x00bcdefghijklmnopqrstuvwxyz", "a\x00" + long, long + "1", long + "2"}
	ids := make(map[string]domain.ID)
	for _, d := range all {
		id, event := w.IDs.Pair()
		ids[d] = id
		stream := eventstore.PaymentStream("prj_0", id)
		body, err := w.Codec.Encode(stream, 1, event, eventstore.Cause{}, domain.PaymentCreated{
			CreatedAt: domain.IDTime(event), ExpiresAt: domain.IDTime(event), Amount: 1, Currency: "RUB", Description: &d, Payload: domain.EmptyObject(),
		})
		must(t, err)
		_, err = eventstore.AppendOne(t.Context(), w.Store, eventstore.Commit{ID: event, Record: eventstore.Record{Stream: stream, Body: body}})
		must(t, err)
	}
	e := open(t, w.config(t.TempDir()))
	for _, d := range all {
		page, err := e.Payments(t.Context(), "prj_0", views.PaymentQuery{Description: &d, Limit: 9})
		must(t, err)
		if len(page.Payments) != 1 || page.Payments[0].ID != ids[d] {
			t.Errorf("%.20q: %d found", d, len(page.Payments))
		}
	}
}
