package merchant

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// PaymentFacts are a payment with what is its merchant's to see and not part
// of the public object. Needs read.
func (a *API) PaymentFacts(ctx context.Context, c Caller, id string) (v wire.PaymentFacts, err error) {
	p, err := a.Payment(ctx, c, id)
	if err != nil {
		return v, err
	}
	v = wire.PaymentFacts{
		Payment: p.Object(), ExpiresAt: p.ExpiresAt, Link: a.cfg.Links.URL(p.Link.Base, p.Link.KeyVersion, p.ID),
		Refunds: []wire.RefundRow{}, Refund: p.RefundStatus(), ReturnedByHand: p.ReturnedByHand(),
		Disputes: append([]domain.Dispute{}, p.Disputes...), Dispute: p.DisputeStatus(), ErasedAt: p.ErasedAt,
	}
	if p.Route != "" {
		v.Route = &p.Route
	}
	if p.FailureReason != "" {
		v.FailureReason = &p.FailureReason
	}
	for _, r := range p.Refunds {
		v.Refunds = append(v.Refunds, wire.RefundRowOf(r, p.ID))
	}
	v.SettledBy, err = a.cfg.Views.SettledBy(ctx, p.Project, p.ID)
	return v, err
}

// Descriptions are those of payments, by id, for lists that are about payments:
// one without a description has "", one that is not the project's is left out.
// Needs read.
func (a *API) Descriptions(ctx context.Context, c Caller, payments iter.Seq[domain.ID]) (map[domain.ID]string, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return nil, err
	}
	all := make(map[domain.ID]string)
	for id := range payments {
		if _, known := all[id]; known {
			continue
		}
		switch p, ok, err := a.cfg.Views.Payment(ctx, id); {
		case err != nil:
			return nil, err
		case !ok || p.Project != c.Project.ID:
		case p.Description == nil:
			all[id] = ""
		default:
			all[id] = *p.Description
		}
	}
	return all, nil
}

// maxPasted is the longest text that is looked up, in bytes.
const maxPasted = 2048

// Lookup finds what a pasted text refers to: an id in upper or lower case, or a payment link as it
// is in an address bar, with a query and a fragment. An event that was notified is also a delivery,
// of each endpoint that got it; one place is answered, none when it is not of the project. Needs read.
func (a *API) Lookup(ctx context.Context, c Caller, text string) (at wire.Place, err error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return at, err
	}
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxPasted || !utf8.ValidString(text) {
		return at, edge.BadParameter("id", "Send the id of a payment, a refund, an event, a webhook endpoint or a key, or a payment link.")
	}
	for _, e := range c.Project.Endpoints {
		if strings.EqualFold(e.ID, text) {
			return wire.Place{Endpoint: e.ID}, nil
		}
	}
	for _, k := range c.Project.Keys {
		if strings.EqualFold(k.ID, text) {
			return wire.Place{Key: k.ID}, nil
		}
	}
	id, ok := domain.ParseID(strings.ToUpper(text))
	link, _, _ := strings.Cut(text, "#")
	link, _, _ = strings.Cut(link, "?")
	if i := strings.LastIndex(link, "/p/"); !ok && i >= 0 {
		id, ok = a.cfg.Links.Open(link[i+len("/p/"):])
	}
	if !ok || id.IsZero() {
		return at, nil
	}
	if _, err := a.payment(ctx, c, id.String()); err == nil || !missing(err) {
		return wire.Place{Payment: &id}, err
	}
	if of, _, err := a.refund(ctx, c, id.String()); err == nil || !missing(err) {
		return wire.Place{Payment: &of.ID, Part: &id}, err
	}
	return a.placeOfEvent(ctx, c, id)
}

func missing(err error) bool {
	r, ok := errors.AsType[*domain.Refusal](err)
	return ok && (r.Code == domain.PaymentNotFound || r.Code == domain.RefundNotFound)
}

// An event is searched for among the records of the time in its id and of a while after: it may
// have waited for others to be recorded.
const (
	eventsSearched = 20_000
	searchedFor    = time.Minute
)

func (a *API) placeOfEvent(ctx context.Context, c Caller, id domain.ID) (at wire.Place, err error) {
	before, err := a.cfg.Views.PositionAt(ctx, domain.IDTime(id)-1)
	if err != nil {
		return at, err
	}
	for r, err := range a.cfg.Ledger.Store.Scan(ctx, before, eventstore.Filter{}) {
		if err != nil {
			return at, err
		}
		if r.Position > before+eventsSearched || r.At.Sub(domain.IDTime(id).Time()) > searchedFor {
			break
		}
		if r.Commit == id && r.Stream.Project == c.Project.ID && r.Stream.Kind == eventstore.KindPayment {
			payment, _ := domain.ParseID(r.Stream.ID)
			return wire.Place{Payment: &payment, Part: &id}, nil
		}
	}
	// An endpoint.test is an event only of a delivery, not of the log.
	page, err := a.cfg.Webhooks.Deliveries(ctx, domain.DeliveryFilter{Project: c.Project.ID, Event: id, Limit: edge.MaxLimit})
	for _, d := range page.Deliveries {
		if _, ok := c.Project.Endpoint(d.EndpointID); ok { // else it was removed: there is no place to show it
			return wire.Place{Endpoint: d.EndpointID, Payment: d.PaymentID, Part: &id}, err
		}
	}
	return at, err
}
