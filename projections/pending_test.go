package projections

import (
	"testing"

	"payledger/domain"
)

// TestPendingUpdatesAreRead: a read of a payment finds its newest state, though
// the lists were not updated yet, and what it answered does not change later.
func TestPendingUpdatesAreRead(t *testing.T) {
	t.Parallel()
	w := seeded(t, 42)
	e := open(t, w.config(t.TempDir()))
	w.Project()
	w.Create()
	feed(t, e)
	id := w.Order[0]
	before, ok, err := e.Payment(t.Context(), id)
	if err != nil || !ok || e.viewWriter.Pending() == 0 {
		t.Fatal(ok, err, e.viewWriter.Pending())
	}
	w.Command(before, domain.ExpirePayment{At: before.ExpiryDue()}, w.IDs.Next())
	feed(t, e)
	if now, _, _ := e.Payment(t.Context(), id); now.Status != domain.Expired || e.viewWriter.Pending() == 0 {
		t.Errorf("it is %s, want %s", now.Status, domain.Expired)
	}
	if before.Status != domain.Created {
		t.Errorf("the payment that was read before has become %s", before.Status)
	}
}
