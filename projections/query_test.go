package projections

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
)

// query draws one for which there is a fair chance of matches.
func (w *world) query() PaymentQuery {
	var q PaymentQuery
	if w.intn(2) == 0 {
		q.Status = pick(w, domain.PaymentStatuses()...)
	}
	if w.intn(3) == 0 {
		q.Currency = pick[domain.Currency](w, "RUB", "USD", "EUR")
	}
	for _, bound := range []*domain.Instant{&q.From, &q.To} {
		if w.intn(4) == 0 && len(w.order) > 0 {
			*bound = domain.IDTime(pick(w, w.order...)) + domain.Instant(w.intn(3)-1)
		}
	}
	switch w.intn(4) {
	case 0:
		q.Min = domain.Amount(w.intn(200))
	case 1:
		q.Min, q.Max = 100, 100
	case 2:
		q.Max = domain.Amount(w.intn(200))
	}
	switch w.intn(6) {
	case 0:
		q.Description = &descriptions[w.intn(len(descriptions))]
	case 1:
		q.DescriptionPrefix = pick(w, "o", "order-", "order-1", "заказ", "x", "\u00ff")
	case 2, 3:
		q.DescriptionWords = pick(w, []string{"order"}, []string{"o"}, []string{"1", "order"}, []string{"1", "o", "orders"}, []string{"заказ"},
			[]string{"1", "зак"}, []string{"x"}, []string{"1"}, []string{"1", "x"}, []string{"\u00ff"})
	}
	return q
}

// asked is the naive answer.
func (w *world) asked(project string, q PaymentQuery) []domain.Payment {
	return w.newestFirst(func(p domain.Payment) bool {
		return p.Project == project &&
			(q.Status == "" || p.Status == q.Status) &&
			(q.Currency == "" || p.Currency == q.Currency) &&
			(q.From == 0 || p.CreatedAt >= q.From) && (q.To == 0 || p.CreatedAt < q.To) &&
			p.Amount >= q.Min && (q.Max == 0 || p.Amount <= q.Max) &&
			(q.Description == nil || p.Description != nil && *p.Description == *q.Description) &&
			(q.DescriptionPrefix == "" || p.Description != nil && strings.HasPrefix(*p.Description, q.DescriptionPrefix)) &&
			(len(q.DescriptionWords) == 0 || p.Description != nil && begin(naiveWords(*p.Description), q.DescriptionWords))
	})
}

func naiveWords(description string) []string {
	if words, ok := wordsOf[description]; ok {
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
func pageThrough(t *testing.T, w *world, e *Engine, project string, q PaymentQuery, between func()) []domain.Payment {
	t.Helper()
	var got []domain.Payment
	for {
		q.Limit = 1 + w.intn(7)
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

func TestPaymentsAgainstAModel(t *testing.T) {
	t.Parallel()
	tried := make(map[string]int)
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
		for range 10 {
			project, q := pick(w, w.projects...), w.query()
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
			if len(q.DescriptionWords) > 1 {
				tried["words"] += len(want)
			}
		}
		must(t, e.Close())
	})
	for _, what := range []string{"all", "description", "prefix", "words"} {
		if tried[what] == 0 {
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
		w.steps(rapid.IntRange(20, 100).Draw(rt, "steps"))
		feed(t, e)
		project, q := pick(w, w.projects...), w.query()
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
			w.steps(rapid.IntRange(0, 3).Draw(rt, "more"))
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
		w.steps(rapid.IntRange(50, 200).Draw(rt, "steps"))
		feed(t, e)
		if rapid.Bool().Draw(rt, "flush") {
			must(t, e.flush())
		}
		for range 5 {
			project := pick(w, w.projects...)
			var q RefundQuery
			if w.intn(2) == 0 {
				q.Status = pick(w, domain.RefundStatuses()...)
			}
			if w.intn(3) == 0 && len(w.order) > 0 {
				q.PaymentID = pick(w, w.order...)
			}
			var want []RefundRow
			for _, p := range w.payments {
				for _, r := range p.Refunds {
					if p.Project == project && (q.Status == "" || r.Status == q.Status) && (q.PaymentID.IsZero() || p.ID == q.PaymentID) {
						want = append(want, RefundRow{p.ID, r})
					}
				}
			}
			slices.SortFunc(want, func(a, b RefundRow) int { return b.Refund.ID.Compare(a.Refund.ID) })
			var got []RefundRow
			for {
				q.Limit = 1 + w.intn(4)
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
	if listed == 0 {
		t.Error("no refund was ever listed")
	}
}

// TestSparsePrefix searches where the newest payments do not match and the
// matches are more than are kept at once.
func TestSparsePrefix(t *testing.T) {
	t.Parallel()
	w := seeded(t, 7)
	w.project()
	create := func(description string) {
		w.now = w.now.Add(time.Millisecond)
		id, event := w.ids.Pair()
		w.command(domain.Payment{Project: "prj_0", ID: id}, domain.CreatePayment{
			At: domain.IDTime(event), Amount: domain.Amount(1 + w.intn(3)), Currency: "RUB", Description: &description,
			Settings: domain.DefaultSettings(),
		}, event)
		w.order = append(w.order, id)
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
	e := open(t, w.config(t.TempDir()))
	for _, keep := range []int{1, 7, 150, newestKept} {
		for _, q := range []PaymentQuery{
			{DescriptionPrefix: "old-"},
			{DescriptionPrefix: "old-1"},
			{DescriptionPrefix: "old-", Min: 2, Max: 2},
			{DescriptionPrefix: "old-", Before: w.order[100]},
			{DescriptionPrefix: "old-", Status: domain.Paid},
			{DescriptionPrefix: "none"},
			{DescriptionWords: []string{"old"}},
			{DescriptionWords: []string{"rare"}},
			{DescriptionWords: []string{"ne", "old"}},
			{DescriptionWords: []string{"1", "old"}},
			{DescriptionWords: []string{"1", "old"}, Before: w.order[100]},
			{DescriptionWords: []string{"o"}, Min: 2, Max: 2},
		} {
			q.Limit = 40
			s := paymentSearch{e: e, project: "prj_0", q: q, ids: idsBetween(0, 0, q.Before), want: 41, keep: keep}
			must(t, s.run(t.Context()))
			want := w.asked("prj_0", q)
			if !q.Before.IsZero() {
				want = slices.DeleteFunc(want, func(p domain.Payment) bool { return p.ID.Compare(q.Before) >= 0 })
			}
			if got := idsOf(s.found); !slices.Equal(got, idsOf(want[:min(len(want), 41)])) {
				t.Errorf("keep %d, %+v: %d found of %d", keep, q, len(got), len(want))
			}
		}
	}
}

func TestLongScanHonoursItsContext(t *testing.T) {
	t.Parallel()
	w := seeded(t, 8).steps(100)
	e := open(t, w.config(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, read := range map[string]func() error{
		"payments": func() error { _, err := e.Payments(ctx, "prj_0", PaymentQuery{Min: 99999}); return err },
		"refunds":  func() error { _, err := e.Refunds(ctx, "prj_0", RefundQuery{}); return err },
		"due":      func() error { return e.EachDue(ctx, 1<<46, 9, func(string, domain.ID) error { return nil }) },
	} {
		if err := read(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Also when it ends on the way.
	s := paymentSearch{e: e, project: "prj_0", q: PaymentQuery{}, ids: idsBetween(0, 0, domain.ID{}), want: 5, keep: 1}
	if _, err := s.walk(ctx, &e.byProject.table, byProjectKey("prj_0"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("walk: got %v", err)
	}
}
