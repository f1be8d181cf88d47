package deliveries

import (
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

// sends plays a lane and answers whether a sequence was begun after a higher one.
func sends(t *rapid.T) (backward bool) {
	var l Lane
	var known []Queued
	highest := uint64(0)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0: // an event
			q := Queued{Sequence: uint64(len(known) + 1), Event: domain.ID{byte(len(known) + 1)}, Position: uint64(len(known) + 1), Final: rapid.Bool().Draw(t, "final")}
			known = append(known, q)
			l.Enqueue(q, 0)
		case 1: // an old one that comes again
			if len(known) > 0 {
				l.Enqueue(rapid.SampledFrom(known).Draw(t, "repeated"), 0)
			}
		case 2: // a resend
			if len(known) > 0 {
				l.Resend(rapid.SampledFrom(known).Draw(t, "resent"), 0)
			}
		case 3: // an attempt that fails
			l.Next(0)
			if len(l.Queue) > 0 {
				l.Start()
				backward = backward || l.Queue[0].Sequence < highest
				highest = max(highest, l.Queue[0].Sequence)
				l.Begun = false
				l.Retry(1, 2)
			}
		case 4: // one that succeeds
			l.Next(0)
			if len(l.Queue) > 0 {
				l.Start()
				backward = backward || l.Queue[0].Sequence < highest
				highest = max(highest, l.Queue[0].Sequence)
				l.Begun = false
				l.Leave(l.Queue[0].Event, 1)
			}
		}
	}
	return backward
}

// TestNoLaneGoesBackward: events are queued, repeated and resent in any order.
func TestNoLaneGoesBackward(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if sends(t) {
			t.Fatal("a lower sequence was begun after a higher one")
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
