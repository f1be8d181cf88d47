package projections

import (
	"context"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/views"
)

// periodCell names a row of the periods of a project.
type periodCell struct {
	number   int64 // of the period since 1970-01-01
	currency domain.Currency
}

const (
	quarter = views.PeriodLength
	day     = 96 * quarter
)

// periods is the naive sum over periods of a length, from the log and the payments
// it leads to.
func (w *world) periods(project string, length domain.Instant) map[periodCell]views.PeriodRow {
	w.TB.Helper()
	out := make(map[periodCell]views.PeriodRow)
	change := func(at domain.Instant, c domain.Currency, f func(*views.PeriodRow)) {
		cell := periodCell{int64(at / length), c}
		row := out[cell]
		row.Currency = cell.currency
		f(&row)
		out[cell] = row
	}
	one := func(t *views.Tally, a domain.Amount) {
		*t = views.Tally{Count: t.Count + 1, Sum: t.Sum.Add(domain.SumOf(a))}
	}
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{Project: project}) {
		must(w.TB, err)
		event, err := w.Codec.Decode(r)
		must(w.TB, err)
		at := domain.InstantOf(r.At)
		switch e := event.(type) {
		case domain.PaymentCreated:
			change(at, e.Currency, func(row *views.PeriodRow) { one(&row.Created, e.Amount) })
		case domain.PaymentPaid:
			change(at, e.Signal.Currency, func(row *views.PeriodRow) { one(&row.Paid, e.Signal.Amount) })
		case domain.PaymentRefundedAtProvider:
			change(at, e.Currency, func(row *views.PeriodRow) { one(&row.Refunded, e.Amount) })
		case domain.PaymentDisputeLost:
			change(at, e.Signal.Currency, func(row *views.PeriodRow) { one(&row.Lost, e.Signal.Amount) })
		case domain.PaymentDisputeWon:
			if e.Lost {
				change(at, e.Signal.Currency, func(row *views.PeriodRow) { one(&row.Back, e.Signal.Amount) })
			}
		case domain.RefundReturned:
			change(at, e.Signal.Currency, func(row *views.PeriodRow) { one(&row.Back, e.Signal.Amount) })
		case domain.RefundSucceededEvent:
			change(at, e.Signal.Currency, func(row *views.PeriodRow) { one(&row.Refunded, e.Signal.Amount) })
		}
	}
	for _, p := range w.Payments {
		if p.Project == project {
			change(p.CreatedAt, p.Currency, func(row *views.PeriodRow) {
				one(row.ByStatus.Of(p.Status), p.Amount)
				if back := wentBack(p); back > 0 {
					one(&row.Returned, back)
				}
			})
		}
	}
	return out
}

// wentBack is what was refunded of a payment; nothing in these logs returns late funds
// by hand.
func wentBack(p domain.Payment) (sum domain.Amount) {
	for _, r := range p.Refunds {
		if r.Status == domain.RefundSucceeded && !r.Returned {
			sum += r.Amount
		}
	}
	for _, r := range p.ProviderRefunds {
		sum += r.Amount
	}
	return sum
}

// TestPeriodsAndTotalsAgainstAModel compares with sums over everything.
func TestPeriodsAndTotalsAgainstAModel(t *testing.T) {
	t.Parallel()
	var listed, rows, partial int
	rapid.Check(t, func(rt *rapid.T) {
		w, e := drawn(t, rt)
		const first = 1_795_169_730_123 / day
		for range 5 {
			project := pick(w, w.Projects...)
			length := pick(w, quarter, day, day)
			from := first*day + domain.Instant(w.Intn(5))*length
			if w.Intn(2) == 0 { // days that begin at another hour
				from += domain.Instant(w.Intn(96)) * quarter
			}
			bounds := []domain.Instant{from}
			for range w.Intn(9) {
				bounds = append(bounds, bounds[len(bounds)-1]+length)
			}
			var want []views.PeriodRow
			for i := range len(bounds) - 1 {
				sums := make(map[domain.Currency]views.PeriodRow)
				for cell, row := range w.periods(project, quarter) {
					if at := domain.Instant(cell.number) * quarter; at >= bounds[i] && at < bounds[i+1] {
						row.Period = i
						sums[cell.currency] = plus(row, sums[cell.currency])
					}
				}
				for _, c := range slices.Sorted(maps.Keys(sums)) {
					want = append(want, sums[c])
				}
			}
			got, err := e.Periods(t.Context(), project, bounds)
			must(t, err)
			if !slices.Equal(got, want) {
				rt.Fatalf("%v:\n got %+v\nwant %+v", bounds, got, want)
			}
			rows += len(want)

			q := w.query()
			if w.Intn(3) == 0 { // of whole periods
				q = views.PaymentQuery{Status: q.Status, Currency: q.Currency, Refund: pick(w, "", q.Refund, views.NotRefunded), From: from}
				if w.Intn(2) == 0 {
					q.To = from + domain.Instant(w.Intn(300)-20)*quarter
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
	if drawsMany() && (listed == 0 || rows == 0 || partial == 0) {
		t.Errorf("%d payments added up, %d rows, %d totals in part", listed, rows, partial)
	}
}

func plus(a, b views.PeriodRow) views.PeriodRow {
	a.Created, a.Paid, a.Refunded, a.Returned = a.Created.Plus(b.Created), a.Paid.Plus(b.Paid), a.Refunded.Plus(b.Refunded), a.Returned.Plus(b.Returned)
	a.Lost, a.Back = a.Lost.Plus(b.Lost), a.Back.Plus(b.Back)
	for _, s := range domain.PaymentStatuses() {
		*a.ByStatus.Of(s) = a.ByStatus.Of(s).Plus(*b.ByStatus.Of(s))
	}
	return a
}

// totalKey is a group of payments that are added up.
type totalKey struct {
	currency domain.Currency
	status   domain.PaymentStatus
}

// ofPeriods reports whether a query must be answered completely.
func ofPeriods(q views.PaymentQuery) bool {
	whole := func(at domain.Instant) bool { return at%quarter == 0 }
	return q.Min <= 1 && q.Refund == "" && q.Disputed == nil && q.Max == 0 && q.Description == nil && q.DescriptionPrefix == "" && len(q.DescriptionTerms) == 0 && whole(q.From) && whole(q.To)
}

func checkTotals(t *rapid.T, q views.PaymentQuery, got views.Totals, matching []domain.Payment, most int) {
	if !got.Complete {
		if ofPeriods(q) || len(matching) <= most || got.Count() != uint64(most) {
			t.Fatalf("%+v: not complete: %d of %d, at most %d", q, got.Count(), len(matching), most)
		}
		return
	}
	want := make(map[totalKey]views.Tally)
	back := make(map[totalKey]views.Tally)
	for _, p := range matching {
		key := totalKey{p.Currency, p.Status}
		want[key] = views.Tally{Count: want[key].Count + 1, Sum: want[key].Sum.Add(domain.SumOf(p.Amount))}
		if sum := wentBack(p); sum > 0 {
			back[key] = views.Tally{Count: back[key].Count + 1, Sum: back[key].Sum.Add(domain.SumOf(sum))}
		}
	}
	if len(got.Rows) != len(want) {
		t.Fatalf("%+v: got %+v, want %+v", q, got, want)
	}
	for _, r := range got.Rows {
		if key := (totalKey{r.Currency, r.Status}); want[key] != r.Tally || back[key] != r.Refunded {
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
	for _, q := range []views.PaymentQuery{{Min: 2}, {Refund: domain.RefundSucceeded}, {Refund: views.NotRefunded}, {DescriptionTerms: []string{"order"}}} {
		got, err := e.Totals(t.Context(), late, "prj_0", q, 1000)
		if err != nil || got.Complete {
			t.Errorf("%+v: %+v, %v", q, got, err)
		}
		if _, err := e.Totals(late, late, "prj_0", q, 1000); err == nil {
			t.Error("answered a request that has ended")
		}
	}
}

func TestPeriodBounds(t *testing.T) {
	t.Parallel()
	e := open(t, seeded(t, 1).config(t.TempDir()))
	for _, bounds := range [][]domain.Instant{nil, {0}, {0, 0}, {0, day}, {-quarter, 1<<62 - 1<<62%quarter}} {
		if rows, err := e.Periods(t.Context(), "prj_0", bounds); len(rows) > 0 || err != nil {
			t.Error(bounds, rows, err)
		}
	}
}
