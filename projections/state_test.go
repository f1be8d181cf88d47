package projections

import (
	"reflect"
	"testing"

	"payledger/domain"
)

// TestStateAlone folds payments and projects without the other views. With room for one or two rows
// payments are written and read again all the time.
func TestStateAlone(t *testing.T) {
	t.Parallel()
	w := seeded(t, 17).steps(300)
	for _, limit := range []int{1, 2, maxPending} {
		c := w.config(t.TempDir())
		c.StateOnly = true
		e := newEngine(c)
		e.limit = limit
		must(t, e.rebuild(t.Context(), nil))
		n := 0
		must(t, e.EachPayment(t.Context(), func(p domain.Payment) error {
			if n++; !reflect.DeepEqual(p, w.Payments[p.ID]) {
				t.Errorf("limit %d: got %+v, want %+v", limit, p, w.Payments[p.ID])
			}
			return nil
		}))
		projects, err := e.Projects(t.Context())
		if err != nil || n != len(w.Payments) || len(projects) != len(w.Projects) {
			t.Errorf("limit %d: %d payments, want %d; %d projects, want %d; %v", limit, n, len(w.Payments), len(projects), len(w.Projects), err)
		}
		must(t, e.Close())
	}
}
