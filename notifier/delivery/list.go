package delivery

import (
	"context"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/eventstore"
)

// The bounds of a page: how many deliveries it has at most, how many by default,
// and how many are looked at for it. So a page can end early, and can even be
// empty; After says where the next one begins.
const (
	maxPage     = 1000
	defaultPage = 100
	maxLooked   = 20_000
)

// Deliveries lists deliveries by event, the newest first. Of those of one
// payment or event, all endpoints are seen when the filter names none. Errors:
// *domain.Refusal with InvalidCursor for an After that no page had.
func (l *Lanes) Deliveries(ctx context.Context, f domain.DeliveryFilter) (domain.DeliveryPage, error) {
	if f.Limit <= 0 {
		f.Limit = defaultPage
	}
	f.Limit = min(f.Limit, maxPage)
	before, err := parseCursor(f.After)
	if err == nil {
		err = l.config.Rows.Fresh(ctx)
	}
	if err != nil {
		return domain.DeliveryPage{}, err
	}
	switch {
	case !f.Event.IsZero():
		return l.byEvents(ctx, []domain.ID{f.Event}, f, before)
	case !f.Payment.IsZero():
		var events []domain.ID
		for r, err := range l.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(f.Project, f.Payment)) {
			if err != nil {
				return domain.DeliveryPage{}, err
			}
			events = append(events, r.Commit)
		}
		return l.byEvents(ctx, events, f, before)
	}
	return l.byEndpoint(ctx, f, before)
}

// cursor is the last delivery of a page.
type cursor struct {
	event    domain.ID
	endpoint string
}

func (c cursor) String() string { return c.event.String() + c.endpoint }

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	const size = len("01M7W78FJBM8T4R7B5N0C1D2E3")
	event, ok := domain.ParseID(text[:min(size, len(text))])
	if !ok {
		return cursor{}, &domain.Refusal{Code: domain.InvalidCursor}
	}
	return cursor{event, text[size:]}, nil
}

// follows reports whether a delivery comes after the cursor in a list.
func (c cursor) follows(o cursor) bool {
	if c.event.IsZero() {
		return true
	}
	if n := c.event.Compare(o.event); n != 0 {
		return n > 0
	}
	return c.endpoint < o.endpoint
}

// byEvents lists the deliveries of some events.
func (l *Lanes) byEvents(ctx context.Context, events []domain.ID, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	for _, event := range events {
		endpoints, all, err := l.config.Rows.Of(ctx, event)
		if err != nil {
			return page, err
		}
		for i, d := range all {
			if !l.matches(endpoints[i], d, f) || !before.follows(cursor{event, endpoints[i]}) {
				continue
			}
			object, err := l.object(endpoints[i], d)
			if err != nil {
				return page, err
			}
			page.Deliveries = append(page.Deliveries, object)
		}
	}
	slices.SortFunc(page.Deliveries, func(a, b domain.DeliveryObject) int {
		if n := b.EventID.Compare(a.EventID); n != 0 {
			return n
		}
		return strings.Compare(a.EndpointID, b.EndpointID)
	})
	if len(page.Deliveries) > f.Limit {
		page.Deliveries = page.Deliveries[:f.Limit]
		last := page.Deliveries[f.Limit-1]
		page.After = cursor{last.EventID, last.EndpointID}.String()
	}
	return page, nil
}

// matches reports whether a list shows the delivery. One that was settled long ago may
// not have been forgotten yet.
func (l *Lanes) matches(endpoint string, d deliveries.Delivery, f domain.DeliveryFilter) bool {
	if d.State != domain.DeliveryPending && d.Touched < l.wallNow().Add(-domain.KeepDeliveries) {
		return false
	}
	return (f.Endpoint == "" || endpoint == f.Endpoint) && (f.Project == "" || l.config.Rows.Endpoint(endpoint).Project == f.Project) &&
		(f.Event.IsZero() || d.Event == f.Event) && (f.State == "" || d.State == f.State) &&
		(f.Payment.IsZero() || d.Payment == f.Payment && d.Kind != domain.KindEndpointTest)
}

// byEndpoint lists the deliveries to one endpoint.
func (l *Lanes) byEndpoint(ctx context.Context, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	found, last, err := l.config.Rows.Page(ctx, f.Endpoint, f.State, before.event, f.Limit, maxLooked)
	if err != nil {
		return page, err
	}
	for _, d := range found {
		if !l.matches(f.Endpoint, d, f) {
			continue
		}
		object, err := l.object(f.Endpoint, d)
		if err != nil {
			return page, err
		}
		page.Deliveries = append(page.Deliveries, object)
	}
	if !last.IsZero() {
		page.After = cursor{last, f.Endpoint}.String()
	}
	return page, nil
}

// object is a delivery as merchants see it.
func (l *Lanes) object(endpoint string, d deliveries.Delivery) (domain.DeliveryObject, error) {
	o := domain.DeliveryObject{
		EventID: d.Event, EndpointID: endpoint, Type: d.Kind, Position: d.Position, State: d.State,
		CreatedAt: d.Created, Attempts: l.answered(endpoint, d),
	}
	if d.Kind != domain.KindEndpointTest {
		o.PaymentID, o.Sequence = &d.Payment, d.Sequence
	}
	if d.State != domain.DeliveryPending {
		return o, nil
	}
	at, _, err := l.config.Rows.Lane(endpoint, d.Payment)
	if err != nil {
		return o, err
	}
	if len(at.Queue) > 0 && at.Queue[0].Event == d.Event {
		next := l.shown(max(at.Due, l.config.Rows.Endpoint(endpoint).OpenUntil))
		o.NextAttemptAt = &next
	}
	return o, nil
}

// answered are the attempts of a delivery with the answers that are known here.
func (l *Lanes) answered(endpoint string, d deliveries.Delivery) []domain.AttemptObject {
	all := append([]domain.AttemptObject{}, d.Attempts...)
	for i := range all {
		all[i].Answer = l.answers.get(answerKey{endpoint, d.Event, d.Total - len(all) + i + 1})
	}
	return all
}

// Health says how deliveries to an endpoint go.
func (l *Lanes) Health(ctx context.Context, endpoint string) (domain.EndpointHealth, error) {
	if err := l.config.Rows.Fresh(ctx); err != nil {
		return domain.EndpointHealth{}, err
	}
	e := l.config.Rows.Endpoint(endpoint)
	h := domain.EndpointHealth{Pending: e.Pending, Undelivered: e.Undelivered}
	shown := func(at domain.Instant) *domain.Instant {
		if at == 0 {
			return nil
		}
		at = l.shown(at)
		return &at
	}
	h.FailingSince = shown(e.FailingSince)
	if at := shown(e.OpenUntil); at != nil && *at > l.wallNow() {
		h.OpenUntil = at
	}
	if e.LastFailure.IsZero() {
		return h, nil
	}
	d, _, err := l.config.Rows.Delivery(endpoint, e.LastFailure) // it may be forgotten
	if all := l.answered(endpoint, d); len(all) > 0 {
		h.LastFailure = &all[len(all)-1]
	}
	return h, err
}
