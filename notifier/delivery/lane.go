package delivery

import (
	"slices"

	"payledger/domain"
)

// lane is the state of one endpoint's notifications of one payment. It is
// where the order is kept; everything else only asks it. An idle lane, one
// with an empty line, is kept for its marks.
//
// Sequences in line rise. Whatever is in line is above started, or equal to
// it: then it was sent before and may be sent again.
type lane struct {
	started     uint64    // high-water mark: the highest sequence an attempt was begun for
	newest      uint64    // the highest sequence that ever stood in line
	newestEvent domain.ID // that of newest
	touched     domain.Instant
	due         domain.Instant // of the first in line
	line        []place
}

// place is a delivery's place in its lane.
type place struct {
	sequence uint64
	event    domain.ID
	final    bool
	asked    bool // resent on request: goes out even if the endpoint no longer subscribes to its kind
}

// enqueue puts an event at the end of the line. It reports false for what the
// lane has heard of before, or has already left behind.
func (l *lane) enqueue(p place, due domain.Instant) bool {
	if p.sequence <= l.newest {
		return false
	}
	l.newest, l.newestEvent = p.sequence, p.event
	l.join(p, due)
	return true
}

func (l *lane) join(p place, due domain.Instant) {
	// An intermediate event at the head is about to give way: what follows it
	// does not wait for its next try.
	if len(l.line) == 0 || !l.line[0].final {
		l.due = due
	}
	l.line = append(l.line, p)
}

// next takes out of the line what must not be tried any more, and answers it;
// then whatever is first may be tried.
func (l *lane) next() (superseded []place) {
	for len(l.line) > 0 {
		first := l.line[0]
		outdated := !first.final && len(l.line) > 1
		if !outdated && first.sequence >= l.started {
			break
		}
		superseded = append(superseded, first)
		l.line = l.line[1:]
	}
	return superseded
}

// start raises the high-water mark for an attempt with the first in line.
func (l *lane) start() place {
	l.started = max(l.started, l.line[0].sequence)
	return l.line[0]
}

// leave takes an event out of the line; the next one is due then.
func (l *lane) leave(event domain.ID, due domain.Instant) {
	l.line = slices.DeleteFunc(l.line, func(p place) bool { return p.event == event })
	l.due = due
}

// retry lets the first in line wait, unless it gives way to the next.
func (l *lane) retry(now, due domain.Instant) {
	l.due = due
	if len(l.line) > 1 && !l.line[0].final {
		l.due = now
	}
}

// resend puts an event in line again, if nothing later was begun or stands in
// line: the newest, or what the lane got to, unless that is intermediate and
// something later is known.
func (l *lane) resend(p place, due domain.Instant) bool {
	last := len(l.line) - 1
	may := p.sequence == l.newest || p.sequence == l.started && p.final
	if last >= 0 && l.line[last].sequence > p.sequence {
		may = false
	}
	if !may {
		return false
	}
	if i := slices.IndexFunc(l.line, func(o place) bool { return o.event == p.event }); i >= 0 {
		l.line[i].asked = true
		if i == 0 {
			l.due = due
		}
		return true
	}
	l.join(p, due)
	return true
}
