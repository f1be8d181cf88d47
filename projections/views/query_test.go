package views

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/projections/projectiontest"
)

// TestSparsePrefix searches where the newest payments do not match and the
// matches are more than are kept at once.
func TestSparsePrefix(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 7)
	w.Project()
	create := func(description string) {
		w.Now = w.Now.Add(time.Millisecond)
		id, event := w.IDs.Pair()
		w.Command(domain.Payment{Project: "prj_0", ID: id}, domain.CreatePayment{
			At: domain.IDTime(event), Amount: domain.Amount(1 + w.Intn(3)), Currency: "RUB", Description: &description,
			Settings: domain.DefaultSettings(),
		}, event)
		w.Order = append(w.Order, id)
	}
	create("rare3")
	create("rare1-rare2") // has two words that begin alike, before those of the older one
	for i := range 300 {
		create(fmt.Sprintf("old-%d", 299-i))
	}
	for i := range walkFirst + 100 {
		if i%50 == 0 { // found while the newest are walked
			create(fmt.Sprintf("old-1-older-%d", i))
		}
		create(fmt.Sprintf("new-%d", i))
	}
	db, v, writer := opened(t)
	fold(t, db, writer, w, func() {})
	flush(t, db, writer)
	for _, keep := range []int{1, 7, 150, maxNewest} {
		for _, q := range []PaymentQuery{
			{DescriptionPrefix: "old-"},
			{DescriptionPrefix: "old-1"},
			{DescriptionPrefix: "old-", Min: 2, Max: 2},
			{DescriptionPrefix: "old-", Before: w.Order[100]},
			{DescriptionPrefix: "old-", Status: domain.Paid},
			{DescriptionPrefix: "none"},
			{DescriptionTerms: []string{"old"}},
			{DescriptionTerms: []string{"rare"}},
			{DescriptionTerms: []string{"ne", "old"}},
			{DescriptionTerms: []string{"1", "old"}},
			{DescriptionTerms: []string{"1", "old"}, Before: w.Order[100]},
			{DescriptionTerms: []string{"o"}, Min: 2, Max: 2},
		} {
			q.Limit = 40
			s := paymentSearch{views: v, project: "prj_0", q: q, ids: idsBetween(0, 0, q.Before), want: 41, keep: keep}
			must(t, s.run(t.Context()))
			var want []domain.ID
			for _, p := range w.NewestFirst(q.matches) {
				if len(want) < 41 && (q.Before.IsZero() || p.ID.Compare(q.Before) < 0) {
					want = append(want, p.ID)
				}
			}
			var got []domain.ID
			for _, p := range s.found {
				got = append(got, p.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("keep %d, %+v: %d found of %d", keep, q, len(got), len(want))
			}
		}
	}
}

func TestLongWalkHonoursItsContext(t *testing.T) {
	t.Parallel()
	_, v, _ := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := paymentSearch{views: v, project: "prj_0", ids: idsBetween(0, 0, domain.ID{}), want: 5, keep: 1}
	if _, err := s.walk(ctx, v.byProject.Table, byProjectKey("prj_0"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
