package store

import (
	"slices"

	"payledger/domain"
)

// Lane is the state of one endpoint's notifications of one payment. Its methods
// are the rules of the order, which nothing else decides. An idle lane, one with
// an empty line, is kept for its marks.
//
// Sequences in line rise. What is in line is above Started, or equal to it: then
// it was sent before and may be sent again.
type Lane struct {
	Started     uint64    // high-water mark: the highest sequence an attempt was begun for
	Newest      uint64    // the highest sequence that was ever in line
	NewestEvent domain.ID // that of Newest
	touched     domain.Instant
	Due         domain.Instant // of the first in line
	Line        []Entry
}

// Entry is a delivery in the line of its lane.
type Entry struct {
	Sequence  uint64
	Event     domain.ID
	Final     bool
	Requested bool // resent on request: goes out even if the endpoint no longer subscribes to its kind
}

// Enqueue puts an event at the end of the line. It reports false for one that is
// not above all that were in line before.
func (l *Lane) Enqueue(e Entry, due domain.Instant) bool {
	if e.Sequence <= l.Newest {
		return false
	}
	l.Newest, l.NewestEvent = e.Sequence, e.Event
	l.join(e, due)
	return true
}

func (l *Lane) join(e Entry, due domain.Instant) {
	// An intermediate event at the head is about to give way: what follows it
	// does not wait for its next try.
	if len(l.Line) == 0 || !l.Line[0].Final {
		l.Due = due
	}
	l.Line = append(l.Line, e)
}

// Next takes the events out of the line that must not be tried any more, and
// answers them. Then the first in line, if there is one, may be tried.
func (l *Lane) Next() (superseded []Entry) {
	for len(l.Line) > 0 {
		first := l.Line[0]
		outdated := !first.Final && len(l.Line) > 1
		if !outdated && first.Sequence >= l.Started {
			break
		}
		superseded = append(superseded, first)
		l.Line = l.Line[1:]
	}
	return superseded
}

// Start raises the high-water mark for an attempt with the first in line.
func (l *Lane) Start() Entry {
	l.Started = max(l.Started, l.Line[0].Sequence)
	return l.Line[0]
}

// Leave takes an event out of the line. The next one is due at due.
func (l *Lane) Leave(event domain.ID, due domain.Instant) {
	l.Line = slices.DeleteFunc(l.Line, func(e Entry) bool { return e.Event == event })
	l.Due = due
}

// Retry lets the first in line wait until due, unless it gives way to the next.
func (l *Lane) Retry(now, due domain.Instant) {
	l.Due = due
	if len(l.Line) > 1 && !l.Line[0].Final {
		l.Due = now
	}
}

// Resend puts an event in line again and reports whether it may: the newest one,
// or the one with the highest mark if it is final, as long as nothing later is in
// line.
func (l *Lane) Resend(e Entry, due domain.Instant) bool {
	last := len(l.Line) - 1
	may := e.Sequence == l.Newest || e.Sequence == l.Started && e.Final
	if last >= 0 && l.Line[last].Sequence > e.Sequence {
		may = false
	}
	if !may {
		return false
	}
	if i := slices.IndexFunc(l.Line, func(o Entry) bool { return o.Event == e.Event }); i >= 0 {
		l.Line[i].Requested = true
		if i == 0 {
			l.Due = due
		}
		return true
	}
	l.join(e, due)
	return true
}
