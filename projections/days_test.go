package projections

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
)

// dayCell names a row of the days of a project.
type dayCell struct {
	day      Day
	currency domain.Currency
}

// days is the naive sum, from the log and the payments it leads to.
func (w *world) days(project string) map[dayCell]DayRow {
	w.tb.Helper()
	out := make(map[dayCell]DayRow)
	change := func(at time.Time, c domain.Currency, f func(*DayRow)) {
		cell := dayCell{Day(at.Unix() / 86400), c}
		row := out[cell]
		row.Day, row.Currency = cell.day, cell.currency
		f(&row)
		out[cell] = row
	}
	one := func(t Tally, a domain.Amount) Tally { return Tally{t.Count + 1, t.Sum.Add(domain.SumOf(a))} }
	for r, err := range w.store.Scan(w.tb.Context(), 0, eventstore.Filter{Project: project}) {
		must(w.tb, err)
		event, err := w.codec.Decode(r)
		must(w.tb, err)
		switch e := event.(type) {
		case domain.PaymentCreated:
			change(r.At, e.Currency, func(row *DayRow) { row.Created = one(row.Created, e.Amount) })
		case domain.PaymentPaid:
			change(r.At, e.Signal.Currency, func(row *DayRow) { row.Paid = one(row.Paid, e.Signal.Amount) })
		case domain.RefundSucceededEvent:
			change(r.At, e.Signal.Currency, func(row *DayRow) { row.Refunded = one(row.Refunded, e.Signal.Amount) })
		}
	}
	for _, p := range w.payments {
		if p.Project == project {
			change(p.CreatedAt.Time(), p.Currency, func(row *DayRow) {
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
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		e := open(t, w.config(t.TempDir()))
		for range 3 {
			w.steps(rapid.IntRange(20, 60).Draw(rt, "steps"))
			feed(t, e)
			if rapid.Bool().Draw(rt, "flush") {
				must(t, e.flush())
			}
		}
		first := Day(time.UnixMilli(1_795_169_730_123).Unix() / 86400)
		for range 5 {
			project := pick(w, w.projects...)
			from := first + Day(w.intn(5))
			to := from + Day(w.intn(9))
			var want []DayRow
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
			if w.intn(3) == 0 { // of whole days
				q = PaymentQuery{Status: q.Status, Currency: q.Currency, From: from.Start()}
				if w.intn(2) == 0 {
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

func sortDays(rows []DayRow) {
	slices.SortFunc(rows, func(a, b DayRow) int {
		if a.Day != b.Day {
			return int(a.Day) - int(b.Day)
		}
		return slices.Compare([]byte(a.Currency), []byte(b.Currency))
	})
}

func checkTotals(t *rapid.T, q PaymentQuery, got Totals, matching []domain.Payment, most int) {
	if !got.Complete {
		if q.ofDays() || len(matching) <= most || got.Count() != uint64(most) {
			t.Fatalf("%+v: not complete: %d of %d, at most %d", q, got.Count(), len(matching), most)
		}
		return
	}
	want := make(map[totalKey]Tally)
	for _, p := range matching {
		key := totalKey{p.Currency, p.Status}
		want[key] = Tally{want[key].Count + 1, want[key].Sum.Add(domain.SumOf(p.Amount))}
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
	for _, q := range []PaymentQuery{{Min: 2}, {DescriptionWords: []string{"order"}}} {
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
	for _, d := range []struct{ from, to Day }{{0, 0}, {0, 1<<32 - 1}, {1<<32 - 1, 1<<32 - 1}, {5, 4}} {
		if rows, err := e.Days(t.Context(), "prj_0", d.from, d.to); len(rows) > 0 || err != nil {
			t.Error(d, rows, err)
		}
	}
	at := domain.InstantOf(time.Date(2026, 11, 20, 23, 59, 59, 999e6, time.UTC))
	if d := DayOf(at); d.Start() != domain.InstantOf(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)) || DayOf(at+1) != d+1 {
		t.Error(d)
	}
}

// TestTotalsCountEachOnce meets a payment in two lists, as when it moves on
// between them.
func TestTotalsCountEachOnce(t *testing.T) {
	t.Parallel()
	all := totalling{rows: make(map[totalKey]Tally), seen: make(map[domain.ID]bool), most: 2}
	one := facts{100, "RUB"}
	for i, c := range []struct {
		id     domain.ID
		status domain.PaymentStatus
		want   bool
	}{{domain.ID{1}, domain.Created, true}, {domain.ID{1}, domain.Paid, true}, {domain.ID{2}, domain.Paid, true}, {domain.ID{3}, domain.Paid, false}, {domain.ID{2}, domain.Paid, true}} {
		if got := all.take(c.id, one, c.status); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	for _, s := range []domain.PaymentStatus{domain.Created, domain.Paid} {
		if got := all.rows[totalKey{"RUB", s}]; got.Count != 1 || got.Sum != domain.SumOf(100) {
			t.Errorf("%s: %+v", s, got)
		}
	}
}
