package delivery

import (
	"context"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
)

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

// request lets a queued delivery be sent now. The rules of its lane hold: where
// something goes before it there, it waits for its turn.
func (t *target) request(a requested) {
	t.mu.Lock()
	if len(t.requested) < maxRequestedWaiting && !slices.Contains(t.requested, a) {
		t.requested = append(t.requested, a)
	}
	t.mu.Unlock()
	t.nudge()
}

// begin is the one way to begin attempts: it records them for lanes that are due, as far
// as the endpoint and the slots have room. The requests are made when that is durable.
func (x *tx) begin(t *target, e projects.Endpoint) error {
	for len(x.begun) < maxAtOnce && x.size < maxNoted {
		c, ok, err := x.candidate(t)
		if !ok || err != nil {
			return err
		}
		began, err := x.start(t, e, c)
		if err != nil {
			return err
		}
		if began {
			t.limiter.AllowN(time.Now(), 1)
		} else {
			t.abandoned(attempt{target: t, requested: c.requested()})
		}
	}
	t.nudge() // there may be more
	return nil
}

// candidate is a lane to begin with, for which a slot is taken.
type candidate struct {
	payment domain.ID
	event   domain.ID // requested; zero: the first in the queue
	granted bool      // need not be due, see breaker
}

func (c candidate) requested() bool { return !c.event.IsZero() }

// candidate chooses what is to begin next and takes a slot for it.
func (x *tx) candidate(t *target) (c candidate, ok bool, err error) {
	if after, read := t.window.read(&t.mu); read {
		keys, err := x.config.Rows.Due(context.WithoutCancel(x.serving), t.id, after, windowSize)
		if err != nil {
			return c, false, err
		}
		t.mu.Lock()
		t.window.refill(keys)
		t.mu.Unlock()
	}
	requested, due, _ := t.room(x.now)
	if requested+due == 0 || x.slots.takeOrWait(t, 1) == 0 {
		return c, false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case requested > 0:
		c.payment, c.event = t.requested[0].payment, t.requested[0].event
		t.requested = t.requested[1:]
		t.requestedUnderWay++
	case len(t.window.keys) > 0:
		c.payment, c.granted = t.window.pop().Payment(), t.breaker.begun()
		t.requests++
	default:
		x.slots.give(t, 1)
		return c, false, nil
	}
	return c, true, nil
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
// from the rows counts as due.
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

// start begins an attempt with the first of a lane that the endpoint still wants. What
// was chosen by hints in memory is decided here.
func (x *tx) start(t *target, e projects.Endpoint, c candidate) (began bool, err error) {
	key := laneKey{t.id, c.payment}
	l, _, err := x.config.Rows.Lane(t.id, c.payment)
	if _, busy := x.underWay[key]; busy || err != nil || len(l.Queue) == 0 {
		return false, err // the end of what is under way offers the lane again
	}
	due := l.Due
	if x.othersMay(&l) {
		due = max(due, x.alone)
	} else if !c.requested() {
		if due, err = x.firstTry(t, &l, due); err != nil {
			return false, err
		}
	}
	if due > x.now && (!c.granted || x.othersMay(&l)) {
		t.offer(deliveries.DueAt(due, c.payment))
		return false, nil
	}
	given := l.Next(x.base)
	if c.requested() && (len(l.Queue) == 0 || l.Queue[0].Event != c.event) {
		t.offer(deliveries.DueAt(due, c.payment))
		return false, nil
	}
	x.taken = append(x.taken, taken{t, deliveries.DueAt(l.Due, c.payment)})
	for len(l.Queue) > 0 {
		first := l.Queue[0]
		d, known, err := x.config.Rows.Delivery(t.id, first.Event)
		if err != nil {
			return false, err
		}
		if known && (first.Requested || d.Kind == domain.KindEndpointTest || e.Wants(d.Kind)) {
			x.note(t, deliveries.Entry{Payment: c.payment, Sequence: first.Sequence, What: deliveries.Begun})
			x.underWay[key] = struct{}{}
			x.begun = append(x.begun, attempt{
				Delivery: d, target: t, endpoint: e, due: l.Due, requested: c.requested(), probe: c.granted,
			})
			return true, nil
		}
		// No longer subscribed to.
		x.note(t, deliveries.Entry{Payment: c.payment, Sequence: first.Sequence, What: deliveries.Cancelled})
		l.Leave(first.Event, l.Due)
		given = append(given, l.Next(x.base)...)
	}
	for _, q := range given {
		x.note(t, deliveries.Entry{Payment: c.payment, Sequence: q.Sequence, What: deliveries.Superseded})
	}
	return false, nil
}

// othersMay reports whether the sender before may have a request of the lane under way.
func (x *tx) othersMay(l *deliveries.Lane) bool {
	return x.config.Shared && l.Begun && x.now < x.alone
}

// firstTry is when a lane is due, if the schedule has a new event wait before its first try.
func (x *tx) firstTry(t *target, l *deliveries.Lane, due domain.Instant) (domain.Instant, error) {
	first := l.Queue[0]
	if x.config.Schedule[0] == 0 || first.Requested {
		return due, nil
	}
	d, _, err := x.config.Rows.Delivery(t.id, first.Event)
	if d.Total > 0 || d.Kind == domain.KindEndpointTest || err != nil {
		return due, err
	}
	return max(due, min(x.clock.of(d.Created), x.now)).Add(x.config.Schedule[0]), nil
}

// attempt is one try of a delivery, recorded in the log.
type attempt struct {
	deliveries.Delivery
	target    *target
	endpoint  projects.Endpoint
	due       domain.Instant
	began     time.Time // when it was to be recorded
	requested bool      // see requested
	probe     bool      // it costs no try
}

func (a attempt) lane() laneKey { return laneKey{a.target.id, a.Payment} }
