package admin

import (
	"errors"
	"net/http"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// getPayment answers a payment of any project.
func (a *admin) getPayment(x *edge.Exchange) error {
	return x.Answer(a.paymentOf(x, x.Vars["id"]))
}

// findPayments answers the payments with a provider's reference.
func (a *admin) findPayments(x *edge.Exchange) error {
	q, err := x.Query("reference", "route")
	if err != nil {
		return err
	}
	if q["reference"] == "" {
		return edge.BadParameter("reference", "Send the provider's reference.")
	}
	ids, err := a.cfg.Views.PaymentsOfReference(x.Context(), q["route"], q["reference"])
	if err != nil {
		return err
	}
	found := make([]wire.OperatorsPayment, len(ids))
	for i, id := range ids {
		if found[i], err = a.paymentOf(x, id.String()); err != nil {
			return err
		}
	}
	return x.Reply(http.StatusOK, wire.Page[wire.OperatorsPayment]{Data: found})
}

// ask has the provider asked about a payment, and answers the payment after that.
func (a *admin) ask(x *edge.Exchange) error {
	p, err := a.api.Payment(x.Context(), merchant.CallerOf(x), x.Vars["id"])
	if err != nil {
		return err
	}
	if a.cfg.Ask == nil {
		return &domain.Refusal{Code: domain.NoConnector}
	}
	switch err := a.cfg.Ask(x.Context(), p.ID); {
	case err == nil:
		return a.getPayment(x)
	case errors.As(err, new(*domain.Refusal)):
		return err
	default: // only the operator reads it
		return wire.Problem{Code: domain.Unavailable, Detail: "The provider could not be asked: " + err.Error()}
	}
}

func (a *admin) paymentOf(x *edge.Exchange, id string) (v wire.OperatorsPayment, err error) {
	p, err := a.api.Payment(x.Context(), merchant.CallerOf(x), id)
	if err != nil {
		return v, err
	}
	facts, err := a.api.PaymentFacts(x.Context(), merchant.CallerOf(x), id)
	return wire.OperatorsPayment{
		ProjectID: p.Project, PaymentFacts: facts,
		Attempts: p.Attempts, LateFunds: p.Late, Returns: p.Returns, ProviderRefunds: p.ProviderRefunds,
		Settlements: p.Settlements,
	}, err
}

// status answers how the server is.
func (a *admin) status(x *edge.Exchange) error { return x.Reply(http.StatusOK, a.cfg.Status()) }
