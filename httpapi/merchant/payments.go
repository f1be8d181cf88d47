package merchant

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

// Paths of the two collections that merchants add to.
const (
	PaymentsPath = "/v1/payments"
	RefundsPath  = "/v1/refunds"
)

// renderVersion is the form of the answer to creation that new payments get. It is stored with each
// payment, so that a repeated request gets the bytes of the first answer even after the form has
// changed.
const renderVersion = 1

// Created is an object that was created. Replayed: by an earlier request with
// the same idempotency key.
type Created[Object any] struct {
	ID       domain.ID
	Object   Object
	Replayed bool
}

// create answers a POST to a collection: 201, the first time and every time the same
// request comes again with its idempotency key.
func create[Request, Object any](
	x *edge.Exchange, collection string, read func([]byte) (Request, error),
	do func(context.Context, Caller, Request, *domain.Digest) (Created[Object], error),
) error {
	req, err := read(x.Body)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(x.Request.Header)
	if err != nil {
		return err
	}
	made, err := do(x.Context(), CallerOf(x), req, key)
	if err != nil {
		return err
	}
	x.Header().Set("Location", x.Outside(collection+"/"+made.ID.String()))
	if made.Replayed {
		x.Header().Set("Idempotent-Replayed", "true")
	}
	return x.Reply(http.StatusCreated, &made.Object)
}

// CreatePayment answers POST /v1/payments.
func (h Handlers) CreatePayment(x *edge.Exchange) error {
	return create(x, PaymentsPath, readPayment, h.api.CreatePayment)
}

// CreatePayment makes a payment. A key (nil: none) that was used before leads
// to the payment it made then. Needs payments:write.
func (a *API) CreatePayment(ctx context.Context, c Caller, req PaymentRequest, key *domain.Digest) (made Created[domain.PaymentObject], err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return made, err
	}
	settings := c.Project.Settings
	if key == nil && settings.RequireIdempotencyKey {
		return made, wire.Problem{Code: domain.IdempotencyKeyRequired}
	}
	cmd, faults := req.command(settings)
	if len(faults) > 0 {
		return made, edge.InOrder(edge.Merge(faults, cmd.CheckSettings()))
	}
	id, event := a.cfg.IDs.Pair()
	claimed, before := a.claim(key, PaymentsPath,
		cmd.Amount.String(), string(cmd.Currency), presence(cmd.Description), string(cmd.Payload))
	cmd.At = domain.IDTime(event)
	cmd.Link = domain.Link{Base: a.cfg.PublicURL, KeyVersion: a.cfg.Links.Current(), Render: renderVersion}
	cmd.Idempotency = remembered(claimed)
	if a.cfg.Routing != nil {
		cmd.Routing = new(a.cfg.Routing())
	}
	res, err := eventstore.Execute(ctx, a.cfg.Ledger, eventstore.PaymentStream(c.Project.ID, id),
		domain.Payment{Project: c.Project.ID, ID: id}, domain.PaymentCommand(cmd),
		eventstore.Order{EventID: event, Cause: c.Cause(), Claim: claimed, Before: before, New: true})
	if err != nil {
		return made, a.reused(err, func(earlier domain.Event) []string {
			if e, ok := earlier.(domain.PaymentCreated); ok {
				return differences(e, cmd)
			}
			return nil
		})
	}
	if erased(res.Event) {
		return made, wire.Problem{Code: domain.DetailsErased}
	}
	made.Replayed = res.Replayed
	made.Object, err = a.createdPayment(res.Event, res.Stored)
	made.ID = made.Object.ID
	return made, err
}

// createdPayment is the answer to creation, which depends only on the event.
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

// PaymentRequest asks for a payment. What is nil was left out.
type PaymentRequest struct {
	Amount      *string // in the grammar of amounts, such as 1500.00
	Currency    *string
	Description *string
	Payload     domain.JSON // an object without insignificant white space

	faults domain.FieldErrors // of the body it was read from
}

// readPayment reads a body. The error is about the body as a whole; what is
// wrong with single fields is found by command, all at once.
func readPayment(body []byte) (req PaymentRequest, err error) {
	req.faults, err = edge.Faults(body,
		edge.Field{Name: "amount", Read: func(v jsontext.Value) domain.FieldErrors {
			token, ok := amountToken(v)
			if ok {
				req.Amount = &token
			}
			return edge.OfType(ok)
		}},
		edge.Field{Name: "currency", Read: edge.TextTo(&req.Currency)},
		edge.Field{Name: "description", Read: edge.TextTo(&req.Description)},
		edge.Field{Name: "payload", Read: func(v jsontext.Value) domain.FieldErrors {
			if v.Kind() != '{' {
				return edge.Fault(domain.WrongType)
			}
			req.Payload = wire.Compact(v)
			return nil
		}})
	return req, err
}

// command is what is asked for, with every fault that does not depend on what
// the project allows.
func (r PaymentRequest) command(settings domain.Settings) (domain.CreatePayment, domain.FieldErrors) {
	cmd := domain.CreatePayment{
		Currency: domain.DefaultCurrency, Description: r.Description, Payload: domain.EmptyObject(), Settings: settings,
	}
	faults := r.faults
	if faults.Has("") { // no object
		return cmd, faults
	}
	if r.Currency != nil {
		cmd.Currency = domain.Currency(*r.Currency)
	}
	if r.Payload != nil {
		cmd.Payload = r.Payload
	}
	switch {
	case r.Amount != nil:
		amount, fault := parseAmount(*r.Amount)
		if fault != nil {
			fault = fault.InField("amount")
			if fault.Max != 0 { // above any: the project's own maximum is told
				fault.Max = min(fault.Max, settings.MaxAmount)
			}
			faults = append(faults, fault)
		}
		cmd.Amount = amount
	case !faults.Has("amount"):
		faults = append(faults, &domain.FieldError{Field: "amount", Code: domain.Required})
	}
	return cmd, append(faults, cmd.Validate()...)
}

// amountToken is an amount as it was sent: a string's text or a number's
// digits.
func amountToken(v jsontext.Value) (string, bool) {
	if v.Kind() == '0' {
		return string(v), true
	}
	return wire.Text(v)
}

// AmountOf reads an amount from its raw token.
func AmountOf(v jsontext.Value) (domain.Amount, *domain.FieldError) {
	token, ok := amountToken(v)
	if !ok {
		return 0, &domain.FieldError{Code: domain.WrongType}
	}
	return parseAmount(token)
}

func parseAmount(token string) (domain.Amount, *domain.FieldError) {
	amount, err := domain.ParseAmount(token)
	fault, _ := errors.AsType[*domain.FieldError](err)
	return amount, fault
}

// GetPayment answers GET /v1/payments/{id}.
func (h Handlers) GetPayment(x *edge.Exchange) error {
	p, err := h.api.Payment(x.Context(), CallerOf(x), x.Vars["id"])
	object := p.Object()
	return x.Answer(&object, err) // of a value the encoder would make a copy
}

// Payment finds one of the caller's payments. Ids are compared as text;
// another project's payment does not exist here. Needs read.
func (a *API) Payment(ctx context.Context, c Caller, id string) (domain.Payment, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return domain.Payment{}, err
	}
	return a.payment(ctx, c, id)
}

func (a *API) payment(ctx context.Context, c Caller, text string) (domain.Payment, error) {
	var p domain.Payment
	id, ok := domain.ParseID(text)
	if ok {
		var err error
		if p, ok, err = a.cfg.Views.Payment(ctx, id); err == nil && !ok {
			err = a.cfg.Views.Overlooked(ctx, c.Project.ID, id)
		}
		if err != nil {
			return p, err
		}
	}
	if !ok || !c.sees(p) {
		return domain.Payment{}, &domain.Refusal{Code: domain.PaymentNotFound}
	}
	return p, nil
}
