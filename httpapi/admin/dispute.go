package admin

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// dispute records what the provider says of a dispute, as its signal would. A repeated request
// answers the dispute that there is.
func (a *admin) dispute(x *edge.Exchange) error {
	var req wire.Dispute
	err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer == "/evidence_due_by" {
		return edge.BadParameter("evidence_due_by", "Send a time such as 2026-11-20T10:15:30Z.")
	} else if ok && wrong.JSONPointer == "/amount" {
		return edge.BadParameter("amount", "Send an amount such as 1500.00.")
	}
	if err != nil || !req.Outcome.AboutDispute() {
		return edge.BadParameter("outcome", "Send disputed, dispute_won or dispute_lost, with the reference of the dispute.")
	}
	p, err := a.api.Payment(x.Context(), merchant.CallerOf(x), x.Vars["id"])
	if err != nil {
		return err
	}
	before, known := p.Dispute(req.Reference)
	event := a.cfg.IDs.Next()
	s := domain.Signal{
		Route: p.Route, Outcome: req.Outcome, Reference: req.Reference, Currency: p.Currency,
		Amount: cmp.Or(req.Amount, before.Amount, p.Amount),
	}
	if s.Outcome == domain.OutcomeDisputed {
		s.StartedAt = domain.IDTime(event)
	}
	switch {
	case p.Status != domain.Paid:
		return wire.Problem{Code: domain.PaymentNotPaid, PaymentStatus: p.Status, Detail: "Only a paid payment can be disputed."}
	case !known && s.Outcome != domain.OutcomeDisputed:
		return &domain.Refusal{Code: domain.DisputeNotFound}
	case s.Amount > p.Amount:
		return edge.BadParameter("amount", "Send at most the payment's amount, "+p.Amount.String()+".")
	case req.Reason != "" && !domain.ValidReason(req.Reason):
		return edge.BadParameter("reason", "Send a code of a-z, 0-9 and _, such as fraudulent.")
	case s.Validate() != nil:
		return edge.BadParameter("reference", "Send the provider's id of the dispute, 1 to 128 bytes without control characters.")
	}
	made, err := a.execute(x, p, event, domain.ApplySignal{Signal: s, Reason: req.Reason, EvidenceDueBy: req.EvidenceDueBy})
	_, unrecorded := errors.AsType[*domain.UnrecordedError](err)
	_, refused := made.Event.(domain.PaymentSignalRefused)
	if unrecorded || refused {
		return wire.Problem{Code: domain.FinalStatus, Detail: "The dispute cannot become this any more: payledger payments get shows what it is."}
	}
	if err != nil {
		return err
	}
	d, _ := made.State.Dispute(req.Reference)
	if made.Event == nil {
		return x.Reply(http.StatusOK, d)
	}
	return x.Reply(http.StatusCreated, d)
}
