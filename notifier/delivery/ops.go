package delivery

import (
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
	"payledger/notifier/webhook"
)

// supersedeDelay is how long the first try of an intermediate event waits while
// the writer is busy: the event is likely to be superseded meanwhile, which saves
// an attempt.
const supersedeDelay = 50 * time.Millisecond

// enqueueAll adds events to their lanes and notes how far the fan-out got; endpoints
// are those that attempts may begin with, as they are now. unconfirmed is how many
// outcomes were listed that are not sent.
func (x *tx) enqueueAll(upTo eventstore.Position, events []Event, endpoints map[string]projects.Endpoint, busy bool) (unconfirmed int, err error) {
	after, _ := x.Progress()
	var to []*target
	seen := make(map[*target]bool)
	for _, e := range events {
		t := x.target(e.Project, e.Endpoint)
		if !seen[t] {
			seen[t] = true
			to = append(to, t)
		}
		due := x.lanes.firstTry(x.Now)
		if busy && !e.Kind.Final() {
			due = due.Add(supersedeDelay)
		}
		if e.Unconfirmed {
			var known bool
			if _, known, err = x.Record(t.number, e.ID); err == nil && !known {
				unconfirmed++
				x.put(t, x.newRecord(e, domain.DeliveryUnconfirmed), "")
			}
		} else {
			err = x.enqueue(t, e, e.Position > after, due)
		}
		if err != nil {
			return unconfirmed, err
		}
	}
	// Attempts begin after all events are in their lanes, so that none begins with
	// an event that a later one supersedes.
	for _, t := range to {
		if e, ok := endpoints[t.id]; ok {
			if err := x.begin(t, e); err != nil {
				return unconfirmed, err
			}
		}
	}
	if upTo > after {
		x.SetAfter(upTo)
	}
	return unconfirmed, nil
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

// maxAttempts bounds the attempts kept of one delivery.
const maxAttempts = 64

// record notes how an attempt ended, and what becomes of its delivery.
func (x *tx) record(a attempt, o outcome) error {
	l, err := x.Lane(a.target.number, a.Payment)
	if err != nil {
		return err
	}
	delete(x.lanes.underWay, l.Key())
	d, ok, err := x.Record(a.target.number, a.Event)
	if err != nil {
		return err
	}
	if !ok || d.State != domain.DeliveryPending {
		x.save(a.target, l) // settled meanwhile in another way
		return nil
	}
	d.Total++
	d.Tries += one(!a.probe)
	d.Attempts = append(d.Attempts, o.object())
	if n := len(d.Attempts) - maxAttempts; n > 0 {
		d.Attempts = d.Attempts[n:]
	}
	wait, more := x.lanes.config.Schedule.Next(d.Tries, x.lanes.config.Random(), o.RetryAfter)
	switch {
	case o.Delivered:
		d.State = domain.DeliveryDelivered
	case o.Refused:
		d.State = domain.DeliveryParked
	case o.Gone:
		d.State = domain.DeliveryHeld
	case !more:
		d.State = domain.DeliveryGivenUp
	}
	switch {
	case d.State == domain.DeliveryPending && a.probe:
		l.Retry(x.Now, max(l.Due, x.Now.Add(o.RetryAfter)))
	case d.State == domain.DeliveryPending:
		l.Retry(x.Now, x.Now.Add(wait))
	default:
		l.Leave(d.Event, x.Now)
	}
	x.save(a.target, l)
	x.put(a.target, d, domain.DeliveryPending)
	return nil
}

// judge notes what an outcome means for the endpoint: for how long it has failed, and
// what is to be said of it.
func (x *tx) judge(a attempt, o outcome) (failingFor time.Duration, says notice) {
	t := a.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Refused && !t.refused {
		says = noticeRefused
	}
	if t.refused = o.Refused; o.Refused || o.Class == webhook.ClassUnsigned || o.Class == classInternal {
		if !a.requested {
			t.breaker.abandoned() // it says nothing about the endpoint
		}
		return 0, says
	}
	if n := &t.tally; o.Delivered {
		n.Calm()
	} else {
		n.Failures++
		n.LastFailure = a.Event
		if n.FailingSince == 0 {
			n.FailingSince = x.Now
		}
	}
	t.leaving = t.leaving || o.Gone
	before := t.breaker.until != 0
	t.breaker.ended(x.Now, t.tally.Failures, x.lanes.config.Random(), a.requested)
	switch open := t.breaker.until != 0; {
	case open && !before:
		says = noticePaused
	case before && !open:
		says = noticeResumed
	}
	x.changed[t] = struct{}{}
	return t.tally.FailingFor(x.Now), says
}
