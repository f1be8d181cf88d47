package projections

import (
	"context"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// TestOldReadsAreNotKept makes a read of the file end after its row was changed,
// and flushed as well.
func TestOldReadsAreNotKept(t *testing.T) {
	t.Parallel()
	w := seeded(t, 31).steps(20)
	e := open(t, w.config(t.TempDir()))
	e.payments.lately = newLately[*paymentRow](latelyRows)
	l, key := e.payments.lately, idKey(w.order[0])
	row, ok, err := lookup(e, &newPaymentsView().table, key)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	old := *row
	old.Payment.Status = "old"
	status := func() domain.PaymentStatus {
		t.Helper()
		p, _, err := e.Payment(t.Context(), w.order[0])
		must(t, err)
		return p.Status
	}
	stood := l.stands(key)
	l.keep(stood, key, &old)
	if got := status(); got != "old" {
		t.Fatalf("what was read is not kept: %s", got)
	}
	for _, flushed := range []bool{false, true} {
		e.mu.Lock()
		e.payments.put(key, row)
		e.last.event = w.ids.Next()
		e.mu.Unlock()
		if flushed {
			must(t, e.flush())
		}
		l.keep(stood, key, &old)
		if got := status(); got != row.Payment.Status {
			t.Errorf("flushed %v: a read older than the last change is kept: %s", flushed, got)
		}
	}
}

// TestKeysThatComeAndGoCostNothing inserts and removes between two flushes.
func TestKeysThatComeAndGoCostNothing(t *testing.T) {
	t.Parallel()
	v := newDueView()
	v.insert("a", "x")
	v.remove("a")
	if n := v.pending(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	v.insert("a", "x")
	v.freeze()
	v.remove("a")
	if n := v.pending(); n != 1 {
		t.Errorf("%d entries hide the key that is being flushed, want 1", n)
	}
}

// TestMemoryStaysBounded folds where nobody flushes by the clock.
func TestMemoryStaysBounded(t *testing.T) {
	t.Parallel()
	w := seeded(t, 32)
	e := open(t, w.config(t.TempDir()))
	e.limit = 30
	w.steps(400)
	for r, err := range w.store.Scan(t.Context(), 0, eventstore.Filter{}) {
		must(t, err)
		must(t, e.apply(r))
		must(t, e.relieve(t.Context()))
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
	w.project()
	long := string(make([]byte, 2000))
	all := []string{"a", "a\x00", "a\x00bcdefghijklmnopqrstuvwxyz", "a\x00" + long, long + "1", long + "2"}
	ids := make(map[string]domain.ID)
	for _, d := range all {
		id, event := w.ids.Pair()
		ids[d] = id
		stream := eventstore.PaymentStream("prj_0", id)
		body, err := w.codec.Encode(stream, 1, event, domain.PaymentCreated{
			CreatedAt: domain.IDTime(event), ExpiresAt: domain.IDTime(event), Amount: 1, Currency: "RUB", Description: &d, Payload: domain.EmptyObject(),
		})
		must(t, err)
		_, err = eventstore.AppendOne(t.Context(), w.store, eventstore.Commit{ID: event, Record: eventstore.Record{Stream: stream, Body: body}})
		must(t, err)
	}
	e := open(t, w.config(t.TempDir()))
	for _, d := range all {
		page, err := e.Payments(t.Context(), "prj_0", PaymentQuery{Description: &d, Limit: 9})
		must(t, err)
		if len(page.Payments) != 1 || page.Payments[0].ID != ids[d] {
			t.Errorf("%.20q: %d found", d, len(page.Payments))
		}
	}
}
