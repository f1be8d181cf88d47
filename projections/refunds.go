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

func (v *refundsView) fold(c change) {
	eachRefund(c, func(r domain.Refund, was domain.RefundStatus) {
		if was == "" {
			v.insert(idKey(r.ID), c.after.Payment.ID)
		}
	})
}

// refundListView lists a project's refunds: project, 0, refund id.
type refundListView struct{ table[domain.ID] }

func newRefundListView() *refundListView {
	return &refundListView{newTable("refunds_by_project", appendID, parseID)}
}

func (*refundListView) version() int { return 1 }

func (v *refundListView) fold(c change) {
	eachRefund(c, func(r domain.Refund, was domain.RefundStatus) {
		if was == "" {
			v.insert(listKeyOf(r.ID, c.after.Payment.Project), c.after.Payment.ID)
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

func (v *refundStatusView) fold(c change) {
	eachRefund(c, func(r domain.Refund, was domain.RefundStatus) {
		p := c.after.Payment
		if was != "" {
			v.remove(listKeyOf(r.ID, p.Project, string(was)))
		}
		v.insert(listKeyOf(r.ID, p.Project, string(r.Status)), p.ID)
	})
}

// eachRefund calls fn for every refund the event created, then with was "", or
// whose status it changed.
func eachRefund(c change, fn func(r domain.Refund, was domain.RefundStatus)) {
	if c.after == nil {
		return
	}
	for i, r := range c.after.Payment.Refunds {
		var was domain.RefundStatus
		// Refunds are only ever added at the end.
		if c.before != nil && i < len(c.before.Payment.Refunds) {
			was = c.before.Payment.Refunds[i].Status
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
	payment, ok, err := lookup(e, &e.refunds.table, idKey(id))
	if err != nil || !ok {
		return none(err)
	}
	row, ok, err := lookup(e, &e.payments.table, idKey(payment))
	if err != nil {
		return none(err)
	}
	if ok {
		if r, ok := row.Payment.Refund(id); ok {
			return row.Payment, r, true, nil
		}
	}
	return none(e.damaged(&damage{"view refunds names a payment that does not have the refund"}))
}
