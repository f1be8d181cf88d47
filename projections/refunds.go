package projections

import (
	"context"

	"payledger/domain"
)

// refundsView leads from a refund's id to its payment's.
type refundsView struct{ table[domain.ID] }

func newRefundsView() *refundsView {
	return &refundsView{newTable("refunds", appendID, parseID)}
}

func (*refundsView) version() int { return 1 }

func (v *refundsView) move(before, after *paymentRow) {
	eachRefund(before, after, func(r domain.Refund, was domain.RefundStatus) {
		if was == "" {
			v.insert(idKey(r.ID), after.Payment.ID)
		}
	})
}

// refundListView lists a project's refunds: project, 0, refund id.
type refundListView struct{ table[domain.ID] }

func newRefundListView() *refundListView {
	return &refundListView{newTable("refunds_by_project", appendID, parseID)}
}

func (*refundListView) version() int { return 1 }

func (v *refundListView) move(before, after *paymentRow) {
	eachRefund(before, after, func(r domain.Refund, was domain.RefundStatus) {
		if was == "" {
			v.insert(listKeyOf(r.ID, after.Payment.Project), after.Payment.ID)
		}
	})
}

// refundStatusView lists a project's refunds of each status: project, 0,
// status, 0, refund id.
type refundStatusView struct{ table[domain.ID] }

func newRefundStatusView() *refundStatusView {
	return &refundStatusView{newTable("refunds_by_status", appendID, parseID)}
}

func (*refundStatusView) version() int { return 1 }

func (v *refundStatusView) move(before, after *paymentRow) {
	eachRefund(before, after, func(r domain.Refund, was domain.RefundStatus) {
		p := &after.Payment
		if was != "" {
			v.remove(listKeyOf(r.ID, p.Project, string(was)))
		}
		v.insert(listKeyOf(r.ID, p.Project, string(r.Status)), p.ID)
	})
}

// eachRefund calls fn for every refund that is new, then with was "", or whose
// status has changed.
func eachRefund(before, after *paymentRow, fn func(r domain.Refund, was domain.RefundStatus)) {
	for i, r := range after.Payment.Refunds {
		var was domain.RefundStatus
		// Refunds are only ever added at the end.
		if before != nil && i < len(before.Payment.Refunds) {
			was = before.Payment.Refunds[i].Status
		}
		if was != r.Status {
			fn(r, was)
		}
	}
}

// Refund finds a refund and its payment, of any project: callers compare the
// payment's Project.
func (e *Engine) Refund(ctx context.Context, id domain.ID) (domain.Payment, domain.Refund, bool, error) {
	none := func(err error) (domain.Payment, domain.Refund, bool, error) {
		return domain.Payment{}, domain.Refund{}, false, err
	}
	if err := e.fresh(ctx); err != nil {
		return none(err)
	}
	e.settled()
	payment, ok, err := lookup(e, &e.refunds.table, idKey(id))
	if err != nil || !ok {
		return none(err)
	}
	row, ok, err := e.payment(ctx, payment)
	if err != nil {
		return none(err)
	}
	if ok {
		if r, ok := row.Payment.Refund(id); ok {
			return row.Payment, r, true, nil
		}
	}
	return none(e.damaged(&damage{Reason: "view refunds names a payment that does not have the refund"}))
}
