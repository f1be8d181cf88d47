package delivery

import (
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/webhook"
)

// enqueueOp adds events to their lanes and notes how far the fan-out got.
type enqueueOp struct {
	upTo      eventstore.Position
	events    []Event
	endpoints map[string]domain.Endpoint // as they are now, those that attempts may begin with
	busy      bool                       // the writer is

	listed int // as unconfirmed
}

// supersedeDelay is how long the first try of an intermediate event waits while
// the writer is busy: it is likely to be superseded meanwhile, which spares the
// machine an attempt.
const supersedeDelay = 50 * time.Millisecond

func (o *enqueueOp) apply(x *tx) error {
	after := positionIn(x.meta, keyAfter)
	var to []*target
	seen := make(map[*target]bool)
	for _, e := range o.events {
		t, err := x.target(e.Project, e.Endpoint)
		if err != nil {
			return err
		}
		if !seen[t] {
			seen[t] = true
			to = append(to, t)
		}
		switch {
		case e.Unconfirmed:
			err = o.list(x, t, e)
		case o.busy && !e.Kind.Final():
			err = x.enqueue(t, e, e.Position > after, x.lanes.firstTry(x.now).Add(supersedeDelay))
		default:
			err = x.enqueue(t, e, e.Position > after, x.lanes.firstTry(x.now))
		}
		if err != nil {
			return err
		}
	}
	// Only now, when what the events of one payment supersede is known.
	for _, t := range to {
		if e, ok := o.endpoints[t.id]; ok {
			if err := x.begin(t, e); err != nil {
				return err
			}
		}
	}
	if o.upTo > after {
		return putNumber(x.meta, keyAfter, uint64(o.upTo))
	}
	return nil
}

// enqueue adds an event to its lane. A fresh one was never recorded.
func (x *tx) enqueue(t *target, e Event, fresh bool, due domain.Instant) error {
	l, err := x.laneOf(t, e.Payment)
	if err != nil || !l.enqueue(place{sequence: e.Sequence, event: e.ID, final: e.Kind.Final()}, due) {
		return err
	}
	var before record
	if !fresh {
		// One that is recorded was in a lane that is forgotten by now.
		if before, _, err = x.record(t, e.ID); err != nil {
			return err
		}
	}
	d := x.newRecord(e, domain.DeliveryPending)
	d.total, d.attempts = before.total, before.attempts
	x.put(t, d, before.state)
	x.save(l)
	return nil
}

func (x *tx) newRecord(e Event, s domain.DeliveryState) record {
	return record{
		event: e.ID, payment: e.Payment, kind: e.Kind, sequence: e.Sequence, position: e.Position,
		state: s, render: webhook.Render, created: x.lanes.wallNow(),
	}
}

// list records an outcome that is not sent, unless it is recorded already.
func (o *enqueueOp) list(x *tx, t *target, e Event) error {
	_, known, err := x.record(t, e.ID)
	if known || err != nil {
		return err
	}
	o.listed++
	x.put(t, x.newRecord(e, domain.DeliveryUnconfirmed), "")
	return nil
}

// settleOp records how an attempt ended.
type settleOp struct {
	attempt attempt
	outcome outcome

	state      domain.DeliveryState // after it
	failingFor time.Duration
	notice     notice
}

// maxAttempts bounds the attempts kept of one delivery.
const maxAttempts = 64

func (o *settleOp) apply(x *tx) error {
	l, err := x.laneOf(o.attempt.target, o.attempt.payment)
	if err != nil {
		return err
	}
	delete(x.lanes.flying, flight(l.key))
	d, ok, err := x.record(o.attempt.target, o.attempt.event)
	if err != nil {
		return err
	}
	o.judge(x)
	if !ok || d.state != domain.DeliveryPending {
		x.save(l) // settled meanwhile by somebody else
		return nil
	}
	d.total++
	d.tries += one(!o.attempt.granted)
	d.attempts = append(d.attempts, o.outcome.shown())
	if n := len(d.attempts) - maxAttempts; n > 0 {
		d.attempts = d.attempts[n:]
	}
	wait, more := x.lanes.config.Schedule.Next(d.tries, x.lanes.config.Random(), o.outcome.RetryAfter)
	switch {
	case o.outcome.Delivered:
		d.state = domain.DeliveryDelivered
	case o.outcome.Refused:
		d.state = domain.DeliveryParked
	case o.outcome.Gone:
		d.state = domain.DeliveryHeld
	case !more:
		d.state = domain.DeliveryGivenUp
	}
	switch o.state = d.state; {
	case d.state == domain.DeliveryPending && o.attempt.granted:
		l.retry(x.now, max(l.due, x.now.Add(o.outcome.RetryAfter)))
	case d.state == domain.DeliveryPending:
		l.retry(x.now, x.now.Add(wait))
	default:
		l.leave(d.event, x.now)
	}
	x.save(l)
	x.put(o.attempt.target, d, domain.DeliveryPending)
	return nil
}

// judge lets the outcome speak for the whole endpoint.
func (o *settleOp) judge(x *tx) {
	to := o.attempt.target
	o.noteRefused()
	if !o.outcome.tells() {
		if !o.attempt.asked {
			to.passed()
		}
		return
	}
	now := x.now
	x.count(to, func(t *tally) {
		if o.outcome.Delivered {
			t.calm()
		} else {
			t.failures++
			if t.failingSince == 0 {
				t.failingSince = now
			}
		}
		o.failingFor = t.failingFor(now)
		to.leaving = to.leaving || o.outcome.Gone
		was := to.breaker.until != 0
		to.breaker.ended(now, t.failures, x.lanes.config.Random(), o.attempt.asked)
		switch is := to.breaker.until != 0; {
		case is && !was:
			o.notice = noticePaused
		case was && !is:
			o.notice = noticeResumed
		}
	})
}

// noteRefused notes whether the endpoint may be called.
func (o *settleOp) noteRefused() {
	t := o.attempt.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.outcome.Refused && !t.refused {
		o.notice = noticeRefused
	}
	t.refused = o.outcome.Refused
}

// holdOp takes the deliveries of an endpoint that gets nothing out of their
// lanes, some lanes at a time. Attempts under way end by themselves.
type holdOp struct {
	target *target
	state  domain.DeliveryState
	after  dueKey // of the lanes that were seen
	more   bool
}

const holdAtOnce = 256

func (o *holdOp) apply(x *tx) error {
	keys := x.dueAfter(o.target, o.after, holdAtOnce)
	for _, k := range keys {
		l, err := x.laneOf(o.target, k.payment())
		if err != nil {
			return err
		}
		kept := 0
		if x.inFlight(l) {
			kept = min(1, len(l.line))
		}
		for _, p := range l.line[kept:] {
			if err := x.settle(o.target, p.event, o.state); err != nil {
				return err
			}
		}
		l.line = l.line[:kept]
		x.save(l)
		o.after = k
	}
	o.more = len(keys) == holdAtOnce
	if !o.more {
		// Whoever is let in again begins anew.
		x.count(o.target, func(t *tally) {
			t.calm()
			o.target.breaker = breaker{}
		})
	}
	return nil
}

// resumeOp notes what the file is opened with: its time, and since when no
// program ran.
type resumeOp struct{}

func (resumeOp) apply(x *tx) error {
	for _, t := range x.lanes.all() {
		if t.counted().failingSince != 0 {
			x.changed[t] = struct{}{}
		}
	}
	return nil
}
