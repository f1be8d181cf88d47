package delivery

import (
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/webhook"
)

// enqueueOp adds events to their lanes and notes how far the fan-out got.
type enqueueOp struct {
	upTo   eventstore.Position
	events []Event
	atOnce atOnce
	asked  bool // somebody asked for them: they are due now, and go out in any case

	listed int // as unconfirmed
}

func (o *enqueueOp) apply(x *tx) error {
	after := positionIn(x.meta, keyAfter)
	for _, e := range o.events {
		t, err := x.target(e.Project, e.Endpoint)
		if err != nil {
			return err
		}
		enqueue := x.enqueue
		if e.Unconfirmed {
			enqueue = x.list
		}
		if err := enqueue(t, e, e.Position > after, o); err != nil {
			return err
		}
	}
	// Only now, when what the events of one payment supersede is known.
	for _, start := range o.atOnce.starts {
		if err := start.apply(x); err != nil {
			return err
		}
	}
	if o.upTo > after {
		return putNumber(x.meta, keyAfter, uint64(o.upTo))
	}
	return nil
}

// enqueue adds an event to its lane. A fresh one was never recorded.
func (x *tx) enqueue(t *target, e Event, fresh bool, o *enqueueOp) error {
	l, err := x.laneOf(t, e.Payment)
	due := x.lanes.firstTry(x.now)
	switch {
	case o.asked:
		due = x.now
	case !o.atOnce.takes(e):
		due = due.Add(aMoment)
	}
	if err != nil || !l.enqueue(place{sequence: e.Sequence, event: e.ID, final: e.Kind.Final(), asked: o.asked}, due) {
		return err
	}
	var was record
	if !fresh {
		// One that is recorded was in a lane that is forgotten by now.
		if was, _, err = x.record(t, e.ID); err != nil {
			return err
		}
	}
	x.put(t, record{
		event: e.ID, payment: e.Payment, kind: e.Kind, sequence: e.Sequence, position: e.Position,
		state: domain.DeliveryPending, render: webhook.Render, created: x.lanes.wallNow(),
		total: was.total, attempts: was.attempts,
	}, was.state)
	if len(l.line) == 1 {
		o.atOnce.add(t, e, dueAt(l.due, l.payment))
	}
	x.save(l)
	return nil
}

// list records an outcome that is not sent, unless it is recorded already.
func (x *tx) list(t *target, e Event, _ bool, o *enqueueOp) error {
	_, known, err := x.record(t, e.ID)
	if known || err != nil {
		return err
	}
	o.listed++
	x.put(t, record{
		event: e.ID, payment: e.Payment, kind: e.Kind, sequence: e.Sequence, position: e.Position,
		state: domain.DeliveryUnconfirmed, render: webhook.Render, created: x.lanes.wallNow(),
	}, "")
	return nil
}

// startOp begins attempts with lanes of one endpoint.
type startOp struct {
	target   *target
	keys     []dueKey
	asked    []askedFor // in place of keys
	granted  bool       // the one key need not be due, see breaker
	endpoint domain.Endpoint
	places   int // reserved for attempts
	begun    []attempt
}

// attempt is one try of a delivery, allowed by the file.
type attempt struct {
	record
	number  int  // from 1
	asked   bool // somebody asked for it
	granted bool // it costs no try
}

func (o *startOp) apply(x *tx) error {
	for _, k := range o.keys {
		l, err := x.laneOf(o.target, k.payment())
		if err != nil {
			return err
		}
		if len(l.line) == 0 || l.due > x.now && !o.granted || x.inFlight(l) {
			continue // the key is an old one
		}
		if err := o.start(x, l); err != nil {
			return err
		}
	}
	for _, a := range o.asked {
		l, err := x.laneOf(o.target, a.payment)
		if err != nil {
			return err
		}
		head := l.lane
		if head.next(); len(head.line) == 0 || head.line[0].event != a.event || l.due > x.now || x.inFlight(l) {
			continue // it was tried meanwhile, or something goes before it
		}
		if err := o.start(x, l); err != nil {
			return err
		}
	}
	return nil
}

func (o *startOp) start(x *tx, l *laneAt) error {
	for _, p := range l.next() {
		if err := x.settle(o.target, p.event, domain.DeliverySuperseded); err != nil {
			return err
		}
	}
	for len(l.line) > 0 {
		d, err := x.pendingRecord(o.target, l.line[0].event)
		if err != nil {
			return err
		}
		if l.line[0].asked || d.kind == domain.KindEndpointTest || o.endpoint.Wants(d.kind) {
			l.start()
			x.lanes.flying[flight(l.key)] = true
			o.begun = append(o.begun, attempt{record: d, number: d.total + 1, asked: len(o.asked) > 0, granted: o.granted})
			break
		}
		// No longer subscribed to.
		l.leave(d.event, l.due)
		if err := x.settle(o.target, d.event, domain.DeliveryCancelled); err != nil {
			return err
		}
	}
	x.save(l)
	return nil
}

// settleOp records how an attempt ended.
type settleOp struct {
	target  *target
	attempt attempt
	outcome outcome

	state      domain.DeliveryState // after it
	failingFor time.Duration
	notice     notice
}

// maxAttempts bounds the attempts kept of one delivery.
const maxAttempts = 64

func (o *settleOp) apply(x *tx) error {
	l, err := x.laneOf(o.target, o.attempt.payment)
	if err != nil {
		return err
	}
	delete(x.lanes.flying, flight(l.key))
	d, ok, err := x.record(o.target, o.attempt.event)
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
	x.put(o.target, d, domain.DeliveryPending)
	return nil
}

// judge lets the outcome speak for the whole endpoint.
func (o *settleOp) judge(x *tx) {
	o.noteRefused()
	if !o.outcome.tells() {
		if !o.attempt.asked {
			o.target.passed()
		}
		return
	}
	now := x.now
	x.count(o.target, func(t *tally) {
		if o.outcome.Delivered {
			t.calm()
		} else {
			t.failures++
			if t.failingSince == 0 {
				t.failingSince = now
			}
		}
		o.failingFor = t.failingFor(now)
		o.target.leaving = o.target.leaving || o.outcome.Gone
		was := o.target.breaker.until != 0
		o.target.breaker.ended(now, t.failures, x.lanes.config.Random(), o.attempt.asked)
		switch is := o.target.breaker.until != 0; {
		case is && !was:
			o.notice = noticePaused
		case was && !is:
			o.notice = noticeResumed
		}
	})
}

// noteRefused notes whether the endpoint may be called.
func (o *settleOp) noteRefused() {
	t := o.target
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
