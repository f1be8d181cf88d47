package delivery

import (
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/notifier/delivery/store"
)

// maxBegun bounds the attempts that begin in one transaction. The rest follow
// in the next ones.
const maxBegun = 256

// Requested deliveries, tests and resends, are begun before those that are due,
// also while the circuit breaker is open, and in places of their own: they are no
// probes and delay nothing else. maxRequestedUnderWay of an endpoint are under way
// at the same time, and maxRequestedWaiting more wait for that in memory. Those
// beyond are sent when they are due.
const (
	maxRequestedUnderWay = 4
	maxRequestedWaiting  = 64
)

// requested is such a delivery.
type requested struct{ payment, event domain.ID }

// request lets a delivery in line be sent now. The rules of its lane hold: where
// something goes before it there, it waits for its turn.
func (t *target) request(a requested) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.requested) < maxRequestedWaiting && !slices.Contains(t.requested, a) {
		t.requested = append(t.requested, a)
	}
}

// begin is the one way to begin attempts. It raises the high-water marks of the
// lanes that are due and for which the endpoint and the slots have room; the
// requests are made when this transaction is synced. Whatever makes lanes due
// may call it in the same transaction, if it knows the endpoint as it is now;
// otherwise the endpoint's own goroutine does.
func (x *tx) begin(t *target, e projects.Endpoint) error {
	if !x.sending {
		return nil
	}
	for len(x.begun) < maxBegun {
		c, ok := x.candidate(t)
		if !ok {
			return nil
		}
		l, err := x.Lane(t.number, c.payment)
		if err != nil {
			return err
		}
		// The candidate was chosen by hints in memory.
		allowed := len(l.Line) > 0 && !x.inFlight(l) && (l.Due <= x.Now || c.granted)
		if allowed && c.requested() {
			rest := l.Lane
			rest.Next()
			allowed = len(rest.Line) > 0 && rest.Line[0].Event == c.event
		}
		began := false
		if allowed {
			if began, err = x.start(t, e, l, c); err != nil {
				return err
			}
		}
		if began {
			t.limiter.AllowN(time.Now(), 1)
			continue
		}
		t.mu.Lock()
		if c.requested() {
			t.requestedUnderWay--
		} else {
			t.requests--
			t.breaker.abandoned()
		}
		t.mu.Unlock()
		x.lanes.slots.give(t, 1)
	}
	t.nudge() // there may be more
	return nil
}

// candidate is a lane to begin with, for which a slot is taken.
type candidate struct {
	payment domain.ID
	event   domain.ID // requested; zero: the first in line
	granted bool      // need not be due, see breaker
}

func (c candidate) requested() bool { return !c.event.IsZero() }

// candidate chooses what is to begin next and takes a slot for it.
func (x *tx) candidate(t *target) (c candidate, ok bool) {
	if len(t.window.keys) == 0 && !t.window.all {
		keys := x.DueAfter(t.number, t.window.end, windowSize)
		t.mu.Lock()
		t.window.refill(keys)
		t.mu.Unlock()
	}
	requested, due, _ := t.room(x.Now)
	if requested+due == 0 || x.lanes.slots.takeOrWait(t, 1) == 0 {
		return c, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if requested > 0 {
		c.payment, c.event = t.requested[0].payment, t.requested[0].event
		t.requested = t.requested[1:]
		t.requestedUnderWay++
		return c, true
	}
	c.payment, c.granted = t.window.pop().Payment(), t.breaker.begun()
	t.requests++
	return c, true
}

// room says how many requested deliveries may begin now, and how many that are
// due, slots apart. If none may, wait is how long that stays so
// unless the endpoint is nudged.
func (t *target) room(now domain.Instant) (requested, due int, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving {
		return 0, 0, checkEvery
	}
	if requested = min(len(t.requested), maxRequestedUnderWay-t.requestedUnderWay); requested <= 0 {
		requested = 0
		if due, wait = t.dueRoom(now); due == 0 {
			return 0, 0, wait
		}
	}
	if tokens := t.limiter.TokensAt(time.Now()); tokens < 1 {
		return 0, 0, max(time.Duration((1-tokens)/float64(t.limiter.Limit())*float64(time.Second)), time.Millisecond)
	}
	return requested, due, 0
}

// dueRoom is room for what is due. t.mu is held. A window that has to be read
// from the file counts as due.
func (t *target) dueRoom(now domain.Instant) (n int, wait time.Duration) {
	w := &t.window
	switch {
	case len(w.keys) == 0 && w.all:
		return 0, checkEvery
	case len(w.keys) > 0 && w.keys[0].At() > now && !t.breaker.granted:
		return 0, min(until(w.keys[0].At(), now), checkEvery)
	}
	if n = t.breaker.mayBegin(now, t.limits.Concurrency-t.requests); n > 0 {
		return n, 0
	}
	if open := t.breaker.open(now); open != 0 {
		return 0, min(until(open, now), checkEvery)
	}
	return 0, checkEvery // the end of an attempt nudges
}

// start takes the first of a lane that the endpoint still wants and raises the
// lane's mark for it.
func (x *tx) start(t *target, e projects.Endpoint, l *store.LaneAt, c candidate) (began bool, err error) {
	for _, p := range l.Next() {
		if err := x.settle(t, p.Event, domain.DeliverySuperseded); err != nil {
			return false, err
		}
	}
	for len(l.Line) > 0 && !began {
		d, err := x.Pending(t.number, l.Line[0].Event)
		if err != nil {
			return false, err
		}
		if began = l.Line[0].Requested || d.Kind == domain.KindEndpointTest || e.Wants(d.Kind); began {
			l.Start()
			x.lanes.underWay[l.Key()] = true
			x.begun = append(x.begun, attempt{
				Record: d, target: t, endpoint: e, number: d.Total + 1, requested: c.requested(), probe: c.granted,
			})
			break
		}
		// No longer subscribed to.
		l.Leave(d.Event, l.Due)
		if err := x.settle(t, d.Event, domain.DeliveryCancelled); err != nil {
			return false, err
		}
	}
	x.save(t, l)
	return began, nil
}

// attempt is one try of a delivery, allowed by the file.
type attempt struct {
	store.Record
	target    *target
	endpoint  projects.Endpoint
	number    int  // from 1
	requested bool // see requested
	probe     bool // it costs no try
}
