package merchant

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

// test answers POST …/test.
func (h Hooks) test(x *edge.Exchange, p domain.Project) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	e, err := h.enabled(x, p)
	if err != nil {
		return err
	}
	d, err := h.Cfg.Webhooks.Test(x.Context(), p.ID, e.ID)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusAccepted, d)
}

// resend answers POST …/deliveries/{event_id}/resend.
func (h Hooks) resend(x *edge.Exchange, p domain.Project) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	d, err := h.find(x, p)
	if err != nil {
		return err
	}
	if _, err := h.enabled(x, p); err != nil {
		return err
	}
	if d, err = h.Cfg.Webhooks.Resend(x.Context(), p.ID, d.EndpointID, d.EventID); err != nil {
		return err
	}
	return x.Reply(http.StatusAccepted, d)
}

// recover answers POST …/recover.
func (h Hooks) recover(x *edge.Exchange, p domain.Project) error {
	since, err := sinceOf(x.Body)
	if err != nil {
		return err
	}
	e, err := h.enabled(x, p)
	if err != nil {
		return err
	}
	n, err := h.Cfg.Webhooks.RecoverSince(x.Context(), p.ID, e.ID, since)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusAccepted, wire.Recovery{Enqueued: n})
}

// enabled finds the endpoint a path names, which must be enabled.
func (h Hooks) enabled(x *edge.Exchange, p domain.Project) (domain.Endpoint, error) {
	e, err := h.endpoint(x, p)
	if err == nil && e.Disabled != "" {
		err = &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, err
}

// delivery answers GET …/deliveries/{event_id}.
func (h Hooks) delivery(x *edge.Exchange, p domain.Project) error {
	d, err := h.find(x, p)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, d)
}

// find finds the delivery a path names.
func (h Hooks) find(x *edge.Exchange, p domain.Project) (domain.DeliveryObject, error) {
	missing := &domain.Refusal{Code: domain.DeliveryNotFound}
	e, err := h.endpoint(x, p)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	event, ok := domain.ParseID(x.Vars["event_id"])
	if !ok {
		return domain.DeliveryObject{}, missing
	}
	found, err := h.Cfg.Webhooks.Deliveries(x.Context(), domain.DeliveryFilter{Project: p.ID, Endpoint: e.ID, Event: event, Limit: 1})
	switch {
	case err != nil:
		return domain.DeliveryObject{}, err
	case len(found.Deliveries) == 0:
		return domain.DeliveryObject{}, missing
	}
	return found.Deliveries[0], nil
}

// deliveries answers GET …/webhook-endpoints/{endpoint_id}/deliveries.
func (h Hooks) deliveries(x *edge.Exchange, p domain.Project) error {
	req, err := edge.PageOf(x, "state", "payment_id", "event_id")
	if err != nil {
		return err
	}
	f, known, err := deliveryFilter(req, "payment_id", "event_id")
	if err != nil {
		return err
	}
	e, err := h.endpoint(x, p)
	if err != nil {
		return err
	}
	f.Project, f.Endpoint = p.ID, e.ID
	return h.page(x, req, f, e.ID, known)
}

// ofPayment answers GET …/deliveries of the payment that a variable of the
// path names: its deliveries to all endpoints, removed ones included.
func (h Hooks) OfPayment(variable string) func(*edge.Exchange, domain.Project) error {
	return func(x *edge.Exchange, p domain.Project) error {
		req, err := edge.PageOf(x, "state", "event_id")
		if err != nil {
			return err
		}
		f, known, err := deliveryFilter(req, "event_id")
		if err != nil {
			return err
		}
		missing := &domain.Refusal{Code: domain.PaymentNotFound}
		id, ok := domain.ParseID(x.Vars[variable])
		if !ok {
			return missing
		}
		payment, ok, err := h.Cfg.Views.Payment(x.Context(), id)
		switch {
		case err != nil:
			return err
		case !ok || payment.Project != p.ID:
			return missing
		}
		f.Project, f.Payment = p.ID, id
		return h.page(x, req, f, id.String(), known)
	}
}

// page answers one page of deliveries of what a path names. Cursors hold that
// name, so that they do not fit another endpoint's or payment's list. Where a
// filter is no id that there could be, nothing matches.
func (h Hooks) page(x *edge.Exchange, req edge.ListRequest, f domain.DeliveryFilter, of string, known bool) error {
	if req.Place != "" {
		after, ok := strings.CutPrefix(req.Place, of+" ")
		if !ok {
			return wire.Problem{Code: domain.InvalidCursor}
		}
		f.After = after
	}
	found := domain.DeliveryPage{}
	if known {
		var err error
		if found, err = h.Cfg.Webhooks.Deliveries(x.Context(), f); err != nil {
			return err
		}
	}
	last := ""
	if found.After != "" {
		last = of + " " + found.After
	}
	return x.ReplyPage(req, append([]domain.DeliveryObject{}, found.Deliveries...), last)
}

// deliveryFilter reads the filters of a list of deliveries. known is false
// when one of the ids is no id.
func deliveryFilter(req edge.ListRequest, ids ...string) (f domain.DeliveryFilter, known bool, err error) {
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
