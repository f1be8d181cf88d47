package httpapi

import (
	"net/http"

	"payledger/domain"
)

// settlePayment and settleRefund do what the sandbox endpoints of the API do,
// for a payment or refund of any project.
func (a *admin) settlePayment(x *exchange) error {
	outcome, err := outcomeOf(x.body, domain.OutcomePaid, domain.OutcomeFailed, domain.OutcomeExpired)
	if err != nil {
		return err
	}
	id, _ := domain.ParseID(x.vars["id"])
	p, ok, err := a.cfg.Views.Payment(x.ctx(), id)
	switch {
	case err != nil:
		return err
	case !ok:
		return &domain.Refusal{Code: domain.PaymentNotFound}
	}
	if p, err = a.settler.signalPayment(x.ctx(), p, outcome); err != nil {
		return err
	}
	return x.reply(http.StatusOK, p.Object())
}

func (a *admin) settleRefund(x *exchange) error {
	outcome, err := outcomeOf(x.body, domain.OutcomeSucceeded, domain.OutcomeFailed)
	if err != nil {
		return err
	}
	id, _ := domain.ParseID(x.vars["id"])
	p, r, ok, err := a.cfg.Views.Refund(x.ctx(), id)
	switch {
	case err != nil:
		return err
	case !ok:
		return &domain.Refusal{Code: domain.RefundNotFound}
	}
	if r, err = a.settler.signalRefund(x.ctx(), p, r.ID, outcome); err != nil {
		return err
	}
	return x.reply(http.StatusOK, r.Object(p.ID))
}
