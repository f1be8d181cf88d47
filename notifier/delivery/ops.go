package delivery

import (
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
	"payledger/notifier/webhook"
)

// enqueueOp adds events to their lanes and notes how far the fan-out got.
type enqueueOp struct {
	upTo      eventstore.Position
	events    []Event
	endpoints map[string]projects.Endpoint // as they are now, those that attempts may begin with
	busy      bool                         // the writer is

	listed int // as unconfirmed
}

// supersedeDelay is how long the first try of an intermediate event waits while
// the writer is busy: the event is likely to be superseded meanwhile, which saves
// an attempt.
const supersedeDelay = 50 * time.Millisecond

func (o *enqueueOp) apply(x *tx) error {
	after, _ := x.Progress()
	var to []*target
	seen := make(map[*target]bool)
	for _, e := range o.events {
		t := x.target(e.Project, e.Endpoint)
		if !seen[t] {
			seen[t] = true
			to = append(to, t)
		}
		var err error
		switch {
		case e.Unconfirmed:
			err = o.list(x, t, e)
		case o.busy && !e.Kind.Final():
			err = x.enqueue(t, e, e.Position > after, x.lanes.firstTry(x.Now).Add(supersedeDelay))
		default:
			err = x.enqueue(t, e, e.Position > after, x.lanes.firstTry(x.Now))
		}
		if err != nil {
			return err
		}
	}
	// Attempts begin after all events are in their lanes, so that none begins with
	// an event that a later one supersedes.
	for _, t := range to {
		if e, ok := o.endpoints[t.id]; ok {
			if err := x.begin(t, e); err != nil {
				return err
			}
		}
	}
	if o.upTo > after {
		x.SetAfter(o.upTo)
	}
	return nil
}

// enqueue adds an event to its lane. A fresh one cannot be recorded yet.
func (x *tx) enqueue(t *target, e Event, fresh bool, due domain.Instant) error {
	l, err := x.Lane(t.number, e.Payment)
	if err != nil || !l.Enqueue(store.Entry{Sequence: e.Sequence, Event: e.ID, Final: e.Kind.Final()}, due) {
		return err
	}
	var before store.Record
	if !fresh {
		// It may be recorded although its lane is forgotten by now.
		if before, _, err = x.Record(t.number, e.ID); err != nil {
			return err
		}
	}
	d := x.newRecord(e, domain.DeliveryPending)
	d.Total, d.Attempts = before.Total, before.Attempts
	x.put(t, d, before.State)
	x.save(t, l)
	return nil
}

func (x *tx) newRecord(e Event, s domain.DeliveryState) store.Record {
	return store.Record{
		Event: e.ID, Payment: e.Payment, Kind: e.Kind, Sequence: e.Sequence, Position: e.Position,
		State: s, Render: webhook.Render, Created: x.lanes.wallNow(),
	}
}

// list records an outcome that is not sent, unless it is recorded already.
func (o *enqueueOp) list(x *tx, t *target, e Event) error {
	_, known, err := x.Record(t.number, e.ID)
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

	state      domain.DeliveryState // of the delivery, after it
	failingFor time.Duration
	notice     notice
}

// maxAttempts bounds the attempts kept of one delivery.
const maxAttempts = 64

func (o *settleOp) apply(x *tx) error {
	l, err := x.Lane(o.attempt.target.number, o.attempt.Payment)
	if err != nil {
		return err
	}
	delete(x.lanes.underWay, l.Key())
	d, ok, err := x.Record(o.attempt.target.number, o.attempt.Event)
	if err != nil {
		return err
	}
	o.noteOutcome(x)
	if !ok || d.State != domain.DeliveryPending {
		x.save(o.attempt.target, l) // settled meanwhile in another way
		return nil
	}
	d.Total++
	d.Tries += one(!o.attempt.probe)
	d.Attempts = append(d.Attempts, o.outcome.object())
	if n := len(d.Attempts) - maxAttempts; n > 0 {
		d.Attempts = d.Attempts[n:]
	}
	wait, more := x.lanes.config.Schedule.Next(d.Tries, x.lanes.config.Random(), o.outcome.RetryAfter)
	switch {
	case o.outcome.Delivered:
		d.State = domain.DeliveryDelivered
	case o.outcome.Refused:
		d.State = domain.DeliveryParked
	case o.outcome.Gone:
		d.State = domain.DeliveryHeld
	case !more:
		d.State = domain.DeliveryGivenUp
	}
	switch o.state = d.State; {
	case d.State == domain.DeliveryPending && o.attempt.probe:
		l.Retry(x.Now, max(l.Due, x.Now.Add(o.outcome.RetryAfter)))
	case d.State == domain.DeliveryPending:
		l.Retry(x.Now, x.Now.Add(wait))
	default:
		l.Leave(d.Event, x.Now)
	}
	x.save(o.attempt.target, l)
	x.put(o.attempt.target, d, domain.DeliveryPending)
	return nil
}

// noteOutcome notes what the outcome means for the endpoint.
func (o *settleOp) noteOutcome(x *tx) {
	to := o.attempt.target
	o.noteRefused()
	if !o.outcome.concernsEndpoint() {
		if !o.attempt.requested {
			to.abandoned()
		}
		return
	}
	now := x.Now
	x.count(to, func(t *store.Tally) {
		if o.outcome.Delivered {
			t.Calm()
		} else {
			t.Failures++
			t.LastFailure = o.attempt.Event
			if t.FailingSince == 0 {
				t.FailingSince = now
			}
		}
		o.failingFor = t.FailingFor(now)
		to.leaving = to.leaving || o.outcome.Gone
		before := to.breaker.until != 0
		to.breaker.ended(now, t.Failures, x.lanes.config.Random(), o.attempt.requested)
		switch open := to.breaker.until != 0; {
		case open && !before:
			o.notice = noticePaused
		case before && !open:
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
	after  store.DueKey // of the lanes that were seen
	more   bool
}

const holdAtOnce = 256

func (o *holdOp) apply(x *tx) error {
	keys := x.DueAfter(o.target.number, o.after, holdAtOnce)
	for _, k := range keys {
		l, err := x.Lane(o.target.number, k.Payment())
		if err != nil {
			return err
		}
		kept := 0
		if x.inFlight(l) {
			kept = min(1, len(l.Line))
		}
		for _, p := range l.Line[kept:] {
			if err := x.settle(o.target, p.Event, o.state); err != nil {
				return err
			}
		}
		l.Line = l.Line[:kept]
		x.save(o.target, l)
		o.after = k
	}
	o.more = len(keys) == holdAtOnce
	if !o.more {
		// An endpoint that is enabled again begins anew.
		x.count(o.target, func(t *store.Tally) {
			t.Calm()
			o.target.breaker = breaker{}
		})
	}
	return nil
}

// resumeOp writes what Open found out: the time, and for how long no program
// ran.
type resumeOp struct{}

func (resumeOp) apply(x *tx) error {
	for _, t := range x.lanes.all() {
		if t.counted().FailingSince != 0 {
			x.changed[t] = struct{}{}
		}
	}
	return nil
}
