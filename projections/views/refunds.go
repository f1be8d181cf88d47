package views

import (
	"context"

	"payledger/domain"
	"payledger/projections/table"
)

// refundsView leads from a refund's id to its payment's.
type refundsView struct{ *table.Table[domain.ID] }

func newRefundsView(db *table.DB) *refundsView {
	return &refundsView{table.New(db, "refunds", appendID, parseID)}
}

func (v *refundsView) update(before, after *PaymentRow) {
	eachRefund(before, after, func(r domain.Refund, old domain.RefundStatus) {
		if old == "" {
			v.Insert(idKey(r.ID), after.Payment.ID)
		}
	})
}

// refundListView lists a project's refunds: project, 0, refund id.
type refundListView struct{ *table.Table[domain.ID] }

func newRefundListView(db *table.DB) *refundListView {
	return &refundListView{table.New(db, "refunds_by_project", appendID, parseID)}
}

func (v *refundListView) update(before, after *PaymentRow) {
	eachRefund(before, after, func(r domain.Refund, old domain.RefundStatus) {
		if old == "" {
			v.Insert(listKeyOf(r.ID, after.Payment.Project), after.Payment.ID)
		}
	})
}

// refundStatusView lists a project's refunds of each status: project, 0,
// status, 0, refund id.
type refundStatusView struct{ *table.Table[domain.ID] }

func newRefundStatusView(db *table.DB) *refundStatusView {
	return &refundStatusView{table.New(db, "refunds_by_status", appendID, parseID)}
}

func (v *refundStatusView) update(before, after *PaymentRow) {
	eachRefund(before, after, func(r domain.Refund, old domain.RefundStatus) {
		p := &after.Payment
		if old != "" {
			v.Delete(listKeyOf(r.ID, p.Project, string(old)))
		}
		v.Insert(listKeyOf(r.ID, p.Project, string(r.Status)), p.ID)
	})
}

// eachRefund calls fn for every refund that is new, with the old status "", and
// for every refund whose status has changed.
func eachRefund(before, after *PaymentRow, fn func(r domain.Refund, old domain.RefundStatus)) {
	for i, r := range after.Payment.Refunds {
		var old domain.RefundStatus
		if before != nil && i < len(before.Payment.Refunds) {
			old = before.Payment.Refunds[i].Status // refunds are only ever added at the end
		}
		if old != r.Status {
			fn(r, old)
		}
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
