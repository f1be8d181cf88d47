package admin

import (
	"net/http"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// listPayments answers what the API's list does, for the project in the path.
func (a *admin) listPayments(x *edge.Exchange, p domain.Project) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	page, err := a.api.Payments(x.Context(), merchant.Operator(p), values)
	if err != nil {
		return err
	}
	return edge.ReplyPage(x, page)
}

// getPayment answers a payment of any project.
func (a *admin) getPayment(x *edge.Exchange) error {
	operator := merchant.Operator(domain.Project{})
	p, err := a.api.Payment(x.Context(), operator, x.Vars["id"])
	if err != nil {
		return err
	}
	facts, err := a.api.PaymentFacts(x.Context(), operator, x.Vars["id"])
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, wire.OperatorsPayment{ProjectID: p.Project, PaymentFacts: facts})
}

// status answers how the server is.
func (a *admin) status(x *edge.Exchange) error { return x.Reply(http.StatusOK, a.cfg.Status()) }
