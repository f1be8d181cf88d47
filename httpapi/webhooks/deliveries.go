package webhooks

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// TestWebhookEndpoint answers POST …/test.
func (h Handlers) TestWebhookEndpoint(x *edge.Exchange) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	return on(h, x, http.StatusAccepted, h.api.TestEndpoint)
}

// TestEndpoint sends endpoint.test. Needs webhooks:write.
func (a *API) TestEndpoint(ctx context.Context, c merchant.Caller, id string) (d domain.DeliveryObject, err error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return d, err
	}
	e, err := enabled(c.Project, id)
	if err != nil {
		return d, err
	}
	return a.cfg.Webhooks.Test(ctx, c.Project.ID, e.ID)
}

// ResendDelivery answers POST …/deliveries/{event_id}/resend.
func (h Handlers) ResendDelivery(x *edge.Exchange) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	return on(h, x, http.StatusAccepted, func(ctx context.Context, c merchant.Caller, id string) (domain.DeliveryObject, error) {
		return h.api.Resend(ctx, c, id, x.Vars["event_id"])
	})
}

// Resend sends a delivery again. Needs webhooks:write.
func (a *API) Resend(ctx context.Context, c merchant.Caller, endpoint, event string) (d domain.DeliveryObject, err error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return d, err
	}
	if d, err = a.delivery(ctx, c, endpoint, event); err != nil {
		return d, err
	}
	if _, err := enabled(c.Project, endpoint); err != nil {
		return d, err
	}
	return a.cfg.Webhooks.Resend(ctx, c.Project.ID, d.EndpointID, d.EventID)
}

// RecoverDeliveries answers POST …/recover.
func (h Handlers) RecoverDeliveries(x *edge.Exchange) error {
	since, err := sinceOf(x.Body)
	if err != nil {
		return err
	}
	return on(h, x, http.StatusAccepted, func(ctx context.Context, c merchant.Caller, id string) (wire.Recovery, error) {
		return h.api.Recover(ctx, c, id, since)
	})
}

// Recover sends the newest state of each payment of which something since an
// instant was not delivered. Needs webhooks:write.
func (a *API) Recover(ctx context.Context, c merchant.Caller, id string, since domain.Instant) (r wire.Recovery, err error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return r, err
	}
	e, err := enabled(c.Project, id)
	if err != nil {
		return r, err
	}
	r.Enqueued, err = a.cfg.Webhooks.RecoverSince(ctx, c.Project.ID, e.ID, since)
	return r, err
}

// GetDelivery answers GET …/deliveries/{event_id}.
func (h Handlers) GetDelivery(x *edge.Exchange) error {
	return on(h, x, http.StatusOK, func(ctx context.Context, c merchant.Caller, id string) (domain.DeliveryObject, error) {
		return h.api.Delivery(ctx, c, id, x.Vars["event_id"])
	})
}

// Delivery finds the delivery of an event to an endpoint. Needs read.
func (a *API) Delivery(ctx context.Context, c merchant.Caller, endpoint, event string) (d domain.DeliveryObject, err error) {
	if err := a.m.Admit(&c, domain.Read, nil); err != nil {
		return d, err
	}
	return a.delivery(ctx, c, endpoint, event)
}

func (a *API) delivery(ctx context.Context, c merchant.Caller, id, event string) (d domain.DeliveryObject, err error) {
	missing := &domain.Refusal{Code: domain.DeliveryNotFound}
	e, err := endpoint(c.Project, id)
	if err != nil {
		return d, err
	}
	eventID, ok := domain.ParseID(event)
	if !ok {
		return d, missing
	}
	found, err := a.cfg.Webhooks.Deliveries(ctx, domain.DeliveryFilter{Project: c.Project.ID, Endpoint: e.ID, Event: eventID, Limit: 1})
	switch {
	case err != nil:
		return d, err
	case len(found.Deliveries) == 0:
		return d, missing
	}
	return found.Deliveries[0], nil
}

// ListDeliveries answers GET …/webhook-endpoints/{endpoint_id}/deliveries.
func (h Handlers) ListDeliveries(x *edge.Exchange) error {
	return h.deliveries(x, "endpoint_id", h.api.Deliveries)
}

// ListPaymentDeliveries answers GET …/deliveries of the payment that a
// variable of the path names.
func (h Handlers) ListPaymentDeliveries(variable string) func(*edge.Exchange) error {
	return func(x *edge.Exchange) error { return h.deliveries(x, variable, h.api.PaymentDeliveries) }
}

func (h Handlers) deliveries(x *edge.Exchange, variable string, list func(context.Context, merchant.Caller, string, url.Values) (wire.Page[domain.DeliveryObject], error)) error {
	c, err := h.caller(x)
	if err != nil {
		return err
	}
	values, err := x.Values()
	if err != nil {
		return err
	}
	page, err := list(x.Context(), c, x.Vars[variable], values)
	if err != nil {
		return err
	}
	return edge.ReplyPage(x, page)
}

// Deliveries lists the deliveries to an endpoint, newest first. Needs read.
func (a *API) Deliveries(ctx context.Context, c merchant.Caller, id string, values url.Values) (page wire.Page[domain.DeliveryObject], err error) {
	if err := a.m.Admit(&c, domain.Read, nil); err != nil {
		return page, err
	}
	l, err := edge.ParseList(values, "listDeliveries", c.Project.ID, "state", "payment_id", "event_id")
	if err != nil {
		return page, err
	}
	f, known, err := deliveryFilter(l, "payment_id", "event_id")
	if err != nil {
		return page, err
	}
	e, err := endpoint(c.Project, id)
	if err != nil {
		return page, err
	}
	f.Project, f.Endpoint = c.Project.ID, e.ID
	return a.deliveryPage(ctx, l, f, e.ID, known)
}

// PaymentDeliveries lists the deliveries of a payment to all endpoints, removed
// ones included. Needs read.
func (a *API) PaymentDeliveries(ctx context.Context, c merchant.Caller, payment string, values url.Values) (page wire.Page[domain.DeliveryObject], err error) {
	if err := a.m.Admit(&c, domain.Read, nil); err != nil {
		return page, err
	}
	l, err := edge.ParseList(values, "listPaymentDeliveries", c.Project.ID, "state", "event_id")
	if err != nil {
		return page, err
	}
	f, known, err := deliveryFilter(l, "event_id")
	if err != nil {
		return page, err
	}
	p, err := a.m.Payment(ctx, c, payment)
	if err != nil {
		return page, err
	}
	f.Project, f.Payment = c.Project.ID, p.ID
	return a.deliveryPage(ctx, l, f, p.ID.String(), known)
}

// deliveryPage is one page of the deliveries of an endpoint or a payment.
// Cursors hold its id, so that they do not fit another one's list. Where a
// filter is no id that there could be (known is false), nothing matches.
func (a *API) deliveryPage(ctx context.Context, l edge.List, f domain.DeliveryFilter, of string, known bool) (page wire.Page[domain.DeliveryObject], err error) {
	if l.Place != "" {
		after, ok := strings.CutPrefix(l.Place, of+" ")
		if !ok {
			return page, wire.Problem{Code: domain.InvalidCursor}
		}
		f.After = after
	}
	found := domain.DeliveryPage{}
	if known {
		if found, err = a.cfg.Webhooks.Deliveries(ctx, f); err != nil {
			return page, err
		}
	}
	last := ""
	if found.After != "" {
		last = of + " " + found.After
	}
	return edge.PageOf(l, append([]domain.DeliveryObject{}, found.Deliveries...), last), nil
}

// deliveryFilter reads the filters of a list of deliveries. known is false
// when one of the ids is no id.
func deliveryFilter(req edge.List, ids ...string) (f domain.DeliveryFilter, known bool, err error) {
	f.Limit = req.Limit
	if f.State, err = edge.OneOf(req.Filters, "state", domain.DeliveryStates()); err != nil {
		return f, false, err
	}
	known = true
	for _, name := range ids {
		if !req.Filters.Has(name) {
			continue
		}
		id, ok := domain.ParseID(req.Filters[name])
		known = known && ok
		if name == "event_id" {
			f.Event = id
		} else {
			f.Payment = id
		}
	}
	return f, known, nil
}

// overlapOf reads how long the secret before stays good.
func overlapOf(body []byte) (time.Duration, error) {
	const field = "overlap_seconds"
	overlap := domain.DefaultSecretOverlap
	err := edge.OneMember(body, field, false, func(v jsontext.Value) domain.Code {
		// A whole number is one in any spelling: 60, 60.0, 6e1.
		n, err := strconv.ParseFloat(string(v), 64)
		switch {
		case v.Kind() != '0' || (err == nil && n != math.Trunc(n)):
			return domain.WrongType
		case err != nil || n < 0 || n > domain.MaxSecretOverlap.Seconds():
			return domain.InvalidValue
		}
		overlap = time.Duration(n) * time.Second
		return ""
	})
	return overlap, err
}

// sinceOf reads from when on a merchant misses notifications.
func sinceOf(body []byte) (since domain.Instant, err error) {
	err = edge.OneMember(body, "since", true, func(v jsontext.Value) domain.Code {
		s, ok := edge.Text(v)
		if !ok {
			return domain.WrongType
		}
		if err := since.UnmarshalText([]byte(s)); err != nil || since <= 0 {
			return domain.InvalidValue
		}
		return ""
	})
	return since, err
}
