package views

import (
	"context"
	"slices"

	"payledger/domain"
	"payledger/projections/table"
)

// refundsView leads from refunds to their payments, in an order of its own.
type refundsView struct {
	*table.Table[domain.ID]

	key func(project string, s domain.RefundStatus, refund domain.ID) string
}

// newRefunds finds a refund by its id.
func newRefunds(db *table.DB) *refundsView {
	return &refundsView{table.OfValues[domain.ID](db, "refunds"), func(_ string, _ domain.RefundStatus, refund domain.ID) string { return idKey(refund) }}
}

// newRefundList lists a project's refunds: project, 0, refund id.
func newRefundList(db *table.DB) *refundsView {
	return &refundsView{table.OfValues[domain.ID](db, "refunds_by_project"), func(project string, _ domain.RefundStatus, refund domain.ID) string {
		return listKeyOf(refund, project)
	}}
}

// newRefundStatus lists a project's refunds of each status: project, 0,
// status, 0, refund id.
func newRefundStatus(db *table.DB) *refundsView {
	return &refundsView{table.OfValues[domain.ID](db, "refunds_by_status"), func(project string, s domain.RefundStatus, refund domain.ID) string {
		return listKeyOf(refund, project, string(s))
	}}
}

func (v *refundsView) update(before, after *PaymentRow) {
	p := &after.Payment
	for i, r := range p.Refunds {
		key := v.key(p.Project, r.Status, r.ID)
		if before != nil && i < len(before.Payment.Refunds) { // refunds are only ever added at the end
			was := v.key(p.Project, before.Payment.Refunds[i].Status, r.ID)
			if was == key {
				continue
			}
			v.Delete(was)
		}
		v.Insert(key, p.ID)
	}
}

// Refund finds a refund and its payment, of any project: callers compare the
// payment's Project.
func (v *Views) Refund(ctx context.Context, id domain.ID) (p domain.Payment, r domain.Refund, ok bool, err error) {
	if err := v.fresh(ctx); err != nil {
		return p, r, false, err
	}
	payment, ok, err := v.refunds.Get(idKey(id))
	if err != nil || !ok {
		return p, r, false, err
	}
	row, ok, err := v.payments.Get(idKey(payment))
	if err != nil {
		return p, r, false, err
	}
	if ok {
		if r, ok = row.Payment.Refund(id); ok {
			return row.Payment, r, true, nil
		}
	}
	return p, r, false, v.db.Failed(table.Damage("table refunds names a payment that does not have the refund"))
}

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

// Refunds returns the page of a project's refunds that the query asks for.
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
