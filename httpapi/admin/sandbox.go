package admin

import (
	"net/http"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
)

// settlePayment and settleRefund do what the sandbox endpoints of the API do,
// for a payment or refund of any project.
func (a *admin) settlePayment(x *edge.Exchange) error {
	outcome, err := merchant.OutcomeOf(x.Body, domain.OutcomePaid, domain.OutcomeFailed, domain.OutcomeExpired)
	if err != nil {
		return err
	}
	id, _ := domain.ParseID(x.Vars["id"])
	p, ok, err := a.cfg.Views.Payment(x.Context(), id)
	switch {
	case err != nil:
		return err
	case !ok:
		return &domain.Refusal{Code: domain.PaymentNotFound}
	}
	if p, err = a.settler.SignalPayment(x.Context(), p, outcome); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p.Object())
}

func (a *admin) settleRefund(x *edge.Exchange) error {
	outcome, err := merchant.OutcomeOf(x.Body, domain.OutcomeSucceeded, domain.OutcomeFailed)
	if err != nil {
		return err
	}
	id, _ := domain.ParseID(x.Vars["id"])
	p, r, ok, err := a.cfg.Views.Refund(x.Context(), id)
	switch {
	case err != nil:
		return err
	case !ok:
		return &domain.Refusal{Code: domain.RefundNotFound}
	}
	if r, err = a.settler.SignalRefund(x.Context(), p, r.ID, outcome); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, r.Object(p.ID))
}
