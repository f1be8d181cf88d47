package merchant

import (
	"errors"
	"fmt"
	"net/http"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
)

// createRefund answers POST /v1/refunds.
func (a *API) CreateRefund(x *edge.Exchange) error {
	paymentID, fields, err := refundCommand(x.Body)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(x.Request.Header, x.Project.Settings.RequireIdempotencyKey)
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		return edge.InOrder(fields)
	}

	// A text that is no id stands for the zero id, which no payment has: it
	// goes the same way, so that a key that was used before is found first.
	payment, _ := domain.ParseID(paymentID)
	id, event := a.cfg.IDs.Pair()
	c := claim(key, http.MethodPost, RefundsPath, paymentID)
	project := x.Project.ID
	res, err := eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.PaymentStream(project, payment),
		domain.Payment{Project: project, ID: payment},
		domain.PaymentCommand(domain.CreateRefund{At: domain.IDTime(event), RefundID: id, Idempotency: remembered(c)}),
		eventstore.Order{EventID: event, Claim: c})
	if err != nil {
		return a.reused(err, func(earlier domain.Event, _ eventstore.Stored) []string {
			if _, ok := earlier.(domain.RefundCreated); ok {
				return []string{"payment_id"}
			}
			return nil
		})
	}
	object, err := createdRefund(res.Event, res.Stored)
	if err != nil {
		return err
	}
	return replyCreated(x, RefundsPath, object.ID, object, res.Replayed)
}

// createdRefund is the answer to creation, told by the event alone.
func createdRefund(e domain.Event, s eventstore.Stored) (domain.RefundObject, error) {
	created, ok := e.(domain.RefundCreated)
	payment, idOK := domain.ParseID(s.Stream.ID)
	if !ok || !idOK {
		return domain.RefundObject{}, fmt.Errorf("the record at position %d cannot be shown as a created refund", s.Position)
	}
	return created.Refund().Object(payment), nil
}

// refundCommand reads the one field of a refund.
func refundCommand(body []byte) (paymentID string, fields domain.FieldErrors, err error) {
	members, err := edge.DecodeObject(body)
	if errors.As(err, &fields) {
		return "", fields, nil
	}
	if err != nil {
		return "", nil, err
	}
	sent := false
	refuse := func(field string, code domain.Code) {
		fields = append(fields, &domain.FieldError{Field: field, Code: code})
	}
	for _, m := range members {
		switch m.Name {
		case "payment_id":
			s, ok := edge.Text(m.Value)
			switch {
			case ok:
				sent, paymentID = true, s
			case m.Value.Kind() != 'n':
				sent = true
				refuse(m.Name, domain.WrongType)
			}
		case "amount":
			refuse(m.Name, domain.RefundAmountNotAccepted)
		default:
			refuse(m.Name, domain.UnknownField)
		}
	}
	if !sent {
		refuse("payment_id", domain.Required)
	}
	return paymentID, fields, nil
}

// getRefund answers GET /v1/refunds/{id}.
func (a *API) GetRefund(x *edge.Exchange) error {
	p, r, err := a.refund(x, x.Vars["id"])
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, r.Object(p.ID))
}

// refund finds one of the caller's refunds, and the payment it returns.
func (a *API) refund(x *edge.Exchange, text string) (domain.Payment, domain.Refund, error) {
	missing := &domain.Refusal{Code: domain.RefundNotFound}
	id, ok := domain.ParseID(text)
	if !ok {
		return domain.Payment{}, domain.Refund{}, missing
	}
	p, r, ok, err := a.cfg.Views.Refund(x.Context(), id)
	switch {
	case err != nil:
		return p, r, err
	case !ok || !a.sees(x, p):
		return domain.Payment{}, domain.Refund{}, missing
	}
	return p, r, nil
}
