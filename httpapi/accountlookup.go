package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"payledger/domain"
	"payledger/eventstore"
)

// paymentFacts is a payment with what is its merchant's to see and not part of
// the public object.
type paymentFacts struct {
	Payment       domain.PaymentObject  `json:"payment"`
	ExpiresAt     domain.Instant        `json:"expires_at"`
	Route         *string               `json:"route"`          // null while there is none
	FailureReason *string               `json:"failure_reason"` // null unless failed
	Link          string                `json:"link"`           // where the customer pays
	Refunds       []domain.RefundObject `json:"refunds"`        // oldest first
}

// accountPayment answers GET /account-api/payments/{id}.
func (a *merchants) accountPayment(x *exchange) error {
	p, err := a.payment(x, x.vars["id"])
	if err != nil {
		return err
	}
	v := paymentFacts{
		Payment: p.Object(), ExpiresAt: p.ExpiresAt, Link: a.cfg.Links.URL(p.Link.Base, p.Link.KeyVersion, p.ID),
		Refunds: []domain.RefundObject{},
	}
	if p.Route != "" {
		v.Route = &p.Route
	}
	if p.FailureReason != "" {
		v.FailureReason = &p.FailureReason
	}
	for _, r := range p.Refunds {
		v.Refunds = append(v.Refunds, r.Object(p.ID))
	}
	return x.reply(http.StatusOK, v)
}

// placeView is what an id names, and where it belongs.
type placeView struct {
	Kind       string              `json:"kind"` // payment, refund, event, delivery, endpoint, key
	PaymentID  *domain.ID          `json:"payment_id,omitempty"`
	RefundID   *domain.ID          `json:"refund_id,omitempty"`
	EventID    *domain.ID          `json:"event_id,omitempty"`
	EventType  string              `json:"event_type,omitzero"`
	Position   eventstore.Position `json:"position,omitzero"` // of the event
	EndpointID string              `json:"endpoint_id,omitzero"`
	KeyID      string              `json:"key_id,omitzero"`
}

// maxPasted is the longest text that is looked up, in bytes.
const maxPasted = 2048

// accountLookup answers GET /account-api/lookup: what a text is that somebody
// pasted, an id in whatever case or a payment link. An event that was notified
// is also a delivery, of each endpoint that got it.
func (a *merchants) accountLookup(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "id")
	if err != nil {
		return err
	}
	text := strings.TrimSpace(q.value("id"))
	if text == "" || len(text) > maxPasted || !utf8.ValidString(text) {
		return badParameter("id", "Send the id of a payment, a refund, an event, a webhook endpoint or a key, or a payment link.")
	}
	places, err := a.placesOf(x, text)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, map[string]any{"data": append([]placeView{}, places...)})
}

func (a *merchants) placesOf(x *exchange, text string) ([]placeView, error) {
	p := x.project
	for _, e := range p.Endpoints {
		if strings.EqualFold(e.ID, text) {
			return []placeView{{Kind: "endpoint", EndpointID: e.ID}}, nil
		}
	}
	for _, k := range p.Keys {
		if strings.EqualFold(k.ID, text) {
			return []placeView{{Kind: "key", KeyID: k.ID}}, nil
		}
	}
	id, ok := domain.ParseID(strings.ToUpper(text))
	if i := strings.LastIndex(text, "/p/"); !ok && i >= 0 {
		id, ok = a.cfg.Links.Open(text[i+len("/p/"):])
	}
	if !ok || id.IsZero() {
		return nil, nil
	}
	switch _, err := a.payment(x, id.String()); {
	case err == nil:
		return []placeView{{Kind: "payment", PaymentID: &id}}, nil
	case !missing(err):
		return nil, err
	}
	switch of, _, err := a.refund(x, id.String()); {
	case err == nil:
		return []placeView{{Kind: "refund", RefundID: &id, PaymentID: &of.ID}}, nil
	case !missing(err):
		return nil, err
	}
	return a.placesOfEvent(x, id)
}

func missing(err error) bool {
	r, ok := errors.AsType[*domain.Refusal](err)
	return ok && (r.Code == domain.PaymentNotFound || r.Code == domain.RefundNotFound)
}

// An event is looked for among the records of the time its id tells and of a
// while after: it may have waited for others to be recorded.
const (
	eventsSearched = 20_000
	searchedFor    = time.Minute
)

func (a *merchants) placesOfEvent(x *exchange, id domain.ID) (found []placeView, err error) {
	before, err := a.cfg.Views.PositionAt(x.ctx(), domain.IDTime(id)-1)
	if err != nil {
		return nil, err
	}
	project := x.project.ID
	for r, err := range a.cfg.Ledger.Store.Scan(x.ctx(), before, eventstore.Filter{}) {
		if err != nil {
			return nil, err
		}
		if r.Position > before+eventsSearched || r.At.Sub(domain.IDTime(id).Time()) > searchedFor {
			break
		}
		if r.Commit != id || r.Stream.Project != project || r.Stream.Kind != eventstore.KindPayment {
			continue
		}
		e, err := a.cfg.Ledger.Codec.Decode(r)
		if err != nil {
			return nil, err
		}
		payment, _ := domain.ParseID(r.Stream.ID)
		found = append(found, placeView{Kind: "event", EventID: &id, EventType: e.Type(), Position: r.Position, PaymentID: &payment})
		break
	}
	if a.cfg.Webhooks == nil {
		return found, nil
	}
	// An endpoint.test is an event of a delivery alone.
	page, err := a.cfg.Webhooks.Deliveries(x.ctx(), domain.DeliveryFilter{Project: project, Event: id, Limit: maxLimit})
	for _, d := range page.Deliveries {
		if _, ok := x.project.Endpoint(d.EndpointID); !ok {
			continue // removed: there is no place to show it
		}
		found = append(found, placeView{Kind: "delivery", EventID: &id, EndpointID: d.EndpointID, PaymentID: d.PaymentID})
	}
	return found, err
}
