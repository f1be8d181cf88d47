package merchant

import (
	"context"
	"fmt"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// CreateRefund answers POST /v1/refunds.
func (h Handlers) CreateRefund(x *edge.Exchange) error {
	return create(x, RefundsPath, readRefund, h.api.CreateRefund)
}

// CreateRefund asks for a payment to be returned in full. A key (nil: none)
// that was used before leads to the refund it made then. Needs refunds:write.
func (a *API) CreateRefund(ctx context.Context, c Caller, req RefundRequest, key *domain.Digest) (made Created[domain.RefundObject], err error) {
	if err := a.Admit(&c, projects.RefundsWrite, nil); err != nil {
		return made, err
	}
	if key == nil && c.Project.Settings.RequireIdempotencyKey {
		return made, wire.Problem{Code: domain.IdempotencyKeyRequired}
	}
	if len(req.faults) > 0 {
		return made, edge.InOrder(req.faults)
	}
	// A text that is no id becomes the zero id, which no payment has: the idempotency key is then
	// still looked up first.
	payment, _ := domain.ParseID(req.PaymentID)
	id, event := a.cfg.IDs.Pair()
	claimed, before := a.claim(key, RefundsPath, req.PaymentID)
	res, err := eventstore.Execute(ctx, a.cfg.Ledger, eventstore.PaymentStream(c.Project.ID, payment),
		domain.Payment{Project: c.Project.ID, ID: payment},
		domain.PaymentCommand(domain.CreateRefund{At: domain.IDTime(event), RefundID: id, Idempotency: remembered(claimed)}),
		eventstore.Order{EventID: event, Cause: c.Cause(), Claim: claimed, Before: before})
	if err != nil {
		return made, a.reused(err, func(earlier domain.Event) []string {
			if _, ok := earlier.(domain.RefundCreated); ok {
				return []string{"payment_id"}
			}
			return nil
		})
	}
	made.Replayed = res.Replayed
	made.Object, err = createdRefund(res.Event, res.Stored)
	made.ID = made.Object.ID
	return made, err
}

// createdRefund is the answer to creation, which depends only on the event.
func createdRefund(e domain.Event, s eventstore.Stored) (domain.RefundObject, error) {
	created, ok := e.(domain.RefundCreated)
	payment, idOK := domain.ParseID(s.Stream.ID)
	if !ok || !idOK {
		return domain.RefundObject{}, fmt.Errorf("the record at position %d cannot be shown as a created refund", s.Position)
	}
	return created.Refund().Object(payment), nil
}

// RefundRequest asks for a refund.
type RefundRequest struct {
	PaymentID string

	faults domain.FieldErrors // of the body it was read from
}

// readRefund reads a body. The error is about the body as a whole.
func readRefund(body []byte) (req RefundRequest, err error) {
	req.faults, err = edge.Faults(body, edge.Field{Name: "payment_id", Required: true, Read: edge.Text(func(s string) domain.FieldErrors {
		req.PaymentID = s
		return nil
	})})
	for i, f := range req.faults {
		if f.Field == "amount" {
			req.faults[i] = &domain.FieldError{Field: f.Field, Code: domain.RefundAmountNotAccepted}
		}
	}
	return req, err
}

// GetRefund answers GET /v1/refunds/{id}.
func (h Handlers) GetRefund(x *edge.Exchange) error {
	p, r, err := h.api.Refund(x.Context(), CallerOf(x), x.Vars["id"])
	return x.Answer(r.Object(p.ID), err)
}

// Refund finds one of the caller's refunds, and the payment it returns. Needs
// read.
func (a *API) Refund(ctx context.Context, c Caller, id string) (domain.Payment, domain.Refund, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return domain.Payment{}, domain.Refund{}, err
	}
	return a.refund(ctx, c, id)
}

func (a *API) refund(ctx context.Context, c Caller, text string) (domain.Payment, domain.Refund, error) {
	missing := &domain.Refusal{Code: domain.RefundNotFound}
	id, ok := domain.ParseID(text)
	if !ok {
		return domain.Payment{}, domain.Refund{}, missing
	}
	p, r, ok, err := a.cfg.Views.Refund(ctx, id)
	switch {
	case err != nil:
		return p, r, err
	case !ok || !c.sees(p):
		return domain.Payment{}, domain.Refund{}, missing
	}
	return p, r, nil
}
