package merchant

import (
	"errors"
	"fmt"
	"net/http"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
)

const (
	PaymentsPath = "/v1/payments"
	RefundsPath  = "/v1/refunds"
)

// renderVersion is the form of the answer to creation that new payments get.
// It is kept with each payment, so that a repeated request gets the bytes of
// the first answer even after the form has changed.
const renderVersion = 1

// createPayment answers POST /v1/payments.
func (a *API) CreatePayment(x *edge.Exchange) error {
	settings := x.Project.Settings
	cmd, fields, err := paymentCommand(x.Body, settings)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(x.Request.Header, settings.RequireIdempotencyKey)
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		return edge.InOrder(edge.Alongside(fields, cmd.CheckSettings()))
	}

	id, event := a.cfg.IDs.Pair()
	c := claim(key, http.MethodPost, PaymentsPath,
		cmd.Amount.String(), string(cmd.Currency), presence(cmd.Description), string(cmd.Payload))
	cmd.At = domain.IDTime(event)
	cmd.Link = domain.Link{Base: a.cfg.PublicURL, KeyVersion: a.cfg.Links.Current(), Render: renderVersion}
	cmd.Idempotency = remembered(c)
	project := x.Project.ID
	res, err := eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.PaymentStream(project, id),
		domain.Payment{Project: project, ID: id}, domain.PaymentCommand(cmd),
		eventstore.Order{EventID: event, Claim: c, New: true})
	if err != nil {
		return a.reused(err, func(earlier domain.Event, _ eventstore.Stored) []string {
			if e, ok := earlier.(domain.PaymentCreated); ok {
				return differences(e, cmd)
			}
			return nil
		})
	}
	object, err := a.createdPayment(res.Event, res.Stored)
	if err != nil {
		return err
	}
	return replyCreated(x, PaymentsPath, object.ID, object, res.Replayed)
}

// createdPayment is the answer to creation, told by the event alone.
func (a *API) createdPayment(e domain.Event, s eventstore.Stored) (domain.PaymentObject, error) {
	created, ok := e.(domain.PaymentCreated)
	id, idOK := domain.ParseID(s.Stream.ID)
	if !ok || !idOK || created.Link.Render != renderVersion {
		return domain.PaymentObject{}, fmt.Errorf("the record at position %d cannot be shown as a created payment", s.Position)
	}
	object := domain.Payment{ID: id}.Evolve(created).Object()
	object.Instructions = &domain.Instructions{
		Type: "link", URL: a.cfg.Links.URL(created.Link.Base, created.Link.KeyVersion, id),
	}
	return object, nil
}

// created answers 201, the first time and every time the same request comes
// again with its idempotency key.
func replyCreated(x *edge.Exchange, collection string, id domain.ID, object any, replayed bool) error {
	x.SetHeader("Location", collection+"/"+id.String())
	if replayed {
		x.SetHeader("Idempotent-Replayed", "true")
	}
	return x.Reply(http.StatusCreated, object)
}

// paymentCommand reads the fields of a payment. The error is about the body
// as a whole (400); fields are all that is wrong with single fields, those
// limits included that no project can change.
func paymentCommand(body []byte, settings domain.Settings) (domain.CreatePayment, domain.FieldErrors, error) {
	cmd := domain.CreatePayment{Currency: domain.DefaultCurrency, Payload: domain.EmptyObject(), Settings: settings}
	members, err := edge.DecodeObject(body)
	var fields domain.FieldErrors
	if errors.As(err, &fields) {
		return cmd, fields, nil
	}
	if err != nil {
		return cmd, nil, err
	}
	priced := false
	refuse := func(f *domain.FieldError) { fields = append(fields, f) }
	for _, m := range members {
		if m.Value.Kind() == 'n' && isPaymentField(m.Name) {
			continue
		}
		wrong := func() { refuse(&domain.FieldError{Field: m.Name, Code: domain.WrongType}) }
		switch m.Name {
		case "amount":
			priced = true
			if amount, err := AmountOf(m); err != nil {
				refuse(atMost(err, settings.MaxAmount))
			} else {
				cmd.Amount = amount
			}
		case "currency":
			if s, ok := edge.Text(m.Value); ok {
				cmd.Currency = domain.Currency(s)
			} else {
				wrong()
			}
		case "description":
			if s, ok := edge.Text(m.Value); ok {
				cmd.Description = &s
			} else {
				wrong()
			}
		case "payload":
			if m.Value.Kind() == '{' {
				cmd.Payload = edge.Compact(m.Value)
			} else {
				wrong()
			}
		default:
			refuse(&domain.FieldError{Field: m.Name, Code: domain.UnknownField})
		}
	}
	if !priced {
		refuse(&domain.FieldError{Field: "amount", Code: domain.Required})
	}
	return cmd, append(fields, cmd.Validate()...), nil
}

func isPaymentField(name string) bool {
	return name == "amount" || name == "currency" || name == "description" || name == "payload"
}

// amountOf reads an amount from its raw token.
func AmountOf(m edge.Member) (domain.Amount, *domain.FieldError) {
	token, ok := edge.Text(m.Value)
	if m.Value.Kind() == '0' {
		token, ok = string(m.Value), true
	}
	if !ok {
		return 0, &domain.FieldError{Field: m.Name, Code: domain.WrongType}
	}
	amount, err := domain.ParseAmount(token)
	if field, ok := errors.AsType[*domain.FieldError](err); ok {
		return 0, field.InField(m.Name)
	}
	return amount, nil
}

// atMost tells the project's own maximum where an amount is above any.
func atMost(f *domain.FieldError, limit domain.Amount) *domain.FieldError {
	if f.Max != 0 {
		f.Max = min(f.Max, limit)
	}
	return f
}

// getPayment answers GET /v1/payments/{id}.
func (a *API) GetPayment(x *edge.Exchange) error {
	p, err := a.payment(x, x.Vars["id"])
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p.Object())
}

// payment finds one of the caller's payments. Ids are compared as text;
// another project's payment does not exist here.
func (a *API) payment(x *edge.Exchange, text string) (domain.Payment, error) {
	var p domain.Payment
	id, ok := domain.ParseID(text)
	if ok {
		var err error
		if p, ok, err = a.cfg.Views.Payment(x.Context(), id); err == nil && !ok {
			err = a.cfg.Views.Overlooked(x.Context(), x.Project.ID, id)
		}
		if err != nil {
			return p, err
		}
	}
	if !ok || !a.sees(x, p) {
		return domain.Payment{}, &domain.Refusal{Code: domain.PaymentNotFound}
	}
	return p, nil
}
