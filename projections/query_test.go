package projections

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/projections/projectiontest"
	"payledger/projections/views"
)

// query draws one for which there is a fair chance of matches.
func (w *world) query() views.PaymentQuery {
	var q views.PaymentQuery
	if w.Intn(2) == 0 {
		q.Status = pick(w, domain.PaymentStatuses()...)
	}
	if w.Intn(3) == 0 {
		q.Currency = pick[domain.Currency](w, "RUB", "USD", "EUR")
	}
	if w.Intn(4) == 0 {
		q.Refund = pick(w, views.NotRefunded, domain.RefundPending, domain.RefundSucceeded, domain.RefundFailed, domain.RefundByHand, domain.RefundCameBack)
	}
	if w.Intn(5) == 0 {
		q.Disputed = new(w.Intn(4) > 0)
	}
	for _, bound := range []*domain.Instant{&q.From, &q.To} {
		if w.Intn(4) == 0 && len(w.Order) > 0 {
			*bound = domain.IDTime(pick(w, w.Order...)) + domain.Instant(w.Intn(3)-1)
		}
	}
	switch w.Intn(4) {
	case 0:
		q.Min = domain.Amount(w.Intn(200))
	case 1:
		q.Min, q.Max = 100, 100
	case 2:
		q.Max = domain.Amount(w.Intn(200))
	}
	switch w.Intn(6) {
	case 0:
		d := pick(w, projectiontest.Descriptions()...)
		q.Description = &d
	case 1:
		q.DescriptionPrefix = pick(w, "o", "order-", "order-1", "заказ", "x", "\u00ff")
	case 2, 3:
		q.DescriptionTerms = pick(w, []string{"order"}, []string{"o"}, []string{"1", "order"}, []string{"1", "o", "orders"}, []string{"заказ"},
			[]string{"1", "зак"}, []string{"x"}, []string{"1"}, []string{"1", "x"}, []string{"\u00ff"})
	}
	return q
}

// asked is the naive answer.
func (w *world) asked(project string, q views.PaymentQuery) []domain.Payment {
	return w.NewestFirst(func(p domain.Payment) bool {
		return p.Project == project &&
			(q.Status == "" || p.Status == q.Status) &&
			(q.Refund == "" || q.Refund == lastRefund(p)) &&
			(q.Disputed == nil || *q.Disputed == (len(p.Disputes) > 0)) &&
			(q.Currency == "" || p.Currency == q.Currency) &&
			(q.From == 0 || p.CreatedAt >= q.From) && (q.To == 0 || p.CreatedAt < q.To) &&
			p.Amount >= q.Min && (q.Max == 0 || p.Amount <= q.Max) &&
			(q.Description == nil || p.Description != nil && *p.Description == *q.Description) &&
			(q.DescriptionPrefix == "" || p.Description != nil && strings.HasPrefix(*p.Description, q.DescriptionPrefix)) &&
			(len(q.DescriptionTerms) == 0 || p.Description != nil && begin(naiveWords(*p.Description), q.DescriptionTerms))
	})
}

func lastRefund(p domain.Payment) domain.RefundStatus {
	status := views.NotRefunded
	for _, r := range p.Refunds {
		if status = r.Status; r.Returned {
			status = "returned"
		}
	}
	if len(p.ProviderRefunds) > 0 && (status == views.NotRefunded || status == domain.RefundFailed || status == "returned") {
		return "refunded_at_provider"
	}
	return status
}

func naiveWords(description string) []string {
	if words, ok := projectiontest.TermsOf()[description]; ok {
		return words
	}
	return strings.Split(description, "-")
}

// begin is the naive allBegin.
func begin(words, beginnings []string) bool {
	for _, b := range beginnings {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, b) }) {
			return false
		}
	}
	return true
}

func idsOf(all []domain.Payment) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.ID.String()
	}
	return out
}

// pageThrough reads all pages of a query; between is called after each.
func pageThrough(t *testing.T, w *world, e *Engine, project string, q views.PaymentQuery, between func()) []domain.Payment {
	t.Helper()
	var got []domain.Payment
	for {
		q.Limit = 1 + w.Intn(7)
		page, err := e.Payments(t.Context(), project, q)
		must(t, err)
		got = append(got, page.Payments...)
		if len(page.Payments) > q.Limit {
			t.Fatalf("%d payments, limit %d", len(page.Payments), q.Limit)
		}
		if !page.More {
			return got
		}
		if len(page.Payments) != q.Limit {
			t.Fatalf("%d payments and more, limit %d", len(page.Payments), q.Limit)
		}
		q.Before = page.Payments[len(page.Payments)-1].ID
		between()
	}
}

// drawn is a random log and an engine that has followed it.
func drawn(t *testing.T, rt *rapid.T) (*world, *Engine) {
	t.Helper()
	w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
	e := open(t, w.config(t.TempDir()))
	for range 3 {
		w.Steps(rapid.IntRange(20, 60).Draw(rt, "steps"))
		w.GiveBack()
		feed(t, e)
		if rapid.Bool().Draw(rt, "flush") {
			must(t, e.flush())
		}
	}
	w.Report()
	feed(t, e)
	return w, e
}

func TestPaymentsAgainstAModel(t *testing.T) {
	t.Parallel()
	tried := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		w, e := drawn(t, rt)
		order, yes := "order-1", true
		queries := []views.PaymentQuery{
			{Description: &order},
			{DescriptionPrefix: "order-"},
			{DescriptionTerms: []string{"1", "order"}},
			{Disputed: &yes},
			{Refund: domain.RefundCameBack},
		}
		for range 10 {
			queries = append(queries, w.query())
		}
		for _, q := range queries {
			project := pick(w, w.Projects...)
			want := w.asked(project, q)
			got := pageThrough(t, w, e, project, q, func() {})
			if !slices.Equal(idsOf(got), idsOf(want)) {
				rt.Fatalf("%+v:\n got %v\nwant %v", q, idsOf(got), idsOf(want))
			}
			for i := range got {
				if !reflect.DeepEqual(canonical(got[i]), canonical(want[i])) {
					rt.Fatalf("got %+v, want %+v", got[i], want[i])
				}
			}
			tried["all"] += len(want)
			if q.Description != nil {
				tried["description"] += len(want)
			}
			if q.DescriptionPrefix != "" {
				tried["prefix"] += len(want)
			}
			if len(q.DescriptionTerms) > 1 {
				tried["words"] += len(want)
			}
			if q.Disputed != nil && *q.Disputed {
				tried["disputed"] += len(want)
			}
			if q.Refund == domain.RefundCameBack {
				tried["returned"] += len(want)
			}
		}
		must(t, e.Close())
	})
	for _, what := range []string{"all", "description", "prefix", "words", "disputed", "returned"} {
		if drawsMany() && tried[what] == 0 {
			t.Errorf("no query by %s had an answer", what)
		}
	}
}

// TestPagesWhileEventsArrive pages while payments are created and move on:
// what matched all the time is listed exactly once, in order.
func TestPagesWhileEventsArrive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		e := open(t, w.config(t.TempDir()))
		w.Steps(rapid.IntRange(20, 100).Draw(rt, "steps"))
		feed(t, e)
		project, q := pick(w, w.Projects...), w.query()
		always := make(map[string]bool)
		for _, id := range idsOf(w.asked(project, q)) {
			always[id] = true
		}
		ever := make(map[string]bool)
		note := func() {
			now := make(map[string]bool)
			for _, id := range idsOf(w.asked(project, q)) {
				now[id], ever[id] = true, true
			}
			for id := range always {
				always[id] = now[id]
			}
		}
		note()
		got := idsOf(pageThrough(t, w, e, project, q, func() {
			w.Steps(rapid.IntRange(0, 3).Draw(rt, "more"))
			feed(t, e)
			note()
		}))
		if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
			rt.Fatalf("not newest first: %v", got)
		}
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			rt.Fatalf("listed twice: %v", got)
		}
		for _, id := range got {
			if !ever[id] {
				rt.Fatalf("%s never matched", id)
			}
		}
		for id, matched := range always {
			if matched && !slices.Contains(got, id) {
				rt.Fatalf("%s always matched and is not listed", id)
			}
		}
		must(t, e.Close())
	})
}

func TestRefundsAgainstAModel(t *testing.T) {
	t.Parallel()
	listed := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		e := open(t, w.config(t.TempDir()))
		w.Steps(rapid.IntRange(50, 200).Draw(rt, "steps"))
		feed(t, e)
		if rapid.Bool().Draw(rt, "flush") {
			must(t, e.flush())
		}
		for range 5 {
			project := pick(w, w.Projects...)
			var q views.RefundQuery
			if w.Intn(2) == 0 {
				q.Status = pick(w, domain.RefundStatuses()...)
			}
			if w.Intn(3) == 0 && len(w.Order) > 0 {
				q.PaymentID = pick(w, w.Order...)
			}
			var want []views.RefundRow
			for _, p := range w.Payments {
				for _, r := range p.Refunds {
					if p.Project == project && (q.Status == "" || r.Status == q.Status) && (q.PaymentID.IsZero() || p.ID == q.PaymentID) {
						want = append(want, views.RefundRow{Payment: p.ID, Refund: r})
					}
				}
			}
			slices.SortFunc(want, func(a, b views.RefundRow) int { return b.Refund.ID.Compare(a.Refund.ID) })
			var got []views.RefundRow
			for {
				q.Limit = 1 + w.Intn(4)
				page, err := e.Refunds(t.Context(), project, q)
				must(t, err)
				got = append(got, page.Refunds...)
				if !page.More {
					break
				}
				q.Before = page.Refunds[len(page.Refunds)-1].Refund.ID
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%+v:\n got %v\nwant %v", q, got, want)
			}
			listed += len(want)
		}
		must(t, e.Close())
	})
	if drawsMany() && listed == 0 {
		t.Error("no refund was ever listed")
	}
}

func TestLongScanHonoursItsContext(t *testing.T) {
	t.Parallel()
	w := seeded(t, 8).steps(100)
	e := open(t, w.config(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, read := range map[string]func() error{
		"payments": func() error { _, err := e.Payments(ctx, "prj_0", views.PaymentQuery{Min: 99999}); return err },
		"refunds":  func() error { _, err := e.Refunds(ctx, "prj_0", views.RefundQuery{}); return err },
		"due":      func() error { return e.EachDue(ctx, 1<<46, 9, func(string, domain.ID) error { return nil }) },
	} {
		if err := read(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
