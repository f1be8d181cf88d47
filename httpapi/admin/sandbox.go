package admin

import (
	"errors"
	"net/http"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
)

// settlePayment and settleRefund do what the sandbox endpoints of the API do,
// for a payment or refund of any project, and for a return of late funds.
func (a *admin) settlePayment(x *edge.Exchange) error {
	outcome, err := merchant.OutcomeOf(x.Body, merchant.PaymentOutcomes()...)
	if err != nil {
		return err
	}
	p, err := a.api.SettlePayment(x.Context(), merchant.Operator(x, projects.Project{}), x.Vars["id"], outcome)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p.Object())
}

func (a *admin) settleRefund(x *edge.Exchange) error {
	outcome, err := merchant.OutcomeOf(x.Body, merchant.RefundOutcomes()...)
	if err != nil {
		return err
	}
	p, r, err := a.api.SettleRefund(x.Context(), merchant.Operator(x, projects.Project{}), x.Vars["id"], outcome)
	if no, ok := errors.AsType[*domain.Refusal](err); ok && no.Code == domain.RefundNotFound { // of late funds, maybe
		r, err := a.api.SettleReturn(x.Context(), x.Vars["id"], outcome)
		if err != nil {
			return err
		}
		return x.Reply(http.StatusOK, r)
	}
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, r.Object(p.ID))
}
