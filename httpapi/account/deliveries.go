package account

import (
	"context"
	"net/http"
	"net/url"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// endpointPage is what webhook.html is filled with.
type endpointPage struct {
	pageData
	pager

	Endpoint            endpoint
	State, Payment      string // the filters
	States              []domain.DeliveryState
	Filtered            bool
	Deliveries          []delivery
	DocsPath, SinceHint string
}

// delivery is a delivery with what a page says of it.
type delivery struct{ domain.DeliveryObject }

// Last is the newest attempt, nil if there is none.
func (d delivery) Last() *domain.AttemptObject {
	if len(d.Attempts) == 0 {
		return nil
	}
	return &d.Attempts[len(d.Attempts)-1]
}

// CanResend reports whether sending it again makes sense: it is settled and
// not for good.
func (d delivery) CanResend() bool {
	return d.State != domain.DeliveryPending && d.State != domain.DeliveryCancelled && d.PaymentID != nil
}

func (v *visit) showEndpoint() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	q := v.filters("state", "payment_id")
	p := endpointPage{
		pageData: v.pageData(v.locale.T("webhooks.single")), Endpoint: e, State: q.Get("state"), Payment: q.Get("payment_id"),
		States: domain.DeliveryStates(), Filtered: len(q) > 0,
		SinceHint: v.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02T15:04"),
	}
	p.DocsPath = p.Root + "../docs/webhooks"
	p.Deliveries, p.pager, err = list(v, "webhooks/"+e.ID, func(_ context.Context, _ merchant.Caller, q url.Values) (wire.Page[delivery], error) {
		return get[wire.Page[delivery]](v, v.endpointPath()+"/deliveries", q)
	}, q, q)
	if err := p.badFilter(err); err != nil {
		return err
	}
	return v.render(http.StatusOK, "webhook.html", p)
}

// deliveryPage is what delivery.html is filled with.
type deliveryPage struct {
	pageData
	Endpoint endpoint
	Delivery delivery
}

func (v *visit) deliveryPath() string { return v.endpointPath() + "/deliveries/" + v.vars["event"] }

func (v *visit) showDelivery() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	d, err := get[delivery](v, v.deliveryPath(), nil)
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "delivery.html", deliveryPage{pageData: v.pageData(v.locale.T("deliveries.single")), Endpoint: e, Delivery: d})
}

func (v *visit) resendDelivery() error {
	path := v.back("webhooks/" + v.vars["endpoint"] + "/deliveries/" + v.vars["event"])
	return v.tell(path, func() error {
		_, err := v.ask(http.MethodPost, v.deliveryPath()+"/resend", nil, nil)
		return err
	}, "deliveries.resent")
}

// AttemptText says how an attempt went.
func (d pageData) AttemptText(a domain.AttemptObject) string {
	id := "attempt." + a.Error
	switch {
	case a.Error == "":
		return d.T("attempt.ok", "Status", a.Status)
	case a.Status != 0:
		return d.T("attempt.answered", "Status", a.Status)
	case d.Has(id):
		return d.T(id)
	}
	return a.Error
}
