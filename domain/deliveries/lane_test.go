package deliveries

import (
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

// sends plays a lane and answers what was begun against the order: a sequence after a
// higher one, or an intermediate event though a later one was known.
func sends(t *rapid.T) (wrong []Queued) {
	var l Lane
	var known []Queued
	highest := uint64(0)
	come := func() {
		n := len(known) + 1
		known = append(known, Queued{Sequence: uint64(n), Event: domain.ID{byte(n)}, Position: uint64(n), Final: rapid.Bool().Draw(t, "final")})
		l.Enqueue(known[n-1], 0)
	}
	begin := func() bool {
		l.Next(0)
		if len(l.Queue) == 0 {
			return false
		}
		l.Start()
		first := l.Queue[0]
		if first.Sequence < highest || !first.Final && first.Sequence < uint64(len(known)) {
			wrong = append(wrong, first)
		}
		highest = max(highest, first.Sequence)
		l.Begun = false
		return true
	}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0: // an event
			come()
		case 1: // an old one that comes again
			if len(known) > 0 {
				l.Enqueue(rapid.SampledFrom(known).Draw(t, "repeated"), 0)
			}
		case 2: // a resend
			if len(known) > 0 {
				l.Resend(rapid.SampledFrom(known).Draw(t, "resent"), 0)
			}
		case 3: // an attempt that fails
			if begin() {
				l.Retry(1, 2)
			}
		case 4: // one that succeeds
			if begin() {
				l.Leave(l.Queue[0].Event, 1)
			}
		case 5: // one that fails; meanwhile an event comes, and the endpoint is disabled and enabled
			if begin() {
				come()
				for _, q := range l.Queue[1:] {
					l.Leave(q.Event, l.Due)
				}
				l.Retry(1, 2)
			}
		}
	}
	return wrong
}

// TestNoLaneGoesBackward: events are queued, repeated, held and resent in any order.
func TestNoLaneGoesBackward(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if wrong := sends(t); len(wrong) > 0 {
			t.Fatalf("begun against the order: %+v", wrong)
		}
	})
}

// TestMarksAreNeeded: a lane that forgets its marks goes backward, when an event comes again.
func TestMarksAreNeeded(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		var l Lane
		for sequence := uint64(1); sequence <= 3; sequence++ {
			l.Enqueue(Queued{Sequence: sequence, Event: domain.ID{byte(sequence)}, Final: true}, 0)
			l.Start()
			l.Leave(domain.ID{byte(sequence)}, 0)
		}
		if forgets {
			l.Started, l.Newest = 1, 1
		}
		l.Enqueue(Queued{Sequence: 2, Event: domain.ID{2}, Final: true}, 0)
		if l.Next(0); len(l.Queue) > 0 != forgets {
			t.Errorf("forgets %t: the queue is %v", forgets, l.Queue)
		}
	}
}
