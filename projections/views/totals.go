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

// totalling adds payments up, each once, up to a limit.
type totalling struct {
	rows  map[totalKey]Tally
	seen  map[domain.ID]bool
	limit int
}

// take counts a payment; it reports false when there is no room for it.
func (t *totalling) take(id domain.ID, f facts, s domain.PaymentStatus) bool {
	if t.seen[id] {
		return true
	}
	if len(t.seen) == t.limit {
		return false
	}
	t.seen[id] = true
	key := totalKey{f.currency, s}
	t.rows[key] = t.rows[key].add(1, f.amount)
	return true
}

// Totals adds up the payments that a query asks for; Before and Limit mean
// nothing here. It counts up to limit payments and ends when until does: in both
// cases the totals are not complete. Queries of nothing but status, currency and
// whole days of UTC are answered from the view of days, however many payments
// they are about, and are complete.
func (v *Views) Totals(ctx, until context.Context, project string, q PaymentQuery, limit int) (Totals, error) {
	if err := v.fresh(ctx); err != nil {
		return Totals{}, err
	}
	q.Before, q.Limit = domain.ID{}, MaxLimit
	t := totalling{rows: make(map[totalKey]Tally), seen: make(map[domain.ID]bool), limit: limit}
	var complete bool
	var err error
	switch {
	case q.ofDays():
		complete, err = true, v.totalDays(ctx, project, q, t.rows)
	case q.Description == nil && q.DescriptionPrefix == "" && len(q.DescriptionTerms) == 0:
		complete, err = v.totalLists(until, project, q, &t)
	default:
		complete, err = v.totalPages(until, project, q, &t)
	}
	if err != nil && until.Err() != nil && ctx.Err() == nil && errors.Is(err, until.Err()) {
		complete, err = false, nil
	}
	out := Totals{Complete: complete}
	for key, tally := range t.rows {
		out.Rows = append(out.Rows, Total{key.currency, key.status, tally})
	}
	order := domain.PaymentStatuses()
	slices.SortFunc(out.Rows, func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status)))
	})
	return out, err
}

// ofDays reports whether a query can be answered from sums by day.
func (q PaymentQuery) ofDays() bool {
	whole := func(at domain.Instant) bool { return at == 0 || at == DayOf(at).Start() }
	return q.Min <= domain.MinAmount && q.Max == 0 && q.Description == nil && q.DescriptionPrefix == "" &&
		len(q.DescriptionTerms) == 0 && whole(q.From) && whole(q.To)
}

func (v *Views) totalDays(ctx context.Context, project string, q PaymentQuery, to map[totalKey]Tally) error {
	r := table.Prefix(listKey(project))
	if q.From > 0 {
		r.Lo = dayKey(project, DayOf(q.From), "")
	}
	if q.To > 0 {
		r.Hi = dayKey(project, DayOf(q.To), "")
	}
	if r.Lo >= r.Hi {
		return nil
	}
	for rest := &r; rest != nil; {
		found, next, err := v.days.Window(ctx, *rest, false, table.MaxWindow)
		if err != nil {
			return err
		}
		for _, f := range found {
			currency := dayOfKey(project, f.Key).Currency
			if q.Currency != "" && q.Currency != currency {
				continue
			}
			for i, s := range domain.PaymentStatuses() {
				if t := f.Value.ByStatus[i]; t.Count > 0 && (q.Status == "" || q.Status == s) {
					key := totalKey{currency, s}
					to[key] = to[key].Plus(t)
				}
			}
		}
		rest = next
	}
	return nil
}

// totalLists walks the lists by status, which hold all that is added up. They
// are walked in the order of a payment's life, so that a payment whose status
// changes meanwhile is met at least once.
func (v *Views) totalLists(ctx context.Context, project string, q PaymentQuery, t *totalling) (complete bool, err error) {
	for _, s := range domain.PaymentStatuses() {
		if q.Status != "" && q.Status != s {
			continue
		}
		part := idsBetween(q.From, q.To, domain.ID{}).under(byStatusKey(project, s))
		for rest := &part; rest != nil; {
			found, next, err := v.byStatus.Window(ctx, *rest, true, table.MaxWindow)
			if err != nil {
				return false, err
			}
			for _, f := range found {
				if q.allows(f.Value) && !t.take(idOf(f.Key), f.Value, s) {
					return false, nil
				}
			}
			rest = next
		}
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
		}
		if !page.More {
			return true, nil
		}
	}
}
