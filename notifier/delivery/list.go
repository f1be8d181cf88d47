package delivery

import (
	"context"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
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
	if err != nil {
		return domain.DeliveryPage{}, err
	}
	var of []*target
	switch {
	case f.Endpoint == "":
		of = slices.DeleteFunc(l.all(), func(t *target) bool { return f.Project != "" && t.project != f.Project })
	case l.known(f.Endpoint) != nil:
		of = []*target{l.known(f.Endpoint)}
	}
	var events map[string][]domain.ID
	if f.Event.IsZero() && !f.Payment.IsZero() {
		if events, err = l.eventsOf(ctx, of, f.Payment); err != nil {
			return domain.DeliveryPage{}, err
		}
	}
	var page domain.DeliveryPage
	err = l.file.View(func(x store.Tables) (err error) {
		switch {
		case !f.Event.IsZero() || !f.Payment.IsZero():
			page, err = l.byEvents(x, of, events, f, before)
		case len(of) == 1:
			page, err = l.byEndpoint(x, of[0], f, before)
		}
		return err
	})
	return page, err
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

// byEvents lists the deliveries of the filter's event, or of a payment whose
// events are given by project.
func (l *Lanes) byEvents(x store.Tables, of []*target, events map[string][]domain.ID, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	for _, t := range of {
		among := events[t.project]
		if !f.Event.IsZero() {
			among = []domain.ID{f.Event}
		}
		for _, event := range among {
			d, ok, err := x.Record(t.number, event)
			if err != nil {
				return page, err
			}
			if !ok || !matches(d, f) || !before.follows(cursor{event, t.id}) {
				continue
			}
			object, err := l.object(x, t, d)
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

// eventsOf lists the events of a payment as the log has them, by the projects
// of the endpoints.
func (l *Lanes) eventsOf(ctx context.Context, of []*target, payment domain.ID) (map[string][]domain.ID, error) {
	events := make(map[string][]domain.ID)
	for _, t := range of {
		if _, read := events[t.project]; read {
			continue
		}
		events[t.project] = nil
		for r, err := range l.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(t.project, payment)) {
			if err != nil {
				return nil, err
			}
			events[t.project] = append(events[t.project], r.Commit)
		}
	}
	return events, nil
}

func matches(d store.Record, f domain.DeliveryFilter) bool {
	return (f.Event.IsZero() || d.Event == f.Event) && (f.State == "" || d.State == f.State) &&
		(f.Payment.IsZero() || d.Payment == f.Payment && d.Kind != domain.KindEndpointTest)
}

// byEndpoint lists the deliveries to one endpoint.
func (l *Lanes) byEndpoint(x store.Tables, t *target, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	looked := 0
	for d, err := range x.NewestFirst(t.number, f.State, before.event) {
		if err != nil || len(page.Deliveries) == f.Limit || looked == maxLooked {
			return page, err
		}
		looked++
		page.After = cursor{d.Event, t.id}.String()
		if !matches(d, f) {
			continue
		}
		object, err := l.object(x, t, d)
		if err != nil {
			return page, err
		}
		page.Deliveries = append(page.Deliveries, object)
	}
	page.After = ""
	return page, nil
}

// object is a delivery as merchants see it.
func (l *Lanes) object(x store.Tables, t *target, d store.Record) (domain.DeliveryObject, error) {
	o := domain.DeliveryObject{
		EventID: d.Event, EndpointID: t.id, Type: d.Kind, Position: uint64(d.Position), State: d.State,
		CreatedAt: d.Created, Attempts: d.Attempts,
	}
	if o.Attempts == nil {
		o.Attempts = []domain.AttemptObject{}
	}
	if d.Kind != domain.KindEndpointTest {
		o.PaymentID, o.Sequence = &d.Payment, d.Sequence
	}
	if d.State != domain.DeliveryPending {
		return o, nil
	}
	at, err := x.Lane(t.number, d.Payment)
	if err != nil {
		return o, err
	}
	if len(at.Line) > 0 && at.Line[0].Event == d.Event {
		next := l.clock.shown(max(at.Due, t.open(l.clock.now())))
		o.NextAttemptAt = &next
	}
	return o, nil
}

// Open counts the notifications in line and those undelivered, of all endpoints.
func (l *Lanes) Open() (pending, undelivered int) {
	for _, t := range l.all() {
		n := t.counted()
		pending, undelivered = pending+n.Pending, undelivered+n.Undelivered
	}
	return pending, undelivered
}

// Health says how deliveries to an endpoint go.
func (l *Lanes) Health(ctx context.Context, endpoint string) (domain.EndpointHealth, error) {
	if err := ctx.Err(); err != nil {
		return domain.EndpointHealth{}, err
	}
	t := l.known(endpoint)
	if t == nil {
		return domain.EndpointHealth{}, nil
	}
	n := t.counted()
	h := domain.EndpointHealth{Pending: n.Pending, Undelivered: n.Undelivered}
	shown := func(at domain.Instant) *domain.Instant {
		if at == 0 {
			return nil
		}
		at = l.clock.shown(at)
		return &at
	}
	h.FailingSince, h.OpenUntil = shown(n.FailingSince), shown(t.open(l.clock.now()))
	if n.LastFailure.IsZero() {
		return h, nil
	}
	err := l.file.View(func(x store.Tables) error {
		d, ok, err := x.Record(t.number, n.LastFailure) // it may be pruned
		if ok && len(d.Attempts) > 0 {
			h.LastFailure = &d.Attempts[len(d.Attempts)-1]
		}
		return err
	})
	return h, err
}
