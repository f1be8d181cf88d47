package projections

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/views"
)

// dayCell names a row of the days of a project.
type dayCell struct {
	day      views.Day
	currency domain.Currency
}

// days is the naive sum, from the log and the payments it leads to.
func (w *world) days(project string) map[dayCell]views.DayRow {
	w.TB.Helper()
	out := make(map[dayCell]views.DayRow)
	change := func(at time.Time, c domain.Currency, f func(*views.DayRow)) {
		cell := dayCell{views.Day(at.Unix() / 86400), c}
		row := out[cell]
		row.Day, row.Currency = cell.day, cell.currency
		f(&row)
		out[cell] = row
	}
	one := func(t views.Tally, a domain.Amount) views.Tally {
		return views.Tally{Count: t.Count + 1, Sum: t.Sum.Add(domain.SumOf(a))}
	}
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{Project: project}) {
		must(w.TB, err)
		event, err := w.Codec.Decode(r)
		must(w.TB, err)
		switch e := event.(type) {
		case domain.PaymentCreated:
			change(r.At, e.Currency, func(row *views.DayRow) { row.Created = one(row.Created, e.Amount) })
		case domain.PaymentPaid:
			change(r.At, e.Signal.Currency, func(row *views.DayRow) { row.Paid = one(row.Paid, e.Signal.Amount) })
		case domain.RefundSucceededEvent:
			change(r.At, e.Signal.Currency, func(row *views.DayRow) { row.Refunded = one(row.Refunded, e.Signal.Amount) })
		}
	}
	for _, p := range w.Payments {
		if p.Project == project {
			change(p.CreatedAt.Time(), p.Currency, func(row *views.DayRow) {
				i := slices.Index(domain.PaymentStatuses(), p.Status)
				row.ByStatus[i] = one(row.ByStatus[i], p.Amount)
			})
		}
	}
	return out
}

// TestDaysAndTotalsAgainstAModel compares with sums over everything.
func TestDaysAndTotalsAgainstAModel(t *testing.T) {
	t.Parallel()
	var listed, days, partial int
	rapid.Check(t, func(rt *rapid.T) {
		w, e := drawn(t, rt)
		first := views.Day(time.UnixMilli(1_795_169_730_123).Unix() / 86400)
		for range 5 {
			project := pick(w, w.Projects...)
			from := first + views.Day(w.Intn(5))
			to := from + views.Day(w.Intn(9))
			var want []views.DayRow
			for cell, row := range w.days(project) {
				if cell.day >= from && cell.day <= to {
					want = append(want, row)
				}
			}
			got, err := e.Days(t.Context(), project, from, to)
			must(t, err)
			sortDays(want)
			if !slices.Equal(got, want) {
				rt.Fatalf("%d to %d:\n got %+v\nwant %+v", from, to, got, want)
			}
			days += len(want)

			q := w.query()
			if w.Intn(3) == 0 { // of whole days
				q = views.PaymentQuery{Status: q.Status, Currency: q.Currency, From: from.Start()}
				if w.Intn(2) == 0 {
					q.To = to.Start()
				}
			}
			most := pick(w, 3, 1000)
			matching := w.asked(project, q)
			totals, err := e.Totals(t.Context(), t.Context(), project, q, most)
			must(t, err)
			checkTotals(rt, q, totals, matching, most)
			listed += len(matching)
			if !totals.Complete {
				partial++
			}
		}
		must(t, e.Close())
	})
	if listed == 0 || days == 0 || (partial == 0 && !testing.Short()) { // few scripts may meet none in part
		t.Errorf("%d payments added up, %d days, %d totals in part", listed, days, partial)
	}
}

func sortDays(rows []views.DayRow) {
	slices.SortFunc(rows, func(a, b views.DayRow) int {
		if a.Day != b.Day {
			return int(a.Day) - int(b.Day)
		}
		return slices.Compare([]byte(a.Currency), []byte(b.Currency))
	})
}

// totalKey is a group of payments that are added up.
type totalKey struct {
	currency domain.Currency
	status   domain.PaymentStatus
}

// ofDays reports whether a query must be answered completely.
func ofDays(q views.PaymentQuery) bool {
	whole := func(at domain.Instant) bool { return at%(24*60*60*1000) == 0 }
	return q.Min <= 1 && q.Max == 0 && q.Description == nil && q.DescriptionPrefix == "" && len(q.DescriptionTerms) == 0 && whole(q.From) && whole(q.To)
}

func checkTotals(t *rapid.T, q views.PaymentQuery, got views.Totals, matching []domain.Payment, most int) {
	if !got.Complete {
		if ofDays(q) || len(matching) <= most || got.Count() != uint64(most) {
			t.Fatalf("%+v: not complete: %d of %d, at most %d", q, got.Count(), len(matching), most)
		}
		return
	}
	want := make(map[totalKey]views.Tally)
	for _, p := range matching {
		key := totalKey{p.Currency, p.Status}
		want[key] = views.Tally{Count: want[key].Count + 1, Sum: want[key].Sum.Add(domain.SumOf(p.Amount))}
	}
	if len(got.Rows) != len(want) {
		t.Fatalf("%+v: got %+v, want %+v", q, got, want)
	}
	for _, r := range got.Rows {
		if want[totalKey{r.Currency, r.Status}] != r.Tally {
			t.Fatalf("%+v: got %+v, want %+v", q, got, want)
		}
	}
}

func TestTotalsEndInTime(t *testing.T) {
	t.Parallel()
	w := seeded(t, 3).steps(200)
	e := open(t, w.config(t.TempDir()))
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for _, q := range []views.PaymentQuery{{Min: 2}, {DescriptionTerms: []string{"order"}}} {
		got, err := e.Totals(t.Context(), late, "prj_0", q, 1000)
		if err != nil || got.Complete {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
		if _, err := e.Totals(late, late, "prj_0", q, 1000); err == nil {
			t.Error("answered a request that has ended")
		}
	}
}

func TestDayBounds(t *testing.T) {
	t.Parallel()
	e := open(t, seeded(t, 1).config(t.TempDir()))
	for _, d := range []struct{ from, to views.Day }{{0, 0}, {0, 1<<32 - 1}, {1<<32 - 1, 1<<32 - 1}, {5, 4}} {
		if rows, err := e.Days(t.Context(), "prj_0", d.from, d.to); len(rows) > 0 || err != nil {
			t.Error(d, rows, err)
		}
	}
	at := domain.InstantOf(time.Date(2026, 11, 20, 23, 59, 59, 999e6, time.UTC))
	if d := views.DayOf(at); d.Start() != domain.InstantOf(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)) || views.DayOf(at+1) != d+1 {
		t.Error(d)
	}
}

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
	rapid.Check(t, func(rt *rapid.T) {
		w, e := drawn(t, rt)
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
				rt.Fatalf("from hour %d: got %+v, want %+v", from, got, want)
			}
			for _, c := range got {
				counted = counted.Plus(c)
			}
		}
	})
	if counted.Begun == 0 || counted.Failed == 0 || counted.Paid == 0 {
		t.Errorf("the worlds have too little: %+v", counted)
	}
}
