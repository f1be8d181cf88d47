package admin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections/books"
)

// payoutArrived records that a provider's payout is at the bank.
func (a *admin) payoutArrived(x *edge.Exchange) error {
	p, err := payoutOf(x)
	if err != nil {
		return err
	}
	if p.Route == "" {
		return edge.BadParameter("route", "Send the route through which the money came, and the report for which.")
	}
	_, reported, err := a.cfg.Views.Settlement(x.Context(), operatorsBooks, settlement.ID(p.Route, p.Report))
	if unknown := a.checkRoute(p.Route); err != nil || unknown != nil && !reported { // it may have ended since its report came
		return cmp.Or(err, unknown)
	}
	made, err := eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.ArrivedStream(p.Route), settlement.Payouts{},
		settlement.PayoutCommand(settlement.RecordPayout{Payout: p}), eventstore.Order{EventID: a.cfg.IDs.Next(), Cause: causeOf(x)})
	return a.replyPayout(x, p, made.Event == nil, err)
}

// payMerchant records that a merchant was paid what it is owed. What it is owed is read after the
// payouts that are known, so another one meanwhile is seen.
func (a *admin) payMerchant(x *edge.Exchange) error {
	p, err := payoutOf(x)
	if err != nil {
		return err
	}
	if p.Route != "" {
		return edge.BadParameter("route", "Leave out the route of a payout to a merchant.")
	}
	stream, event := eventstore.PaidStream(x.Project.ID), a.cfg.IDs.Next()
	const tries = 16
	for range tries {
		before, _, err := eventstore.Fold(x.Context(), a.cfg.Ledger, stream, settlement.Payouts{})
		if err != nil {
			return err
		}
		now, err := a.cfg.Views.Balances(x.Context(), x.Project.ID, books.Now)
		if err != nil {
			return err
		}
		c := settlement.RecordPayout{Payout: p, AsOf: uint64(now.Position), After: len(before.All)}
		for _, b := range now.Balances {
			if b.Account == domain.MerchantPayable && b.Currency == p.Currency {
				c.Owed = b.Balance.Neg()
			}
		}
		made, err := eventstore.Execute(x.Context(), a.cfg.Ledger, stream, settlement.Payouts{}, settlement.PayoutCommand(c), eventstore.Order{EventID: event, Cause: causeOf(x)})
		if !errors.Is(err, settlement.ErrPaidMeanwhile) {
			return a.replyPayout(x, p, made.Event == nil, err)
		}
	}
	return eventstore.ErrBusy
}

func payoutOf(x *edge.Exchange) (p settlement.Payout, err error) {
	if err := json.Unmarshal(x.Body, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, edge.BadParameter("amount", "Send an amount such as 1500.00, at most "+domain.MaxAmount.String()+
			", with the reference of the transfer at the bank. Record a larger transfer in parts, each with a reference of its own.")
	}
	p.Currency = cmp.Or(p.Currency, domain.DefaultCurrency)
	return p, nil
}

// replyPayout answers the payout, also one that was recorded before.
func (a *admin) replyPayout(x *edge.Exchange, p settlement.Payout, before bool, err error) error {
	status := http.StatusCreated
	wrong, ok := errors.AsType[domain.FieldErrors](err)
	switch {
	case ok && wrong[0].Code == domain.AmountTooLarge:
		return edge.BadParameter("amount", "The merchant is owed "+wrong[0].Max.String()+" "+string(p.Currency)+", and cannot be paid more.")
	case ok:
		return edge.BadParameter(wrong[0].Field, "Send "+map[string]string{
			"amount": "an amount such as 1500.00", "currency": "a currency with two minor digits", "reference": "1 to 128 printable bytes",
			"route": "the name of a route", "report": "the id of a report: 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore",
		}[wrong[0].Field]+".")
	case err != nil:
		return err
	case before:
		status = http.StatusOK
	}
	var line books.JournalLine // of the last that is the same: those before it were undone
	for r, err := range a.cfg.Ledger.Codec.Events(a.cfg.Ledger.Store.Load(x.Context(), eventstore.PayoutStream(x.Project.ID, p))) {
		if err != nil {
			return err
		}
		if e, ok := r.Event.(settlement.PayoutEvent); ok && e.Type() != settlement.TypePayoutUndone && e.Payout() == p {
			line = books.JournalLine{At: domain.IDTime(r.Commit), Project: x.Project.ID, Event: r.Commit, Payout: p}
		}
	}
	return x.Reply(status, operatorsPayout(line, nil))
}

// undoPayout books back the payout whose event the path names, and answers it. Where that was done
// before it answers what was.
func (a *admin) undoPayout(x *edge.Exchange) error {
	var req struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return edge.BadParameter("reason", "Send the reason.")
	}
	notFound := &domain.Refusal{Code: domain.PayoutNotFound}
	id, ok := domain.ParseID(x.Vars["id"])
	if !ok {
		return notFound
	}
	// Events with later ids may have been committed before it, so its time only says where it cannot be.
	q, i := books.JournalQuery{Account: domain.Bank, From: domain.IDTime(id), Limit: books.MaxLimit}, -1
	var found books.JournalPage
	for more := true; more && i < 0; more = found.More {
		var err error
		if found, err = a.cfg.Views.Journal(x.Context(), q); err != nil {
			return err
		}
		i = slices.IndexFunc(found.Lines, func(l books.JournalLine) bool { return l.Event == id && !l.Undoes })
		if found.More {
			q.After = found.Lines[len(found.Lines)-1].Place()
		}
	}
	if i < 0 {
		return notFound
	}
	r, _, err := a.cfg.Views.EventAt(x.Context(), found.Lines[i].Position)
	if err != nil {
		return err
	}
	_, err = eventstore.Execute(x.Context(), a.cfg.Ledger, r.Stream, settlement.Payouts{},
		settlement.PayoutCommand(settlement.UndoPayout{Number: int(r.Sequence), Reason: req.Reason}), eventstore.Order{EventID: a.cfg.IDs.Next(), Cause: causeOf(x)})
	if wrong, ok := errors.AsType[domain.FieldErrors](err); ok && wrong[0].Field == "reason" {
		return edge.BadParameter("reason", "Say in 1 to 256 characters why, for the auditor and the merchant.")
	}
	if err != nil {
		return err
	}
	undone, err := eventstore.UndonePayouts(x.Context(), a.cfg.Ledger, r.Stream)
	return x.Answer(operatorsPayout(found.Lines[i], undone), err)
}

// operatorsPayout is a posting of a payout to the bank as the operator sees it.
func operatorsPayout(l books.JournalLine, undone map[domain.ID]eventstore.UndonePayout) wire.OperatorsPayout {
	p := wire.OperatorsPayout{Payout: merchant.PayoutOf(l, undone), ProjectID: l.Project, Route: l.Payout.Route, Report: l.Payout.Report}
	if p.Route != "" {
		p.ProjectID = ""
	}
	if p.Undone != nil {
		p.Undone.By = undone[l.Event].Actor
	}
	return p
}

// listPayouts answers GET /admin/payouts: those that arrived and those to merchants, oldest first.
func (a *admin) listPayouts(x *edge.Exchange) error {
	undone := make(map[eventstore.Stream]map[domain.ID]eventstore.UndonePayout)
	return journal(a, x, "adminListPayouts", domain.Bank, func(l books.JournalLine) (p wire.OperatorsPayout, ok bool, err error) {
		stream := eventstore.PayoutStream(l.Project, l.Payout)
		if undone[stream] == nil {
			undone[stream], err = eventstore.UndonePayouts(x.Context(), a.cfg.Ledger, stream)
		}
		return operatorsPayout(l, undone[stream]), !l.Undoes, err
	})
}
