package merchant

import (
	"context"
	"encoding/hex"
	"net/http"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

// EraseDetails answers POST /v1/payments/{id}/erase.
func (h Handlers) EraseDetails(x *edge.Exchange) error {
	reason := ""
	err := edge.ReadObject(x.Body, edge.Field{Name: "reason", Required: true, Read: edge.Text(func(s string) domain.FieldErrors {
		reason = s
		return nil
	})})
	if err != nil {
		return err
	}
	p, err := h.api.EraseDetails(x.Context(), CallerOf(x), x.Vars["id"], reason)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p.Object())
}

// EraseDetails removes a payment's description and payload for good and answers the payment without
// them. Repeated, it changes nothing. The refusal is details_in_log. Needs payments:write.
func (a *API) EraseDetails(ctx context.Context, c Caller, id, reason string) (p domain.Payment, err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return p, err
	}
	if p, err = a.payment(ctx, c, id); err != nil {
		return p, err
	}
	event := a.cfg.IDs.Next()
	res, err := eventstore.Execute(ctx, a.cfg.Ledger, eventstore.PaymentStream(p.Project, p.ID),
		domain.Payment{Project: p.Project, ID: p.ID},
		domain.PaymentCommand(domain.EraseDetails{At: domain.IDTime(event), Reason: reason}),
		eventstore.Order{EventID: event, Cause: c.Cause()})
	return res.State, err
}

// LineOf is a record as it is listed, with its details.
func LineOf(r eventstore.Stored) wire.EventLine {
	l := wire.EventLine{Position: uint64(r.Position), Event: r.Body}
	if len(r.Details) > eventstore.SaltSize {
		l.Details, l.Salt = jsontext.Value(r.Details[eventstore.SaltSize:]), hex.EncodeToString(r.Details[:eventstore.SaltSize])
	}
	return l
}
