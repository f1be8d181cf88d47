package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"

	"github.com/go-json-experiment/json/jsontext"
)

// test answers POST …/test.
func (h hooks) test(x *exchange, p domain.Project) error {
	if err := noMembers(x.body); err != nil {
		return err
	}
	e, err := h.enabled(x, p)
	if err != nil {
		return err
	}
	d, err := h.cfg.Webhooks.Test(x.ctx(), p.ID, e.ID)
	if err != nil {
		return err
	}
	return x.reply(http.StatusAccepted, d)
}

// resend answers POST …/deliveries/{event_id}/resend.
func (h hooks) resend(x *exchange, p domain.Project) error {
	if err := noMembers(x.body); err != nil {
		return err
	}
	d, err := h.find(x, p)
	if err != nil {
		return err
	}
	if _, err := h.enabled(x, p); err != nil {
		return err
	}
	if d, err = h.cfg.Webhooks.Resend(x.ctx(), p.ID, d.EndpointID, d.EventID); err != nil {
		return err
	}
	return x.reply(http.StatusAccepted, d)
}

// recovery is how many notifications a request has put in line.
type recovery struct {
	Enqueued int `json:"enqueued"`
}

// recover answers POST …/recover.
func (h hooks) recover(x *exchange, p domain.Project) error {
	since, err := sinceOf(x.body)
	if err != nil {
		return err
	}
	e, err := h.enabled(x, p)
	if err != nil {
		return err
	}
	n, err := h.cfg.Webhooks.RecoverSince(x.ctx(), p.ID, e.ID, since)
	if err != nil {
		return err
	}
	return x.reply(http.StatusAccepted, recovery{n})
}

// enabled finds the endpoint a path names, which must be enabled.
func (h hooks) enabled(x *exchange, p domain.Project) (domain.Endpoint, error) {
	e, err := h.endpoint(x, p)
	if err == nil && e.Disabled != "" {
		err = &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, err
}

// delivery answers GET …/deliveries/{event_id}.
func (h hooks) delivery(x *exchange, p domain.Project) error {
	d, err := h.find(x, p)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, d)
}

// find finds the delivery a path names.
func (h hooks) find(x *exchange, p domain.Project) (domain.DeliveryObject, error) {
	missing := &domain.Refusal{Code: domain.DeliveryNotFound}
	e, err := h.endpoint(x, p)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	event, ok := domain.ParseID(x.vars["event_id"])
	if !ok {
		return domain.DeliveryObject{}, missing
	}
	found, err := h.cfg.Webhooks.Deliveries(x.ctx(), domain.DeliveryFilter{Project: p.ID, Endpoint: e.ID, Event: event, Limit: 1})
	switch {
	case err != nil:
		return domain.DeliveryObject{}, err
	case len(found.Deliveries) == 0:
		return domain.DeliveryObject{}, missing
	}
	return found.Deliveries[0], nil
}

// deliveries answers GET …/webhook-endpoints/{endpoint_id}/deliveries.
func (h hooks) deliveries(x *exchange, p domain.Project) error {
	req, err := pageOf(x, "state", "payment_id", "event_id")
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
func (h hooks) ofPayment(variable string) func(*exchange, domain.Project) error {
	return func(x *exchange, p domain.Project) error {
		req, err := pageOf(x, "state", "event_id")
		if err != nil {
			return err
		}
		f, known, err := deliveryFilter(req, "event_id")
		if err != nil {
			return err
		}
		missing := &domain.Refusal{Code: domain.PaymentNotFound}
		id, ok := domain.ParseID(x.vars[variable])
		if !ok {
			return missing
		}
		payment, ok, err := h.cfg.Views.Payment(x.ctx(), id)
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
func (h hooks) page(x *exchange, req listRequest, f domain.DeliveryFilter, of string, known bool) error {
	if req.place != "" {
		after, ok := strings.CutPrefix(req.place, of+" ")
		if !ok {
			return problem{Code: domain.InvalidCursor}
		}
		f.After = after
	}
	found := domain.DeliveryPage{}
	if known {
		var err error
		if found, err = h.cfg.Webhooks.Deliveries(x.ctx(), f); err != nil {
			return err
		}
	}
	last := ""
	if found.After != "" {
		last = of + " " + found.After
	}
	return x.replyPage(req, append([]domain.DeliveryObject{}, found.Deliveries...), last)
}

// deliveryFilter reads the filters of a list of deliveries. known is false
// when one of the ids is no id.
func deliveryFilter(req listRequest, ids ...string) (f domain.DeliveryFilter, known bool, err error) {
	f.Limit = req.limit
	if f.State, err = oneOf(req.filters, "state", domain.DeliveryStates()); err != nil {
		return f, false, err
	}
	known = true
	for _, name := range ids {
		if !req.filters.has(name) {
			continue
		}
		id, ok := domain.ParseID(req.filters[name])
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
	err := oneMember(body, field, false, func(v jsontext.Value) domain.Code {
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
	err = oneMember(body, "since", true, func(v jsontext.Value) domain.Code {
		s, ok := text(v)
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
