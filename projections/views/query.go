package views

import (
	"context"
	"strings"

	"payledger/domain"
	"payledger/projections/table"
)

// PaymentQuery asks for a project's payments, newest first. Empty members
// match everything.
type PaymentQuery struct {
	Status            domain.PaymentStatus
	Refund            domain.RefundStatus // as Payment.RefundStatus; NotRefunded: nothing went back
	Disputed          *bool               // whether it was ever disputed; nil: either
	Currency          domain.Currency
	From, To          domain.Instant // created at From or later, and before To
	Min, Max          domain.Amount  // inclusive; equal ones ask for one amount
	Description       *string        // exactly this
	DescriptionPrefix string
	DescriptionTerms  []string  // of SearchTerms: each begins a search term of the description
	Before            domain.ID // cursor: ids lower than this, the last one of the page before
	Limit             int       // 1 to MaxLimit; cut to these bounds
}

// NotRefunded asks for payments whose RefundStatus is "".
const NotRefunded domain.RefundStatus = "none"

// MaxLimit is the largest number of rows that a page can have.
const MaxLimit = 1000

// PaymentPage is a page of payments, newest first. Their slices must not be
// modified.
type PaymentPage struct {
	Payments []domain.Payment
	More     bool // others follow
}

func (q PaymentQuery) matches(p domain.Payment) bool {
	switch {
	case q.Status != "" && p.Status != q.Status,
		q.Refund != "" && q.Refund != refundFilter(&p),
		q.Disputed != nil && *q.Disputed != (len(p.Disputes) > 0),
		q.From != 0 && p.CreatedAt < q.From,
		q.To != 0 && p.CreatedAt >= q.To,
		q.Description != nil && (p.Description == nil || *p.Description != *q.Description),
		q.DescriptionPrefix != "" && (p.Description == nil || !strings.HasPrefix(*p.Description, q.DescriptionPrefix)),
		len(q.DescriptionTerms) > 0 && (p.Description == nil || !allBegin(SearchTerms(*p.Description), q.DescriptionTerms)):
		return false
	}
	return q.allows(factsOf(&p))
}

func (q PaymentQuery) allows(f facts) bool {
	return (q.Currency == "" || f.currency == q.Currency) &&
		f.amount >= q.Min && (q.Max == 0 || f.amount <= q.Max)
}

// Payments returns the page of a project's payments that the query asks for.
//
// An exact description leads to its payments directly. Otherwise the list of the
// status or refund asked for, of disputed payments, or of the whole project, is walked, newest first; a payment
// whose amount or currency does not match is passed over without its row. For a
// description's prefix or search terms only the newest payments are walked, and
// then the index of descriptions or of terms.
func (v *Views) Payments(ctx context.Context, project string, q PaymentQuery) (PaymentPage, error) {
	if err := v.fresh(ctx); err != nil {
		return PaymentPage{}, err
	}
	s := paymentSearch{
		views: v, project: project, q: q,
		ids:  idsBetween(q.From, q.To, q.Before),
		want: pageLimit(q.Limit) + 1,
		keep: maxNewest,
	}
	if err := s.run(ctx); err != nil {
		return PaymentPage{}, err
	}
	if len(s.found) == s.want {
		return PaymentPage{Payments: s.found[:s.want-1], More: true}, nil
	}
	return PaymentPage{Payments: s.found}, nil
}

func pageLimit(n int) int { return min(max(n, 1), MaxLimit) }

// paymentSearch gathers one page and one payment more.
type paymentSearch struct {
	views   *Views
	project string
	q       PaymentQuery
	ids     idRange // those still to be examined
	want    int
	keep    int // ids a search by an index of texts keeps at once
	index   *table.Table[facts]
	part    table.Range // of the index
	found   []domain.Payment
}

func (s *paymentSearch) full() bool { return len(s.found) == s.want }

// walkFirst is how many of the newest payments are examined for a description's prefix or terms
// before the index is used.
const walkFirst = 200

func (s *paymentSearch) run(ctx context.Context) error {
	t, prefix := s.views.byProject.Table, byProjectKey(s.project)
	if s.q.Status != "" {
		t, prefix = s.views.byStatus.Table, byStatusKey(s.project, s.q.Status)
	}
	if q := s.q.Refund; q != "" && (q != NotRefunded || s.q.Status == "" || s.q.Status == domain.Paid) { // only what was paid is refunded
		t, prefix = s.views.byRefund.Table, byRefundKey(s.project, q)
	}
	if q := s.q.Disputed; q != nil && *q {
		t, prefix = s.views.disputed.Table, byProjectKey(s.project)
	}
	budget := 0
	switch {
	case s.q.Description != nil:
		t, prefix = s.views.description.Table, descriptionKey(s.project, *s.q.Description)
	case s.q.DescriptionPrefix != "", len(s.q.DescriptionTerms) > 0:
		budget = walkFirst
	}
	done, err := s.walk(ctx, t, prefix, budget)
	for err == nil && !done && !s.full() {
		done, err = s.begin(ctx)
	}
	return err
}

// walk follows a list of payments downwards; done reports that it reached the end. A budget bounds
// how many it examines.
func (s *paymentSearch) walk(ctx context.Context, t *table.Table[facts], prefix string, budget int) (done bool, err error) {
	rest := s.ids.under(prefix)
	for n, looked := s.want, 0; !s.full(); n = min(2*n, table.MaxWindow) {
		if budget > 0 && looked >= budget {
			return false, nil
		}
		found, next, err := t.Window(ctx, rest, true, n)
		if err != nil {
			return false, err
		}
		looked += n
		if len(found) > 0 {
			s.ids.hi = idOf(found[len(found)-1].Key)
		}
		keys := make([]string, 0, len(found))
		for _, f := range found {
			if s.q.allows(f.Value) {
				keys = append(keys, f.Key[len(f.Key)-idSize:])
			}
		}
		if err := s.read(ctx, keys); err != nil {
			return false, err
		}
		if next == nil {
			return true, nil
		}
		rest = *next
	}
	return true, nil
}

// read takes those of the payments, keys newest first, that match, until the
// page is full.
func (s *paymentSearch) read(ctx context.Context, keys []string) error {
	for len(keys) > 0 && !s.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(keys), max(s.want-len(s.found), 32))
		rows, err := s.views.payments.GetAll(keys[:n])
		if err != nil {
			return err
		}
		for _, row := range rows {
			if s.q.matches(row.Payment) && !s.full() {
				s.found = append(s.found, row.Payment)
			}
		}
		keys = keys[n:]
	}
	return nil
}
