package delivery

import (
	"bytes"
	"context"
	"slices"
	"strings"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// Of a list: how many deliveries a page has at most and if the filter does not
// say, and how many are looked at for it. A page can therefore end early, and
// is empty in the extreme; After says where the next begins.
const (
	maxPage     = 1000
	defaultPage = 100
	maxLooked   = 20_000
)

// Deliveries lists deliveries by event, the newest first. Of those of one
// payment or event, all endpoints are seen when the filter names none. Errors:
// *domain.Refusal with InvalidCursor for an After that is none of ours.
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
	err = l.view(func(x tables) (err error) {
		switch {
		case !f.Event.IsZero() || !f.Payment.IsZero():
			page, err = l.few(x, of, events, f, before)
		case len(of) == 1:
			page, err = l.many(x, of[0], f, before)
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

// few lists the deliveries of an event, or of a payment, whose events come by
// project.
func (l *Lanes) few(x tables, of []*target, events map[string][]domain.ID, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	for _, t := range of {
		among := events[t.project]
		if !f.Event.IsZero() {
			among = []domain.ID{f.Event}
		}
		for _, event := range among {
			d, ok, err := x.record(t, event)
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

func matches(d record, f domain.DeliveryFilter) bool {
	return (f.Event.IsZero() || d.event == f.Event) && (f.State == "" || d.state == f.State) &&
		(f.Payment.IsZero() || d.payment == f.Payment && d.kind != domain.KindEndpointTest)
}

// many lists the deliveries to one endpoint from all the tables that can hold
// what is asked for, which are read side by side.
func (l *Lanes) many(x tables, t *target, f domain.DeliveryFilter, before cursor) (domain.DeliveryPage, error) {
	var page domain.DeliveryPage
	in := []*bbolt.Bucket{x.pending, x.undelivered, x.settled}
	if f.State != "" {
		in = []*bbolt.Bucket{x.of(f.State)}
	}
	var open []*backward
	for _, b := range in {
		if c := newBackward(b, t, before.event); c.key != nil {
			open = append(open, c)
		}
	}
	for looked := 0; len(open) > 0; looked++ {
		newest := slices.MaxFunc(open, func(a, b *backward) int { return bytes.Compare(a.key, b.key) })
		event := domain.ID(newest.key[4:])
		if len(page.Deliveries) == f.Limit || looked == maxLooked {
			return page, nil
		}
		d, err := parseRecord(event, newest.key, newest.value)
		if err != nil {
			return page, err
		}
		page.After = cursor{event, t.id}.String()
		if matches(d, f) {
			object, err := l.object(x, t, d)
			if err != nil {
				return page, err
			}
			page.Deliveries = append(page.Deliveries, object)
		}
		if !newest.next() {
			open = slices.DeleteFunc(open, func(c *backward) bool { return c == newest })
		}
	}
	page.After = ""
	return page, nil
}

// backward goes through an endpoint's records of one table, newest first.
type backward struct {
	cursor     *bbolt.Cursor
	prefix     []byte
	key, value []byte // nil at the end
}

// newBackward begins below an event; the zero id: at the newest.
func newBackward(in *bbolt.Bucket, t *target, before domain.ID) *backward {
	from := t.keyOf(before)
	if before.IsZero() {
		from = (&target{number: t.number + 1}).key()
	}
	c := &backward{cursor: in.Cursor(), prefix: t.key()}
	if k, _ := c.cursor.Seek(from); k == nil {
		c.at(c.cursor.Last())
	} else {
		c.next()
	}
	return c
}

func (c *backward) next() bool {
	c.at(c.cursor.Prev())
	return c.key != nil
}

func (c *backward) at(key, value []byte) {
	if c.key, c.value = key, value; !bytes.HasPrefix(key, c.prefix) {
		c.key, c.value = nil, nil
	}
}

// idsFrom lists up to n of an endpoint's ids in a table, from one on.
func idsFrom(in *bbolt.Bucket, t *target, from domain.ID, n int) []domain.ID {
	var ids []domain.ID
	prefix := t.key()
	c := in.Cursor()
	for k, _ := c.Seek(t.keyOf(from)); bytes.HasPrefix(k, prefix) && len(ids) < n; k, _ = c.Next() {
		ids = append(ids, domain.ID(k[4:]))
	}
	return ids
}

// object is a delivery as merchants see it.
func (l *Lanes) object(x tables, t *target, d record) (domain.DeliveryObject, error) {
	o := domain.DeliveryObject{
		EventID: d.event, EndpointID: t.id, Type: d.kind, Position: uint64(d.position), State: d.state,
		CreatedAt: d.created, Attempts: d.attempts,
	}
	if o.Attempts == nil {
		o.Attempts = []domain.AttemptObject{}
	}
	if d.kind != domain.KindEndpointTest {
		o.PaymentID, o.Sequence = &d.payment, d.sequence
	}
	if d.state != domain.DeliveryPending {
		return o, nil
	}
	at, err := x.laneOf(t, d.payment)
	if err != nil {
		return o, err
	}
	if len(at.line) > 0 && at.line[0].event == d.event {
		next := l.clock.shown(max(at.due, t.open(l.clock.now())))
		o.NextAttemptAt = &next
	}
	return o, nil
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
	h := domain.EndpointHealth{Pending: n.pending, Undelivered: n.undelivered}
	shown := func(at domain.Instant) *domain.Instant {
		if at == 0 {
			return nil
		}
		at = l.clock.shown(at)
		return &at
	}
	h.FailingSince, h.OpenUntil = shown(n.failingSince), shown(t.open(l.clock.now()))
	return h, nil
}
