package views

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/projections/table"
)

// Deliveries is what became of the webhooks of each endpoint, and what is queued: a fold
// of payments' events, endpoints' events and deliveries.noted.
//
//	webhook_lanes       payment (16), endpoint → deliveries.Lane
//	webhook_due         endpoint, 0, deliveries.DueKey → nothing; lanes with something queued
//	deliveries          event (16), endpoint → deliveries.Delivery
//	deliveries_listed   endpoint, 0, event (16) → its state
//	deliveries_pending  endpoint, 0, event (16) → nothing; those that are pending
//	webhook_endpoints   endpoint → deliveries.Endpoint, in memory too; removed ones stay
//	webhook_state       "state" → deliveries.State
//
// Keys that begin with an id are in the order of time, so that the oldest rows, which
// are forgotten, are found at the beginning.
type Deliveries struct {
	db       *table.DB
	log      Log
	projects *projectsView
	watch    atomic.Pointer[deliveries.Watch]

	lanes   *table.Table[*deliveries.Lane]
	due     *table.Table[string]
	records *table.Table[*deliveries.Delivery]
	listed  *table.Table[string]
	pending *table.Table[string]
	tallies *table.Table[*deliveries.Endpoint]
	states  *table.Table[*deliveries.State]

	endpoints map[string]*deliveries.Endpoint // never changed; guarded by db
	state     deliveries.State                // guarded by db
	draft     draft                           // the fold's own
}

func newDeliveries(db *table.DB, log Log, p *projectsView) *Deliveries {
	v := &Deliveries{
		db: db, log: log, projects: p, endpoints: make(map[string]*deliveries.Endpoint),
		lanes: table.OfStructs[deliveries.Lane](db, "webhook_lanes"),
		due:   newTextTable[string](db, "webhook_due"),

		records: table.OfStructs[deliveries.Delivery](db, "deliveries"),
		listed:  newTextTable[string](db, "deliveries_listed"),
		pending: newTextTable[string](db, "deliveries_pending"),
		tallies: table.OfStructs[deliveries.Endpoint](db, "webhook_endpoints"),
		states:  table.OfStructs[deliveries.State](db, "webhook_state"),
	}
	v.lanes.Cache(1 << 12)
	v.records.Cache(1 << 12)
	return v
}

// load reads the endpoints and the state of an opened file.
func (v *Deliveries) load(ctx context.Context, _ eventstore.Position) error {
	if state, ok, err := v.states.Get(stateKey); err != nil {
		return err
	} else if ok {
		v.state = *state
	}
	return v.tallies.Each(ctx, table.Range{}, math.MaxInt, func(id string, e *deliveries.Endpoint) error {
		v.endpoints[id] = e
		return nil
	})
}

// row is one that an event may change.
type row[V any] struct {
	was *V // nil: there was none
	now *V // nil: there is none any more
}

// draft is what one event changes.
type draft struct {
	*Deliveries
	position eventstore.Position
	at       domain.Instant // of the event's record
	next     deliveries.State
	lane     map[string]*row[deliveries.Lane]
	record   map[string]*row[deliveries.Delivery]
	endpoint map[string]*row[deliveries.Endpoint]
	told     []func(*deliveries.Watch)
}

// prepare works out what an event changes.
func (v *Deliveries) prepare(c *change) error {
	d := &v.draft
	if d.Deliveries == nil {
		*d = draft{
			Deliveries: v, lane: make(map[string]*row[deliveries.Lane]), record: make(map[string]*row[deliveries.Delivery]),
			endpoint: make(map[string]*row[deliveries.Endpoint]),
		}
	}
	clear(d.lane)
	clear(d.record)
	clear(d.endpoint)
	d.position, d.at, d.next, d.told = c.Record.Position, domain.IDTime(c.Record.Commit), v.state, d.told[:0]
	switch e := c.Event.(type) {
	case deliveries.Noted:
		return d.noted(&c.Record, e)
	case installation.LogRestored:
		d.next.Base = uint64(d.position)
	case projects.WebhookEndpointAdded:
		if one := d.tally(e.EndpointID); one.now == nil {
			one.now = &deliveries.Endpoint{Project: c.Record.Stream.ID}
		}
	case projects.WebhookEndpointChanged:
		d.changed(e.EndpointID, false)
	case projects.WebhookEndpointEnabled:
		d.changed(e.EndpointID, true)
	case projects.WebhookEndpointDisabled:
		d.changed(e.EndpointID, true)
	case projects.WebhookEndpointRemoved:
		d.changed(e.EndpointID, true)
		if one := d.tally(e.EndpointID); one.now != nil {
			one.now.Removed = true
		}
	case domain.PaymentEvent:
		return d.payment(c, e)
	}
	return nil
}

// changed tells of an endpoint that is not what it was; calm: it begins without its past
// failures.
func (d *draft) changed(endpoint string, calm bool) {
	if one := d.tally(endpoint); one.now != nil && calm {
		one.now.Calm()
	}
	d.told = append(d.told, func(w *deliveries.Watch) { w.Changed(endpoint) })
}

// payment queues an event for the endpoints that want it.
func (d *draft) payment(c *change, e domain.Event) error {
	p, ok := d.projects.live.at(c.Record.Stream.Project)
	if !ok || len(p.Endpoints) == 0 || c.paymentAfter == nil {
		return nil
	}
	if d.next.Base == 0 && d.position%forgetEvery == 0 {
		if err := d.forget(2*forgetEvery*len(p.Endpoints), true); err != nil {
			return err
		}
	}
	kind, notifies := domain.KindOf(e)
	if !notifies {
		return nil
	}
	for _, to := range p.Endpoints {
		kind, wanted := to.KindFor(kind, c.Record.Sequence)
		if !wanted {
			continue
		}
		l, err := d.laneOf(to.ID, c.paymentAfter.Payment.ID, c.Record.Sequence == 1)
		if err != nil {
			return err
		}
		queued := deliveries.Queued{Sequence: c.Record.Sequence, Event: c.Record.Commit, Position: uint64(d.position), Final: kind.Final()}
		if !l.Enqueue(queued, d.next.Time) {
			continue
		}
		one := &deliveries.Delivery{
			Event: queued.Event, Payment: c.paymentAfter.Payment.ID, Kind: kind, Sequence: queued.Sequence, Position: queued.Position,
			Created: d.at, State: domain.DeliveryPending,
		}
		if to.Disabled != "" && len(l.Queue) == 1 { // else the sender holds them together
			l.Leave(queued.Event, l.Due)
			one.State = domain.DeliveryHeld
		}
		if err := d.put(to.ID, one, true); err != nil {
			return err
		}
	}
	return nil
}

// noted applies an event of a sender, or a request to send.
func (d *draft) noted(r *eventstore.Stored, n deliveries.Noted) error {
	now := max(n.At, d.next.Time)
	if n.At > 0 {
		if n.Begins {
			for id, e := range d.endpoints {
				if back := *e; back.Back(millis(int64(now - d.next.Time))) {
					d.endpoint[id] = &row[deliveries.Endpoint]{e, &back}
				}
			}
			d.next.Base = max(d.next.Base, n.Base)
		}
		d.next.Position, d.next.Sequence, d.next.Time = uint64(r.Position), r.Sequence, now
	}
	for i := range n.Entries {
		to, e, err := n.Entry(i)
		if err != nil || d.tally(to).now == nil {
			d.told = append(d.told, func(w *deliveries.Watch) { w.Unknown(to, uint64(r.Position)) })
			continue
		}
		if err := d.entry(to, e, now); err != nil {
			return err
		}
	}
	if len(n.Entries) == 0 || r.Sequence%forgetAtOnce == 0 {
		return d.forget(forgetAtOnce, true)
	}
	return d.forget(16+2*len(n.Entries), false)
}

// entry applies one entry. One that does not follow from those before it changes nothing.
func (d *draft) entry(endpoint string, e deliveries.Entry, now domain.Instant) error {
	l, err := d.laneOf(endpoint, e.Payment, false)
	if err != nil {
		return err
	}
	switch e.What {
	case deliveries.Tested:
		queued := deliveries.Queued{Sequence: 1, Event: e.Payment, Final: true}
		if l.Newest > 0 || !l.Enqueue(queued, now) {
			return nil
		}
		d.requested(endpoint, e.Payment, e.Payment)
		return d.put(endpoint, &deliveries.Delivery{
			Event: e.Payment, Payment: e.Payment, Kind: domain.KindEndpointTest, Sequence: 1, Created: d.at, State: domain.DeliveryPending,
		}, false)
	case deliveries.Requested:
		return d.again(endpoint, l, e, now)
	}
	at := slices.IndexFunc(l.Queue, func(q deliveries.Queued) bool { return q.Sequence == e.Sequence })
	if at < 0 {
		l.Begun = l.Begun && !e.What.Ends()
		return nil
	}
	event := l.Queue[at].Event
	switch {
	case e.What == deliveries.Begun:
		for _, before := range l.Queue[:at] {
			if err := d.settle(endpoint, before.Event, superseded(before)); err != nil {
				return err
			}
		}
		l.Queue = l.Queue[at:]
		l.Start()
		return d.change(endpoint, event, func(one *deliveries.Delivery) { one.Begun = d.at })
	case e.What.Ends():
		return d.ended(endpoint, l, event, e, now)
	}
	state := domain.DeliveryHeld
	switch e.What {
	case deliveries.Cancelled:
		state = domain.DeliveryCancelled
	case deliveries.Superseded:
		state = superseded(l.Queue[at])
	}
	l.Leave(event, l.Due)
	return d.settle(endpoint, event, state)
}

// superseded is the state of a delivery that gives way to a later one.
func superseded(q deliveries.Queued) domain.DeliveryState {
	if q.Final {
		return domain.DeliveryUnconfirmed
	}
	return domain.DeliverySuperseded
}

// ended applies the end of an attempt.
func (d *draft) ended(endpoint string, l *deliveries.Lane, event domain.ID, e deliveries.Entry, now domain.Instant) error {
	failed := e.What == deliveries.Failed || e.What == deliveries.Probed
	if l.Again && (failed || e.What == deliveries.GivenUp) { // it is none of the tries that were asked for
		failed, e.What, e.Wait = true, deliveries.Probed, 0
		d.requested(endpoint, e.Payment, event)
	}
	l.Begun, l.Again = false, false
	if failed {
		l.Retry(now, now.Add(millis(e.Wait)))
	} else {
		l.Leave(event, now)
	}
	of := d.tally(endpoint).now
	of.End(e, event, now)
	if p, ok := d.projects.live.at(of.Project); ok {
		if to, there := p.Endpoint(endpoint); !there || to.Disabled != "" { // meanwhile: it gets nothing more
			of.Calm()
		}
	}
	return d.change(endpoint, event, func(one *deliveries.Delivery) { one.End(e) })
}

// again queues an event again, if its lane allows it.
func (d *draft) again(endpoint string, l *deliveries.Lane, e deliveries.Entry, now domain.Instant) error {
	queued := deliveries.Queued{Sequence: e.Sequence, Event: e.Event, Position: e.Position, Final: e.Kind.Final(), Requested: true}
	if l.Newest == 0 {
		l.Enqueue(queued, now)
	} else if !l.Resend(queued, now) {
		return nil
	}
	d.requested(endpoint, e.Payment, e.Event)
	one, err := d.recordOf(endpoint, e.Event, false)
	if err != nil {
		return err
	}
	if one.now == nil {
		return d.put(endpoint, &deliveries.Delivery{
			Event: e.Event, Payment: e.Payment, Kind: e.Kind, Sequence: e.Sequence, Position: e.Position, Created: d.at, State: domain.DeliveryPending,
		}, true)
	}
	return d.change(endpoint, e.Event, func(one *deliveries.Delivery) { one.State, one.Tries = domain.DeliveryPending, 0 })
}

func (d *draft) requested(endpoint string, payment, event domain.ID) {
	d.told = append(d.told, func(w *deliveries.Watch) { w.Requested(d.endpoints[endpoint].Project, endpoint, payment, event) })
}

func (d *draft) settle(endpoint string, event domain.ID, state domain.DeliveryState) error {
	return d.change(endpoint, event, func(one *deliveries.Delivery) { one.State = state })
}

// change changes a delivery that is known.
func (d *draft) change(endpoint string, event domain.ID, fn func(*deliveries.Delivery)) error {
	r, err := d.recordOf(endpoint, event, false)
	if err != nil || r.now == nil {
		return err
	}
	before := r.now.State
	fn(r.now)
	r.now.Touched = d.at
	d.tally(endpoint).now.Move(before, r.now.State)
	return nil
}

// put adds a delivery, unless it is known; fresh: it cannot be.
func (d *draft) put(endpoint string, one *deliveries.Delivery, fresh bool) error {
	r, err := d.recordOf(endpoint, one.Event, fresh)
	if err != nil || r.now != nil {
		return err
	}
	one.Touched = d.at
	r.now = one
	d.tally(endpoint).now.Move("", one.State)
	return nil
}

func laneKey(endpoint string, payment domain.ID) string   { return idKey(payment) + endpoint }
func deliveryKey(endpoint string, event domain.ID) string { return idKey(event) + endpoint }
func listedKey(endpoint string, event domain.ID) string   { return endpoint + "\x00" + idKey(event) }

func queuedKey(endpoint string, at deliveries.DueKey) string {
	return endpoint + "\x00" + string(at[:])
}

// laneOf is the lane as the event leaves it, to be changed; fresh: there was none.
func (d *draft) laneOf(endpoint string, payment domain.ID, fresh bool) (*deliveries.Lane, error) {
	r, err := rowOf(d.lane, d.lanes, laneKey(endpoint, payment), fresh, func(l *deliveries.Lane) { l.Queue = slices.Clone(l.Queue) })
	if err != nil {
		return nil, err
	}
	if r.now == nil {
		r.now = new(deliveries.Lane)
	}
	r.now.Touched = d.at
	return r.now, nil
}

func (d *draft) recordOf(endpoint string, event domain.ID, fresh bool) (*row[deliveries.Delivery], error) {
	return rowOf(d.record, d.records, deliveryKey(endpoint, event), fresh, func(one *deliveries.Delivery) { one.Attempts = slices.Clip(one.Attempts) })
}

func rowOf[V any](in map[string]*row[V], t *table.Table[*V], key string, fresh bool, own func(*V)) (*row[V], error) {
	if r := in[key]; r != nil {
		return r, nil
	}
	r := new(row[V])
	if !fresh {
		was, ok, err := t.Get(key)
		if err != nil {
			return nil, err
		}
		if ok {
			now := *was
			own(&now)
			r.was, r.now = was, &now
		}
	}
	in[key] = r
	return r, nil
}

// tally is what is counted of an endpoint, to be changed.
func (d *draft) tally(endpoint string) *row[deliveries.Endpoint] {
	r := d.endpoint[endpoint]
	if r == nil {
		r = new(row[deliveries.Endpoint])
		if e := d.endpoints[endpoint]; e != nil {
			now := *e
			r.was, r.now = e, &now
		}
		d.endpoint[endpoint] = r
	}
	return r
}

// fold changes the rows as prepare worked out. The DB is locked.
func (v *Deliveries) fold(*change) {
	d := &v.draft
	for key, r := range d.lane {
		if r.was == nil && r.now.Newest == 0 {
			continue // an entry that does not follow from those before it
		}
		v.foldLane(key[idSize:], domain.ID([]byte(key[:idSize])), key, r)
	}
	for key, r := range d.record {
		endpoint, event := key[idSize:], domain.ID([]byte(key[:idSize]))
		store(v.records, key, r)
		var was, now *string
		if r.was != nil {
			was = (*string)(&r.was.State)
		}
		if r.now != nil {
			now = (*string)(&r.now.State)
		}
		set(v.listed, listedKey(endpoint, event), was, now)
		pending := string(domain.DeliveryPending)
		set(v.pending, listedKey(endpoint, event), held(was != nil && *was == pending), held(now != nil && *now == pending))
	}
	for id, r := range d.endpoint {
		if r.now != nil && (r.was == nil || *r.was != *r.now) {
			store(v.tallies, id, r)
			v.endpoints[id] = r.now
		}
	}
	if d.next != v.state {
		was, now := &v.state, d.next
		if v.state == (deliveries.State{}) {
			was = nil
		}
		store(v.states, stateKey, &row[deliveries.State]{was, &now})
		v.state = now
	}
}

func (v *Deliveries) foldLane(endpoint string, payment domain.ID, key string, r *row[deliveries.Lane]) {
	store(v.lanes, key, r)
	was, waited := queuedAt(endpoint, payment, r.was)
	now, waits := queuedAt(endpoint, payment, r.now)
	if waited && (!waits || was != now) {
		v.due.Delete(was)
	}
	if waits && (!waited || was != now) {
		v.due.Insert(now, "")
	}
	one := v.draft.tally(endpoint).now
	if one == nil {
		return
	}
	if waits && !waited {
		one.Lanes++
	} else if waited && !waits {
		one.Lanes--
	}
	if waits && !r.now.Begun {
		at := deliveries.DueAt(r.now.Due, payment)
		v.draft.told = append(v.draft.told, func(w *deliveries.Watch) { w.Queued(one.Project, endpoint, at) })
	}
}

func queuedAt(endpoint string, payment domain.ID, l *deliveries.Lane) (key string, waits bool) {
	if l == nil || len(l.Queue) == 0 {
		return "", false
	}
	return queuedKey(endpoint, deliveries.DueAt(l.Due, payment)), true
}

// store writes a row as it is now.
func store[V any](t *table.Table[*V], key string, r *row[V]) {
	switch {
	case r.now == nil && r.was != nil:
		t.Delete(key)
	case r.now != nil && r.was != nil:
		t.Replace(key, r.now)
	case r.now != nil:
		t.Insert(key, r.now)
	}
}

// set writes a text as it is now; nil: there is none.
func set(t *table.Table[string], key string, was, now *string) {
	switch {
	case was == nil && now == nil:
	case was == nil:
		t.Insert(key, *now)
	case now == nil:
		t.Delete(key)
	case *was != *now:
		t.Replace(key, *now)
	}
}

func held(yes bool) *string {
	if !yes {
		return nil
	}
	return new(string)
}

// announce tells the sender what was folded. The DB is not locked.
func (v *Deliveries) announce() {
	if w := v.watch.Load(); w != nil {
		for _, tell := range v.draft.told {
			tell(w)
		}
	}
}

// forgetEvery is after how many positions of payments the oldest rows are looked at while
// no sender has begun in this log, for each endpoint more than so many events add: it may be
// from before these events.
const forgetEvery = 64

// forgetAtOnce is how many of the oldest rows an event without entries looks at: a sender
// that has nothing else to record makes some when there are old ones.
const forgetAtOnce = 1 << 10

// keepLanes is longer than deliveries are kept: the marks outlive them and say what can be
// sent again.
const keepLanes = domain.KeepDeliveries + 24*time.Hour

// forget looks at the n oldest rows that follow those seen last, and drops the outdated:
// deliveries that were settled, and idle lanes. Before a sender has begun in this log what
// is as old and was never sent goes too: it may have been settled long ago. With again, the
// next time begins with the oldest when no more followed: rarely, since it has to step over
// all rows that were dropped and are not out of the file yet.
func (d *draft) forget(n int, again bool) error {
	horizon := d.at.Add(-domain.KeepDeliveries)
	err := old(&d.next.DeliveriesSeen, d.records, n, again, horizon, func(key string) error {
		endpoint, event := key[idSize:], domain.ID([]byte(key[:idSize]))
		r, err := d.recordOf(endpoint, event, false)
		if err != nil || r.now == nil || r.now.State == domain.DeliveryPending || r.now.Touched >= horizon {
			return err
		}
		d.drop(endpoint, r)
		return nil
	})
	if err != nil {
		return err
	}
	horizon = d.at.Add(-keepLanes)
	return old(&d.next.LanesSeen, d.lanes, n, again, horizon, func(key string) error {
		endpoint := key[idSize:]
		r, err := rowOf(d.lane, d.lanes, key, false, func(l *deliveries.Lane) { l.Queue = slices.Clone(l.Queue) })
		if err != nil || r.now == nil || r.now.Touched >= horizon || len(r.now.Queue) > 0 && d.next.Base != 0 {
			return err
		}
		for _, q := range r.now.Queue {
			one, err := d.recordOf(endpoint, q.Event, false)
			if err != nil {
				return err
			}
			d.drop(endpoint, one)
		}
		r.now = nil
		return nil
	})
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (d *draft) drop(endpoint string, r *row[deliveries.Delivery]) {
	if one := d.tally(endpoint).now; one != nil && r.now != nil {
		one.Move(r.now.State, "")
	}
	r.now = nil
}

// old calls fn for the first n rows from seen on whose id is from before the horizon. Which
// they are follows from the log alone, not from what the file holds already.
func old[V any](seen *string, t *table.Table[V], n int, again bool, horizon domain.Instant, fn func(key string) error) error {
	rows, err := t.First(context.Background(), table.Range{Lo: *seen, Hi: idKey(firstID(horizon))}, false, n) //nolint:forbidigo // a fold is not given up
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := fn(r.Key); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		*seen = rows[len(rows)-1].Key + "\x00"
	}
	if again && len(rows) < n {
		*seen = ""
	}
	return nil
}

// stateKey is the key of the one row of its table.
const stateKey = "state"
