package admin

import (
	"errors"
	"math"
	"net/http"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// errFull ends a page: it has all payments that it may have.
var errFull = errors.New("the page is full")

// listSuspense answers GET /admin/suspense, the oldest payment first.
func (a *admin) listSuspense(x *edge.Exchange) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	req, err := edge.ParseList(values, "adminListSuspense", "", "project")
	if err != nil {
		return err
	}
	if err := a.checkProject(x, req.Filters); err != nil {
		return err
	}
	after, ok := domain.ParseID(req.Place)
	if req.Place != "" && !ok {
		return wire.Problem{Code: domain.InvalidCursor}
	}
	payments, last, err := pageOfPayments(req.Limit, func(fn func(project string, id domain.ID) error) error {
		return a.cfg.Views.EachInSuspense(x.Context(), after, math.MaxInt, fn)
	}, func(project string) bool { return !req.Filters.Has("project") || req.Filters["project"] == project })
	if err != nil {
		return err
	}
	rows := []wire.Suspense{}
	for _, id := range payments {
		p, _, err := a.cfg.Views.Payment(x.Context(), id)
		if err != nil {
			return err
		}
		if rows, err = a.suspenseOf(x, rows, p); err != nil {
			return err
		}
	}
	return edge.ReplyPage(x, edge.PageOf(req, rows, last))
}

// pageOfPayments takes up to limit of the payments that each lists whose value is
// wanted. last is the place of the page's end, "" if there are no more.
func pageOfPayments(
	limit int, each func(fn func(value string, id domain.ID) error) error, wanted func(value string) bool,
) (payments []domain.ID, last string, err error) {
	err = each(func(value string, id domain.ID) error {
		switch {
		case !wanted(value):
		case len(payments) == limit:
			return errFull
		default:
			payments = append(payments, id)
		}
		return nil
	})
	if errors.Is(err, errFull) {
		return payments, payments[len(payments)-1].String(), nil
	}
	return payments, "", err
}

// suspenseOf adds the rows of a payment. Its events say since when.
func (a *admin) suspenseOf(x *edge.Exchange, rows []wire.Suspense, p domain.Payment) ([]wire.Suspense, error) {
	late, byHand, refused := make(map[string]domain.Instant), make(map[string]domain.Instant), make(map[domain.ID]string)
	for r, err := range a.cfg.Ledger.Store.Scan(x.Context(), 0, eventstore.Filter(eventstore.PaymentStream(p.Project, p.ID))) {
		if err != nil {
			return nil, err
		}
		e, err := a.cfg.Ledger.Codec.Decode(r)
		if err != nil {
			return nil, err
		}
		switch e := e.(type) {
		case domain.PaymentLateFunds:
			late[e.Signal.Reference] = domain.InstantOf(r.At)
		case domain.PaymentRefundedAtProvider:
			byHand[e.RefundReference] = domain.InstantOf(r.At)
		case domain.ReturnFailed:
			refused[e.ReturnID] = e.Reason
		}
	}
	row := wire.Suspense{ProjectID: p.Project, PaymentID: p.ID, Route: p.Route}
	for _, f := range p.OpenLateFunds() {
		row := row
		row.Reference, row.State, row.Reason, row.Amount, row.Currency = f.Reference, wire.SuspenseOpen, f.Reason, f.Amount, f.Currency
		row.Since = late[f.Reference]
		for _, r := range p.Returns { // those of open late funds have failed
			if r.Reference == f.Reference {
				row.State, row.ReturnReason = wire.SuspenseReturnFailed, refused[r.ID]
			}
		}
		rows = append(rows, row)
	}
	for _, r := range p.ProviderRefunds {
		row := row
		row.Reference, row.RefundReference, row.State, row.Amount, row.Currency = r.Reference, r.RefundReference, wire.SuspenseByHand, r.Amount, r.Currency
		row.Since = byHand[r.RefundReference]
		rows = append(rows, row)
	}
	return rows, nil
}

// createReturn has late funds returned to whom they came from. A repeated request
// answers the return that there is.
func (a *admin) createReturn(x *edge.Exchange) error {
	var wish struct {
		Reference string `json:"reference"`
	}
	if err := json.Unmarshal(x.Body, &wish, json.RejectUnknownMembers(true)); err != nil || wish.Reference == "" {
		return edge.BadParameter("reference", "Send the reference of late funds, as \"payledger suspense list\" shows it.")
	}
	p, err := a.api.Payment(x.Context(), merchant.Operator(x, domain.Project{}), x.Vars["id"])
	if err != nil {
		return err
	}
	id, event := a.cfg.IDs.Pair()
	made, err := eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.PaymentStream(p.Project, p.ID), domain.Payment{Project: p.Project, ID: p.ID},
		domain.PaymentCommand(domain.CreateReturn{At: domain.IDTime(event), ReturnID: id, Reference: wish.Reference}),
		eventstore.Order{EventID: event, Cause: causeOf(x)})
	refused, ok := errors.AsType[*domain.AttemptError](err)
	switch {
	case err == nil:
		r, _ := made.State.Return(id)
		return x.Reply(http.StatusCreated, r)
	case !ok:
		return err
	case refused.Reason == domain.ReturnNothing:
		return &domain.Refusal{Code: domain.LateFundsNotFound}
	case refused.Reason == domain.ReturnElsehow:
		return &domain.Refusal{Code: domain.RefundedAtProvider}
	}
	if p, _, err = a.cfg.Views.Payment(x.Context(), p.ID); err != nil {
		return err
	}
	if r, ok := p.ReturnOf(wish.Reference); ok {
		return x.Reply(http.StatusOK, r)
	}
	return wire.Problem{Code: domain.Unavailable, Detail: "A return of this money has just failed. List it, then try again."}
}
