package webhooks

import (
	"context"
	"net/url"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// Test sends endpoint.test. Needs webhooks:write.
func (a *API) Test(ctx context.Context, c merchant.Caller, id string) (domain.DeliveryObject, error) {
	e, err := a.findEnabled(&c, id)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	return a.cfg.Webhooks.Test(ctx, c.Project.ID, e.ID)
}

// Recover sends the newest state of each payment of which something since an
// instant was not delivered. Needs webhooks:write.
func (a *API) Recover(ctx context.Context, c merchant.Caller, id string, since domain.Instant) (r wire.Recovery, err error) {
	e, err := a.findEnabled(&c, id)
	if err != nil {
		return r, err
	}
	r.Enqueued, err = a.cfg.Webhooks.RecoverSince(ctx, c.Project.ID, e.ID, since)
	return r, err
}

// Resend sends a delivery again. Needs webhooks:write.
func (a *API) Resend(ctx context.Context, c merchant.Caller, id, event string) (domain.DeliveryObject, error) {
	d, err := a.delivery(ctx, &c, projects.WebhooksWrite, id, event)
	if err != nil {
		return d, err
	}
	if _, err := a.findEnabled(&c, id); err != nil {
		return d, err
	}
	return a.cfg.Webhooks.Resend(ctx, c.Project.ID, d.EndpointID, d.EventID)
}

// Delivery finds the delivery of an event to an endpoint. Needs read.
func (a *API) Delivery(ctx context.Context, c merchant.Caller, id, event string) (domain.DeliveryObject, error) {
	return a.delivery(ctx, &c, projects.Read, id, event)
}

func (a *API) delivery(ctx context.Context, c *merchant.Caller, need projects.Scope, id, event string) (d domain.DeliveryObject, err error) {
	e, err := a.find(c, need, id)
	if err != nil {
		return d, err
	}
	eventID, ok := domain.ParseID(event)
	if !ok || eventID.IsZero() { // the zero id would be no filter
		return d, &domain.Refusal{Code: domain.DeliveryNotFound}
	}
	found, err := a.cfg.Webhooks.Deliveries(ctx, domain.DeliveryFilter{Project: c.Project.ID, Endpoint: e.ID, Event: eventID, Limit: 1})
	switch {
	case err != nil:
		return d, err
	case len(found.Deliveries) == 0:
		return d, &domain.Refusal{Code: domain.DeliveryNotFound}
	}
	return found.Deliveries[0], nil
}

// Deliveries lists the deliveries to an endpoint, newest first. Needs read.
func (a *API) Deliveries(ctx context.Context, c merchant.Caller, id string, values url.Values) (page wire.Page[domain.DeliveryObject], err error) {
	l, err := a.parseList(&c, values, "listDeliveries", "payment_id", "event_id")
	if err != nil {
		return page, err
	}
	e, err := a.find(&c, projects.Read, id)
	if err != nil {
		return page, err
	}
	l.filter.Endpoint = e.ID
	return a.page(ctx, l, e.ID)
}

// PaymentDeliveries lists the deliveries of a payment to all endpoints, removed
// ones included. Needs read.
func (a *API) PaymentDeliveries(ctx context.Context, c merchant.Caller, payment string, values url.Values) (page wire.Page[domain.DeliveryObject], err error) {
	l, err := a.parseList(&c, values, "listPaymentDeliveries", "event_id")
	if err != nil {
		return page, err
	}
	p, err := a.m.Payment(ctx, c, payment)
	if err != nil {
		return page, err
	}
	l.filter.Payment = p.ID
	return a.page(ctx, l, p.ID.String())
}

// deliveryList is a request for deliveries.
type deliveryList struct {
	edge.List
	filter domain.DeliveryFilter
	none   bool // a filter is no id that anything can have, so nothing matches
}

// parseList admits a caller and reads its request for deliveries. ids are the
// filters that take an id.
func (a *API) parseList(c *merchant.Caller, values url.Values, operation string, ids ...string) (l deliveryList, err error) {
	if err := a.m.Admit(c, projects.Read, nil); err != nil {
		return l, err
	}
	if l.List, err = edge.ParseList(values, operation, c.Project.ID, append([]string{"state"}, ids...)...); err != nil {
		return l, err
	}
	l.filter.Project, l.filter.Limit = c.Project.ID, l.Limit
	if l.filter.State, err = edge.OneOf(l.Filters, "state", domain.DeliveryStates()); err != nil {
		return l, err
	}
	for _, name := range ids {
		if !l.Filters.Has(name) {
			continue
		}
		id, ok := domain.ParseID(l.Filters[name])
		l.none = l.none || !ok || id.IsZero()
		if name == "event_id" {
			l.filter.Event = id
		} else {
			l.filter.Payment = id
		}
	}
	return l, nil
}

// page is one page of the deliveries of an endpoint or a payment. Cursors hold
// its id, so that they do not fit another one's list.
func (a *API) page(ctx context.Context, l deliveryList, of string) (page wire.Page[domain.DeliveryObject], err error) {
	if l.After != "" {
		after, ok := strings.CutPrefix(l.After, of+" ")
		if !ok {
			return page, wire.Problem{Code: domain.InvalidCursor}
		}
		l.filter.After = after
	}
	found := domain.DeliveryPage{}
	if !l.none {
		if found, err = a.cfg.Webhooks.Deliveries(ctx, l.filter); err != nil {
			return page, err
		}
	}
	last := ""
	if found.After != "" {
		last = of + " " + found.After
	}
	return edge.PageOf(l.List, append([]domain.DeliveryObject{}, found.Deliveries...), last), nil
}
