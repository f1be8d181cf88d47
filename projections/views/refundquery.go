package views

import (
	"context"
	"slices"

	"payledger/domain"
	"payledger/projections/table"
)

// RefundQuery asks for a project's refunds, newest first. Empty members match
// everything.
type RefundQuery struct {
	PaymentID domain.ID
	Status    domain.RefundStatus
	Before    domain.ID // cursor: ids lower than this, the last one of the page before
	Limit     int       // 1 to MaxLimit; cut to these bounds
}

// RefundRow is a refund with the id of its payment.
type RefundRow struct {
	Payment domain.ID
	Refund  domain.Refund
}

// RefundPage is a page of refunds, newest first.
type RefundPage struct {
	Refunds []RefundRow
	More    bool // others follow
}

// Refunds answers the page of a project's refunds that the query asks for.
func (v *Views) Refunds(ctx context.Context, project string, q RefundQuery) (RefundPage, error) {
	if err := v.fresh(ctx); err != nil {
		return RefundPage{}, err
	}
	want := pageLimit(q.Limit) + 1
	var found []RefundRow
	var err error
	if q.PaymentID.IsZero() {
		found, err = v.listRefunds(ctx, project, q, want)
	} else {
		found, err = v.refundsOf(project, q)
	}
	if err != nil {
		return RefundPage{}, err
	}
	if len(found) >= want {
		return RefundPage{Refunds: found[:want-1], More: true}, nil
	}
	return RefundPage{Refunds: found}, nil
}

func (v *Views) refundsOf(project string, q RefundQuery) ([]RefundRow, error) {
	row, ok, err := v.payments.Get(idKey(q.PaymentID))
	if err != nil || !ok || row.Payment.Project != project {
		return nil, err
	}
	var found []RefundRow
	ids := idsBetween(0, 0, q.Before)
	for _, r := range row.Payment.Refunds {
		if ids.has(r.ID) && (q.Status == "" || r.Status == q.Status) {
			found = append(found, RefundRow{row.Payment.ID, r})
		}
	}
	slices.SortFunc(found, func(a, b RefundRow) int { return b.Refund.ID.Compare(a.Refund.ID) })
	return found, nil
}

func (v *Views) listRefunds(ctx context.Context, project string, q RefundQuery, want int) ([]RefundRow, error) {
	t, prefix := v.refundList.Table, listKey(project)
	if q.Status != "" {
		t, prefix = v.refundStatus.Table, listKey(project, string(q.Status))
	}
	var found []RefundRow
	rest := idsBetween(0, 0, q.Before).under(prefix)
	for n := want; ; n = min(2*n, table.MaxWindow) {
		listed, next, err := t.Window(ctx, rest, true, n)
		if err != nil {
			return nil, err
		}
		keys := make([]string, len(listed))
		for i, l := range listed {
			keys[i] = idKey(l.Value)
		}
		rows, err := v.payments.GetAll(keys)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			r, ok := row.Payment.Refund(idOf(listed[i].Key))
			if !ok {
				return nil, v.db.Failed(table.Damage("a list of refunds names a payment that does not have the refund"))
			}
			// The status may have moved on since the list was read.
			if q.Status != "" && r.Status != q.Status {
				continue
			}
			if found = append(found, RefundRow{row.Payment.ID, r}); len(found) == want {
				return found, nil
			}
		}
		if next == nil {
			return found, nil
		}
		rest = *next
	}
}
