package deliveries

import (
	"slices"

	"payledger/domain"
)

// Lane is the state of one endpoint's notifications of one payment. Its methods
// are the rules of the order, which nothing else decides. An idle lane, one with
// an empty queue, is kept for its marks.
//
// Sequences in the queue rise. What is queued is above Started, or equal to it: then
// it was sent before and may be sent again.
type Lane struct {
	Started     uint64    // high-water mark: the highest sequence an attempt was begun for
	Newest      uint64    // the highest sequence that was ever queued
	NewestEvent domain.ID // that of Newest
	Touched     domain.Instant
	Due         domain.Instant // of the first in the queue, by the sender's clock
	Begun       bool           // an attempt was begun whose end is not recorded
	Again       bool           // it was asked for since then: what fails is tried again at once
	Queue       []Queued
}

// Queued is a delivery in the queue of its lane.
type Queued struct {
	Sequence  uint64
	Event     domain.ID
	Position  uint64
	Final     bool
	Requested bool // resent on request: goes out even if the endpoint no longer subscribes to its kind
}

// Enqueue puts an event at the end of the queue. It reports false for one that is
// not above all that were queued before.
func (l *Lane) Enqueue(e Queued, due domain.Instant) bool {
	if e.Sequence <= l.Newest {
		return false
	}
	l.Newest, l.NewestEvent = e.Sequence, e.Event
	l.join(e, due)
	return true
}

func (l *Lane) join(e Queued, due domain.Instant) {
	// An intermediate event at the head is about to give way: what follows it
	// does not wait for its next try.
	if len(l.Queue) == 0 || !l.Queue[0].Final {
		l.Due = due
	}
	l.Queue = append(l.Queue, e)
}

// Next takes the events out of the queue that must not be tried any more, and
// answers them. Then the first in the queue, if there is one, may be tried. What
// became of the events up to base is unknown: of those only the newest is tried.
func (l *Lane) Next(base uint64) (given []Queued) {
	for len(l.Queue) > 0 {
		first := l.Queue[0]
		outdated := l.givesWay() || len(l.Queue) > 1 && l.Queue[1].Position <= base
		if !outdated && first.Sequence >= l.Started {
			break
		}
		given = append(given, first)
		l.Queue = l.Queue[1:]
	}
	return given
}

// givesWay reports whether the first in the queue is an intermediate event that a later one
// follows, be that queued or not: it may have left the queue before, held.
func (l *Lane) givesWay() bool { return !l.Queue[0].Final && l.Queue[0].Sequence < l.Newest }

// Start raises the high-water mark for an attempt with the first in the queue.
func (l *Lane) Start() {
	l.Started, l.Begun, l.Again = max(l.Started, l.Queue[0].Sequence), true, false
}

// Leave takes an event out of the queue. The next one is due at due. No attempt of an event that
// leaves is under way, also of one that a sender began which is gone.
func (l *Lane) Leave(event domain.ID, due domain.Instant) {
	if len(l.Queue) > 0 && l.Queue[0].Event == event {
		l.Begun, l.Again = false, false
	}
	l.Queue = slices.DeleteFunc(l.Queue, func(e Queued) bool { return e.Event == event })
	l.Due = due
}

// Retry lets the first in the queue wait until due, unless it gives way.
func (l *Lane) Retry(now, due domain.Instant) {
	l.Due = due
	if l.givesWay() {
		l.Due = now
	}
}

// Resend queues an event again and reports whether it may: the newest one, or the
// one with the highest mark if it is final, as long as nothing later is queued.
func (l *Lane) Resend(e Queued, due domain.Instant) bool {
	last := len(l.Queue) - 1
	may := e.Sequence == l.Newest || e.Sequence == l.Started && e.Final
	if last >= 0 && l.Queue[last].Sequence > e.Sequence {
		may = false
	}
	if !may {
		return false
	}
	if i := slices.IndexFunc(l.Queue, func(o Queued) bool { return o.Event == e.Event }); i >= 0 {
		l.Queue[i].Requested = true
		if i == 0 {
			l.Due, l.Again = due, l.Begun
		}
		return true
	}
	l.join(e, due)
	return true
}
