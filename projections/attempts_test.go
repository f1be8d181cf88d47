package projections

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/views"
)

// attemptsCell names a row of the attempts of a project.
type attemptsCell struct {
	hour  views.Hour
	route string
}

// attempts is the naive count, from the log and the payments it leads to.
func (w *world) attempts(project string) map[attemptsCell]views.AttemptCounts {
	w.TB.Helper()
	out := make(map[attemptsCell]views.AttemptCounts)
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{Project: project}) {
		must(w.TB, err)
		event, err := w.Codec.Decode(r)
		must(w.TB, err)
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			continue
		}
		p, counts := w.Payments[id], views.AttemptCounts{}
		switch e := event.(type) {
		case domain.PaymentAttemptBegun:
			counts.Begun++
		case domain.PaymentAttemptFailed:
			if e.Reason != domain.ReasonAbandoned {
				counts.Failed++
			}
		case domain.PaymentPaid:
			if _, ours := p.AttemptOf(e.Signal.Reference); ours {
				counts.Paid++
			}
		case domain.PaymentLateFunds:
			if _, ours := p.AttemptOf(e.Signal.Reference); ours {
				counts.Paid++
			}
		}
		if counts != (views.AttemptCounts{}) {
			cell := attemptsCell{views.HourOf(domain.InstantOf(r.At)), p.Route}
			out[cell] = out[cell].Plus(counts)
		}
	}
	return out
}

func TestAttemptsAgainstAModel(t *testing.T) {
	t.Parallel()
	var counted views.AttemptCounts
	compare := func(w *world, e *Engine, fatalf func(string, ...any)) {
		for _, project := range w.Projects {
			from := views.HourOf(1_795_169_730_123) + views.Hour(w.Intn(40))
			want := make(map[string]views.AttemptCounts)
			for cell, counts := range w.attempts(project) {
				if cell.hour >= from {
					want[cell.route] = want[cell.route].Plus(counts)
				}
			}
			got, err := e.Attempts(t.Context(), project, from)
			must(t, err)
			if !maps.Equal(got, want) {
				fatalf("from hour %d: got %+v, want %+v", from, got, want)
			}
			for _, c := range got {
				counted = counted.Plus(c)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		w, e := drawn(t, rt)
		compare(w, e, rt.Fatalf)
	})
	// Paid attempts are rare in small worlds: a few larger ones have all kinds.
	for seed := range uint64(4) {
		w := seeded(t, seed).steps(2000)
		e := open(t, w.config(t.TempDir()))
		feed(t, e)
		compare(w, e, t.Fatalf)
	}
	if counted.Begun == 0 || counted.Failed == 0 || counted.Paid == 0 {
		t.Errorf("the worlds have too little: %+v", counted)
	}
}
