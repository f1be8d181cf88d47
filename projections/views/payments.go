package views

import (
	"context"
	"math"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// PaymentRow is a payment with the position of its payment.created.
type PaymentRow struct {
	Payment  domain.Payment
	Position eventstore.Position
}

// paymentsView holds every payment under its id's 16 bytes. Unlike the views of
// payments it is changed with every event, so that a read of one payment needs
// no other view.
type paymentsView struct{ *table.Table[*PaymentRow] }

func newPaymentsView(db *table.DB, cached int) *paymentsView {
	v := &paymentsView{table.OfStructs[PaymentRow](db, "payments")}
	v.Cache(cached)
	return v
}

func (v *paymentsView) put(before, after *PaymentRow) {
	if before == nil {
		v.Insert(idKey(after.Payment.ID), after)
	} else {
		v.Replace(idKey(after.Payment.ID), after)
	}
}

// Payment finds a payment of any project: callers compare its Project. Its slices must not be
// modified. It waits only for events of this payment.
func (v *Views) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	key := idKey(id)
	slot := v.payments.Slot(key) // before asking the log, so that no older row gets into the cache
	last, err := v.log.Fresh(ctx, eventstore.Filter{ID: id.String()})
	if err != nil {
		return domain.Payment{}, false, err
	}
	row, ok, err := v.payments.GetUnchanged(key, slot, uint64(last))
	if err != nil || !ok {
		return domain.Payment{}, false, err
	}
	return row.Payment, true, nil
}

// EachPayment calls fn for every payment, by id, until fn returns an error, which it returns.
func (v *Views) EachPayment(ctx context.Context, fn func(domain.Payment) error) error {
	return v.payments.Each(ctx, table.Range{}, math.MaxInt, func(_ string, row *PaymentRow) error { return fn(row.Payment) })
}
