package account

import (
	"context"
	"net/http"
	"net/url"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// endpointPage is what webhook.html is filled with.
type endpointPage struct {
	pageData
	pager

	Endpoint       wire.Endpoint
	State, Payment string // the filters
	States         []domain.DeliveryState
	Filtered       bool
	Deliveries     []domain.DeliveryObject
	Of             subjects
	SinceHint      string
}

// MayResend reports whether the reader can have a delivery sent again: it has ended, and not for
// good, and its endpoint is enabled.
func (d pageData) MayResend(of domain.DeliveryObject) bool {
	e, ok := d.Who.Project.Endpoint(of.EndpointID)
	return ok && e.Disabled == "" && of.State != domain.DeliveryPending && of.State != domain.DeliveryCancelled &&
		of.PaymentID != nil && d.Who.May(projects.WebhooksWrite)
}

// WhyDisabled says why an endpoint is disabled, "" while it is enabled.
func (d pageData) WhyDisabled(reason *projects.DisabledReason) string {
	if reason == nil {
		return ""
	}
	return d.T("webhooks.reason." + string(*reason))
}

func (v *visit) showEndpoint() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	q := v.Filters("state", "payment_id")
	p := endpointPage{
		pageData: v.pageData(v.Locale.T("webhooks.single")), Endpoint: e, State: q.Get("state"), Payment: q.Get("payment_id"),
		States: domain.DeliveryStates(), Filtered: len(q) > 0,
		SinceHint: v.config.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02T15:04"),
	}
	of := func(ctx context.Context, c merchant.Caller, q url.Values) (wire.Page[domain.DeliveryObject], error) {
		return v.Webhooks.Deliveries(ctx, c, e.ID, q)
	}
	p.Deliveries, p.pager, err = listOf(v, v.endpointPath(), of, q, q)
	if err := p.BadFilter(err); err != nil {
		return err
	}
	if p.Of, err = v.subjects(p.pageData, each(p.Deliveries, paymentOf)); err != nil {
		return err
	}
	return v.Render(p.Answer(), "webhook.html", p)
}

func paymentOf(d domain.DeliveryObject) *domain.ID { return d.PaymentID }

// deliveryPage is what delivery.html is filled with.
type deliveryPage struct {
	pageData
	Endpoint wire.Endpoint
	Delivery domain.DeliveryObject
	Of       subjects
}

func (v *visit) showDelivery() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	d, err := v.Webhooks.Delivery(v.Ctx(), v.Caller, e.ID, v.Vars["event"])
	if err != nil {
		return err
	}
	p := deliveryPage{pageData: v.pageData(v.Locale.T("deliveries.single")), Endpoint: e, Delivery: d}
	if p.Of, err = v.subjects(p.pageData, each([]domain.DeliveryObject{d}, paymentOf)); err != nil {
		return err
	}
	return v.Render(http.StatusOK, "delivery.html", p)
}

func (v *visit) resendDelivery() error {
	path := v.Value("back") // the page that the form was on
	if path == "" || !v.ours(path) {
		path = v.endpointPath() + "/deliveries/" + v.Vars["event"]
	}
	_, err := v.Webhooks.Resend(v.Ctx(), v.Caller, v.Vars["endpoint"], v.Vars["event"])
	return v.Tell(path, err, "deliveries.resent")
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
