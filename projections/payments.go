package projections

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/eventstore"
)

// paymentRow is a payment with the position of its payment.created.
type paymentRow struct {
	Payment  domain.Payment
	Position eventstore.Position
}

// paymentsView holds every payment under its id's 16 bytes.
type paymentsView struct{ table[*paymentRow] }

func newPaymentsTable() table[*paymentRow] { return newTable("payments", appendRow, parseRow) }

func newPaymentsView() *paymentsView {
	v := &paymentsView{newPaymentsTable()}
	v.lately = newLately[*paymentRow](latelyRows)
	return v
}

func (*paymentsView) version() int { return 3 }

func (v *paymentsView) move(before, after *paymentRow) {
	if before == nil {
		v.insert(idKey(after.Payment.ID), after)
	} else {
		v.put(idKey(after.Payment.ID), after)
	}
}

// Payment finds a payment of any project: callers compare its Project. Its
// slices must not be modified.
func (e *Engine) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	if err := e.freshOf(ctx, eventstore.Filter{ID: id.String()}); err != nil {
		return domain.Payment{}, false, err
	}
	row, ok, err := e.payment(ctx, id)
	if err != nil || !ok {
		return domain.Payment{}, false, err
	}
	return row.Payment, true, nil
}

// Overlooked makes sure that a payment which Payment did not find is none of the
// project's in the log either. If it is, the views' file is damaged: the error
// is a *DamagedError, and the next Open rebuilds it.
func (e *Engine) Overlooked(ctx context.Context, project string, id domain.ID) error {
	for r, err := range e.store.Load(ctx, eventstore.PaymentStream(project, id)) {
		if err == nil {
			err = e.Wait(ctx, r.Position)
		}
		if err != nil {
			return err
		}
		if _, found, err := e.payment(ctx, id); found || err != nil {
			return err // it came meanwhile
		}
		return e.damaged(&damage{Reason: fmt.Sprintf("payment %s, at position %d of the log, is not in it", id, r.Position)})
	}
	return nil
}

func appendJSON[T any](b []byte, v *T) ([]byte, error) {
	// PreserveRawStrings keeps a merchant's payload byte for byte.
	body, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	return append(b, body...), err
}

func parseJSON[T any](b []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	return v, nil
}
