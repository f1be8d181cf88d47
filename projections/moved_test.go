package projections

import (
	"math/rand/v2"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// TestMovesLeaveTheSameViews tells the views of payments of few changes at once
// or of many, and between them whenever somebody reads.
func TestMovesLeaveTheSameViews(t *testing.T) {
	t.Parallel()
	for _, atOnce := range []int{1, 2, 5, movesAtOnce} {
		random := rand.New(rand.NewPCG(uint64(atOnce), 41))
		w := seeded(t, 41)
		e := open(t, w.config(t.TempDir()))
		e.settleAt = atOnce
		w.steps(400)
		for r, err := range w.store.Scan(t.Context(), 0, eventstore.Filter{}) {
			must(t, err)
			must(t, e.apply(r))
			if n := len(e.moved); n >= atOnce {
				t.Fatalf("the views are to be told of %d payments, want fewer than %d", n, atOnce)
			}
			switch random.IntN(40) {
			case 0:
				must(t, e.flush())
			case 1:
				e.settled()
			}
		}
		checkAll(t, w, e)
		diff(t, dump(t, e), w.rebuilt())
	}
}

// TestMovesAreReadAtOnce: whoever asks for a payment gets its newest state,
// though the lists may be behind, and nothing that changes under his hands.
func TestMovesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	w := seeded(t, 42)
	e := open(t, w.config(t.TempDir()))
	w.project()
	w.create()
	feed(t, e)
	id := w.order[0]
	row, ok, err := e.payment(t.Context(), id)
	if err != nil || !ok || len(e.moved) == 0 {
		t.Fatal(ok, err, len(e.moved))
	}
	w.command(row.Payment, domain.ExpirePayment{At: row.Payment.ExpiryDue()}, w.ids.Next())
	feed(t, e)
	if now, _, _ := e.payment(t.Context(), id); now.Payment.Status != domain.Expired {
		t.Errorf("it is %s, want %s", now.Payment.Status, domain.Expired)
	}
	if row.Payment.Status != domain.Created {
		t.Errorf("what was read before has become %s", row.Payment.Status)
	}
}
