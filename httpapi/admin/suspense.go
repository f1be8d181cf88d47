package admin

import (
	"context"
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

// listSuspense answers GET /admin/suspense, the oldest payment first.
func (a *admin) listSuspense(x *edge.Exchange) error {
	page, err := pageOfPayments(a, x, "adminListSuspense", "project", a.cfg.Views.EachInSuspense,
		func(project string) string { return project })
	if err != nil {
		return err
	}
	rows := []wire.Suspense{}
	for _, p := range page.payments {
		if rows, err = a.suspenseOf(x, rows, p); err != nil {
			return err
		}
	}
	return edge.ReplyPage(x, edge.PageOf(page.List, rows, page.last))
}

// paymentsPage is a page of payments about which something is to be done.
type paymentsPage struct {
	edge.List

	payments []domain.Payment
	last     string // place of the page's end; "": there are no more
}

// errFull ends a page: it has all payments that it may have.
var errFull = errors.New("the page is full")

// pageOfPayments reads the request for a page of what each lists. The list has one filter: the
// project or another value that of returns for a row.
func pageOfPayments[V any](
	a *admin, x *edge.Exchange, operation, filter string,
	each func(ctx context.Context, after domain.ID, limit int, fn func(row V, id domain.ID) error) error, of func(row V) string,
) (page paymentsPage, err error) {
	if page.List, err = x.List(operation, "", filter); err != nil {
		return page, err
	}
	if err := a.checkProject(x, page.Filters); err != nil {
		return page, err
	}
	after, ok := domain.ParseID(page.After)
	if page.After != "" && !ok {
		return page, wire.Problem{Code: domain.InvalidCursor}
	}
	var ids []domain.ID
	err = each(x.Context(), after, math.MaxInt, func(row V, id domain.ID) error {
		switch {
		case page.Filters.Has(filter) && page.Filters[filter] != of(row):
		case len(ids) == page.Limit:
			return errFull
		default:
			ids = append(ids, id)
		}
		return nil
	})
	if errors.Is(err, errFull) {
		page.last, err = ids[len(ids)-1].String(), nil
	}
	for _, id := range ids {
		if err != nil {
			break
		}
		var p domain.Payment
		p, _, err = a.cfg.Views.Payment(x.Context(), id)
		page.payments = append(page.payments, p)
	}
	return page, err
}

// suspenseOf adds the rows of a payment. Its events say since when, and which late
// funds there are that the payment does not list.
func (a *admin) suspenseOf(x *edge.Exchange, rows []wire.Suspense, p domain.Payment) ([]wire.Suspense, error) {
	late, since, refused := make(map[string]domain.LateFund), make(map[string]domain.Instant), make(map[domain.ID]string)
	open := p.InSuspense()
	err := a.eachEvent(x, p, func(e domain.Event, at domain.Instant) {
		switch e := e.(type) {
		case domain.PaymentLateFunds:
			f := e.Fund()
			late[f.Reference], since[f.Reference] = f, at
			_, listed := p.LateFund(f.Reference)
			if _, back := p.ReturnOf(f.Reference); !listed && !back {
				open = append(open, domain.InSuspense{Reference: f.Reference, Amount: f.Amount, Currency: f.Currency})
			}
		case domain.PaymentRefundedAtProvider:
			since[e.Reference] = at
		case domain.ReturnFailed:
			refused[e.ReturnID] = e.Reason
		}
	})
	for _, s := range open {
		row := wire.Suspense{
			ProjectID: p.Project, PaymentID: p.ID, Route: p.Route, Reference: s.Reference, State: wire.SuspenseOpen,
			Reason: late[s.Reference].Reason, Amount: s.Amount, Currency: s.Currency, Since: since[s.Reference],
		}
		for _, r := range p.Returns { // those of open late funds have failed
			if r.Reference == s.Reference && !s.Out {
				row.State, row.ReturnReason = wire.SuspenseReturnFailed, refused[r.ID]
			}
		}
		for _, r := range p.ProviderRefunds {
			if r.Reference == s.Reference {
				row.State, row.RefundReference = wire.SuspenseRest, r.RefundReference
			}
		}
		if s.Out {
			row.State = wire.SuspenseByHand
		}
		rows = append(rows, row)
	}
	return rows, err
}

// eachEvent calls fn for each event of a payment, the oldest first.
func (a *admin) eachEvent(x *edge.Exchange, p domain.Payment, fn func(e domain.Event, at domain.Instant)) error {
	for r, err := range a.cfg.Ledger.Codec.Events(a.cfg.Ledger.Store.Load(x.Context(), eventstore.PaymentStream(p.Project, p.ID))) {
		if err != nil {
			return err
		}
		fn(r.Event, domain.InstantOf(r.At))
	}
	return nil
}

// execute runs a command of the operator on a payment.
func (a *admin) execute(x *edge.Exchange, p domain.Payment, event domain.ID, c domain.PaymentCommand) (eventstore.Result[domain.Payment], error) {
	return eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.PaymentStream(p.Project, p.ID), domain.Payment{Project: p.Project, ID: p.ID},
		c, eventstore.Order{EventID: event, Cause: causeOf(x)})
}

// createReturn has late funds returned to whom they came from. A repeated request
// answers the return that there is.
func (a *admin) createReturn(x *edge.Exchange) error {
	var req struct {
		Reference string `json:"reference"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil || req.Reference == "" {
		return edge.BadParameter("reference", "Send the reference of late funds, as \"payledger suspense list\" shows it.")
	}
	p, err := a.api.Payment(x.Context(), merchant.CallerOf(x), x.Vars["id"])
	if err != nil {
		return err
	}
	id, event := a.cfg.IDs.Pair()
	c := domain.CreateReturn{At: domain.IDTime(event), ReturnID: id, Reference: req.Reference}
	if c.Earlier, err = eventstore.UnlistedLateFund(x.Context(), a.cfg.Ledger, p, c.Reference); err != nil {
		return err
	}
	made, err := a.execute(x, p, event, c)
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
	case refused.Reason == domain.ReturnSettled:
		return wire.Problem{Code: domain.LateFundsNotFound, Detail: "This money was settled: payledger payments get shows against which account, and why."}
	}
	if p, _, err = a.cfg.Views.Payment(x.Context(), p.ID); err != nil {
		return err
	}
	if r, ok := p.ReturnOf(req.Reference); ok {
		return x.Reply(http.StatusOK, r)
	}
	return wire.Problem{Code: domain.Unavailable, Detail: "A return of this money has just failed. List it, then try again."}
}

// settle books money out of suspense. A repeated request answers the settlement that
// there is.
func (a *admin) settle(x *edge.Exchange) error {
	var req wire.Settle
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil || req.Reference == "" {
		return edge.BadParameter("reference", "Send the reference of money in suspense, as \"payledger suspense list\" shows it.")
	}
	p, err := a.api.Payment(x.Context(), merchant.CallerOf(x), x.Vars["id"])
	if err != nil {
		return err
	}
	c := domain.SettleSuspense{Reference: req.Reference, Currency: req.Currency, Against: req.Against, Reason: req.Reason}
	if c.Earlier, err = eventstore.UnlistedLateFund(x.Context(), a.cfg.Ledger, p, c.Reference); err != nil {
		return err
	}
	made, err := a.execute(x, p, a.cfg.IDs.Next(), c)
	refused, ok := errors.AsType[*domain.AttemptError](err)
	wrong, isWrong := errors.AsType[domain.FieldErrors](err)
	status := http.StatusCreated
	switch {
	case isWrong && wrong[0].Field == "reason":
		return edge.BadParameter("reason", "Say in 1 to 256 characters why, for the auditor.")
	case isWrong:
		return edge.BadParameter("against", "Send merchant_payable or operator.")
	case ok && refused.Reason == domain.SettleNothing:
		return wire.Problem{Code: domain.LateFundsNotFound, Detail: "Nothing of this reference is in suspense. List what is: payledger suspense list."}
	case ok:
		return wire.Problem{Code: domain.RefundExists, Detail: "The merchant has not got this money, or a refund has taken it. Settle it against the operator."}
	case err != nil:
		return err
	case made.Event == nil:
		status = http.StatusOK
	}
	s, _ := made.State.Settled(req.Reference)
	return x.Reply(status, s)
}
