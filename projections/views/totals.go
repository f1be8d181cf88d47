package views

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"payledger/domain"
	"payledger/projections/table"
)

// Total is a tally of a query's payments of one currency and status.
type Total struct {
	Currency domain.Currency
	Status   domain.PaymentStatus
	Tally
	Refunded Tally // of these: those of which money went back, and how much
}

// Totals are those of a query, in order of currency and of a payment's life.
type Totals struct {
	Rows []Total
	// Complete reports whether all payments that match were counted; there are
	// more than that, or may be, when not.
	Complete bool
}

// Count is how many payments were counted.
func (t Totals) Count() (n uint64) {
	for _, r := range t.Rows {
		n += r.Count
	}
	return n
}

// totalKey is a group of payments that are added up.
type totalKey struct {
	currency domain.Currency
	status   domain.PaymentStatus
}

// sums are what a group of payments adds up to.
type sums struct{ all, refunded Tally }

// totalling adds payments up, each once, up to a limit.
type totalling struct {
	rows  map[totalKey]sums
	seen  map[domain.ID]bool
	back  map[domain.ID]bool // those of which money went back
	limit int
}

// take counts a payment; it reports false when the budget is used up.
func (t *totalling) take(id domain.ID, f facts, s domain.PaymentStatus) bool {
	if t.seen[id] {
		return true
	}
	if len(t.seen) == t.limit {
		return false
	}
	t.seen[id] = true
	key := totalKey{f.currency, s}
	row := t.rows[key]
	row.all = row.all.add(1, f.amount)
	t.rows[key] = row
	return true
}

// refund counts what went back of a payment that was taken.
func (t *totalling) refund(id domain.ID, c domain.Currency, returned domain.Amount) {
	if returned == 0 || !t.seen[id] || t.back[id] {
		return
	}
	t.back[id] = true
	key := totalKey{c, domain.Paid}
	row := t.rows[key]
	row.refunded = row.refunded.add(1, returned)
	t.rows[key] = row
}

// Totals adds up the payments that a query asks for; Before and Limit mean
// nothing here. It counts up to limit payments and ends when until does: in both
// cases the totals are not complete. Queries of nothing but status, currency and
// times that are multiples of PeriodLength are answered from sums, however many
// payments they are about, and are complete.
func (v *Views) Totals(ctx, until context.Context, project string, q PaymentQuery, limit int) (Totals, error) {
	if err := v.fresh(ctx); err != nil {
		return Totals{}, err
	}
	q.Before, q.Limit = domain.ID{}, MaxLimit
	t := totalling{rows: make(map[totalKey]sums), seen: make(map[domain.ID]bool), back: make(map[domain.ID]bool), limit: limit}
	var complete bool
	var err error
	switch {
	case q.ofPeriods():
		complete, err = true, v.totalPeriods(ctx, project, q, t.rows)
	case q.Disputed != nil:
		complete, err = v.totalPages(until, project, q, &t)
	case q.Refund == NotRefunded && q.anyRefund().ofPeriods():
		if complete, err = v.totalNotRefunded(ctx, until, project, q.anyRefund(), &t); err == nil && !complete {
			complete, err = v.totalPages(until, project, q, &t)
		}
	case q.Refund != NotRefunded && q.Description == nil && q.DescriptionPrefix == "" && len(q.DescriptionTerms) == 0:
		complete, err = v.totalLists(until, project, q, &t)
	default:
		complete, err = v.totalPages(until, project, q, &t)
	}
	if err != nil && until.Err() != nil && ctx.Err() == nil && errors.Is(err, until.Err()) {
		complete, err = false, nil
	}
	out := Totals{Complete: complete}
	for key, sums := range t.rows {
		out.Rows = append(out.Rows, Total{key.currency, key.status, sums.all, sums.refunded})
	}
	order := domain.PaymentStatuses()
	slices.SortFunc(out.Rows, func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status)))
	})
	return out, err
}

// totalNotRefunded is what the periods add up to less the payments of which money went
// back or may be about to. complete is false where those are too many, and then nothing
// is added up. They are read first: all of them are in the periods that are read then.
func (v *Views) totalNotRefunded(ctx, until context.Context, project string, q PaymentQuery, t *totalling) (complete bool, err error) {
	less := totalling{rows: make(map[totalKey]sums), seen: make(map[domain.ID]bool), limit: t.limit}
	if q.Status == "" || q.Status == domain.Paid {
		for _, s := range domain.PaymentRefundStatuses() {
			complete, err = v.totalList(until, v.byRefund.Table, byRefundKey(project, s), q, func(id domain.ID, f facts) bool {
				return less.take(id, f, domain.Paid)
			})
			if err != nil || !complete {
				return false, err
			}
		}
	}
	if err := v.totalPeriods(ctx, project, q, t.rows); err != nil {
		return false, err
	}
	for key, row := range t.rows {
		all := row.all.minus(less.rows[key].all)
		if t.rows[key] = (sums{all: all}); all.Count == 0 {
			delete(t.rows, key)
		}
	}
	return true, nil
}

// anyRefund is the query without its filter of refunds.
func (q PaymentQuery) anyRefund() PaymentQuery {
	q.Refund = ""
	return q
}

// ofPeriods reports whether a query can be answered from sums.
func (q PaymentQuery) ofPeriods() bool {
	return q.Min <= domain.MinAmount && q.Max == 0 && q.Refund == "" && q.Disputed == nil && q.Description == nil && q.DescriptionPrefix == "" &&
		len(q.DescriptionTerms) == 0 && q.From%PeriodLength == 0 && q.To%PeriodLength == 0
}

// totalPeriods adds up whole days of UTC, and quarter hours before and after them.
func (v *Views) totalPeriods(ctx context.Context, project string, q PaymentQuery, to map[totalKey]sums) error {
	add := func(_ domain.Instant, c domain.Currency, r *PeriodRow) {
		if q.Currency != "" && q.Currency != c {
			return
		}
		for _, s := range domain.PaymentStatuses() {
			t := *r.ByStatus.Of(s)
			if t.Count == 0 || q.Status != "" && q.Status != s {
				continue
			}
			key := totalKey{c, s}
			row := to[key]
			row.all = row.all.Plus(t)
			if s == domain.Paid {
				row.refunded = row.refunded.Plus(r.Returned)
			}
			to[key] = row
		}
	}
	if q.To > 0 && q.From >= q.To {
		return nil
	}
	first, last := (q.From+dayLength-1)/dayLength*dayLength, q.To/dayLength*dayLength // of the whole days
	if q.To > 0 && first > last {
		return v.quarters.each(ctx, project, q.From, q.To, add)
	}
	if q.From < first {
		if err := v.quarters.each(ctx, project, q.From, first, add); err != nil {
			return err
		}
	}
	if first < last || q.To == 0 {
		if err := v.days.each(ctx, project, first, last, add); err != nil {
			return err
		}
	}
	if last < q.To {
		return v.quarters.each(ctx, project, last, q.To, add)
	}
	return nil
}

// totalLists walks the lists by status, or that of a refund, which hold all that is added up. They
// are walked in the order of a payment's life, so that a payment whose status changes meanwhile is
// seen at least once.
func (v *Views) totalLists(ctx context.Context, project string, q PaymentQuery, t *totalling) (complete bool, err error) {
	if q.Refund != "" {
		if q.Status != "" && q.Status != domain.Paid { // only what was paid is refunded
			return true, nil
		}
		complete, err = v.totalList(ctx, v.byRefund.Table, byRefundKey(project, q.Refund), q, func(id domain.ID, f facts) bool {
			return t.take(id, f, domain.Paid)
		})
	} else {
		for _, s := range domain.PaymentStatuses() {
			if q.Status != "" && q.Status != s {
				continue
			}
			complete, err = v.totalList(ctx, v.byStatus.Table, byStatusKey(project, s), q, func(id domain.ID, f facts) bool {
				return t.take(id, f, s)
			})
			if err != nil || !complete {
				break
			}
		}
	}
	for _, s := range domain.PaymentRefundStatuses() {
		if err != nil || q.Refund != "" && q.Refund != s {
			continue
		}
		_, err = v.totalList(ctx, v.byRefund.Table, byRefundKey(project, s), q, func(id domain.ID, f facts) bool {
			t.refund(id, f.currency, f.returned)
			return true
		})
	}
	return complete, err
}

// totalList calls take for those of a list that the query asks for, until it answers
// false.
func (v *Views) totalList(
	ctx context.Context, list *table.Table[facts], prefix string, q PaymentQuery, take func(domain.ID, facts) bool,
) (complete bool, err error) {
	part := idsBetween(q.From, q.To, domain.ID{}).under(prefix)
	for rest := &part; rest != nil; {
		found, next, err := list.Window(ctx, *rest, true, table.MaxWindow)
		if err != nil {
			return false, err
		}
		for _, f := range found {
			if q.allows(f.Value) && !take(idOf(f.Key), f.Value) {
				return false, nil
			}
		}
		rest = next
	}
	return true, nil
}

// totalPages goes through the pages of the list.
func (v *Views) totalPages(ctx context.Context, project string, q PaymentQuery, t *totalling) (complete bool, err error) {
	for {
		page, err := v.Payments(ctx, project, q)
		if err != nil {
			return false, err
		}
		for _, p := range page.Payments {
			q.Before = p.ID
			if !t.take(p.ID, factsOf(&p), p.Status) {
				return false, nil
			}
			t.refund(p.ID, p.Currency, p.Returned())
		}
		if !page.More {
			return true, nil
		}
	}
}
