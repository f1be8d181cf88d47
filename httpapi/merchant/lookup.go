package merchant

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// accountPayment answers GET /account-api/payments/{id}.
func (a *API) AccountPayment(x *edge.Exchange) error {
	p, err := a.payment(x, x.Vars["id"])
	if err != nil {
		return err
	}
	v := wire.PaymentFacts{
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
	return x.Reply(http.StatusOK, v)
}

// maxPasted is the longest text that is looked up, in bytes.
const maxPasted = 2048

// accountLookup answers GET /account-api/lookup: what a text is that somebody
// pasted, an id in whatever case or a payment link. An event that was notified
// is also a delivery, of each endpoint that got it.
func (a *API) AccountLookup(x *edge.Exchange) error {
	q, err := edge.ParseQuery(x.Request.URL.RawQuery, "id")
	if err != nil {
		return err
	}
	text := strings.TrimSpace(q.Value("id"))
	if text == "" || len(text) > maxPasted || !utf8.ValidString(text) {
		return edge.BadParameter("id", "Send the id of a payment, a refund, an event, a webhook endpoint or a key, or a payment link.")
	}
	places, err := a.placesOf(x, text)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]any{"data": append([]wire.Place{}, places...)})
}

func (a *API) placesOf(x *edge.Exchange, text string) ([]wire.Place, error) {
	p := x.Project
	for _, e := range p.Endpoints {
		if strings.EqualFold(e.ID, text) {
			return []wire.Place{{Kind: "endpoint", EndpointID: e.ID}}, nil
		}
	}
	for _, k := range p.Keys {
		if strings.EqualFold(k.ID, text) {
			return []wire.Place{{Kind: "key", KeyID: k.ID}}, nil
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
		return []wire.Place{{Kind: "payment", PaymentID: &id}}, nil
	case !missing(err):
		return nil, err
	}
	switch of, _, err := a.refund(x, id.String()); {
	case err == nil:
		return []wire.Place{{Kind: "refund", RefundID: &id, PaymentID: &of.ID}}, nil
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

func (a *API) placesOfEvent(x *edge.Exchange, id domain.ID) (found []wire.Place, err error) {
	before, err := a.cfg.Views.PositionAt(x.Context(), domain.IDTime(id)-1)
	if err != nil {
		return nil, err
	}
	project := x.Project.ID
	for r, err := range a.cfg.Ledger.Store.Scan(x.Context(), before, eventstore.Filter{}) {
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
		found = append(found, wire.Place{Kind: "event", EventID: &id, EventType: e.Type(), Position: uint64(r.Position), PaymentID: &payment})
		break
	}
	if a.cfg.Webhooks == nil {
		return found, nil
	}
	// An endpoint.test is an event of a delivery alone.
	page, err := a.cfg.Webhooks.Deliveries(x.Context(), domain.DeliveryFilter{Project: project, Event: id, Limit: edge.MaxLimit})
	for _, d := range page.Deliveries {
		if _, ok := x.Project.Endpoint(d.EndpointID); !ok {
			continue // removed: there is no place to show it
		}
		found = append(found, wire.Place{Kind: "delivery", EventID: &id, EndpointID: d.EndpointID, PaymentID: d.PaymentID})
	}
	return found, err
}
