package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fitEvery is how often a node looks whether it can be the sequencer.
const fitEvery = time.Second

// agreedFor is how long a node's clock counts as compared while it cannot be.
const agreedFor = time.Minute

// examine finds out whether this node can be the sequencer, and what the programs of the
// others can read. If it is the sequencer and cannot go on, it hands over, if another node
// can take its place.
func (s *Store) examine() {
	ctx, cancel := context.WithTimeout(s.ctx, 2*peerTime)
	defer cancel()
	before := s.now()
	why, compared := s.clockOff(ctx)
	right := s.right.Load()
	switch {
	case compared && why == "":
		s.right.Store(&before)
	case !compared && right != nil && before.Sub(*right) > agreedFor:
		s.right.Store(nil)
	}
	if err := s.Refuses(); err != nil {
		why = err.Error()
	}
	if why == "" {
		s.unable.Store(nil)
		return
	}
	s.unable.Store(&why)
	if !s.progress.Load().ready || s.ctx.Err() != nil {
		return
	}
	to, err := s.leaveTo(ctx, "")
	if err != nil {
		s.report(fmt.Errorf("this node cannot be the sequencer, %s, and no other one takes over: %w", why, err))
		return
	}
	s.report(fmt.Errorf("this node hands over to node %s, because it cannot be the sequencer: %w", to, errors.New(why)))
}

// clockOff compares this node's clock with those of all others. It is off if it is more than
// MaxAhead ahead of all of them, or behind all, however long the answers took: so at least
// one clock of three is not off. Nothing is compared while one of the others does not answer.
func (s *Store) clockOff(ctx context.Context) (why string, compared bool) {
	var least, most time.Duration // by which this clock is ahead
	heard := 0
	for i, p := range s.peers {
		sent := s.now()
		var st Status
		if s.reportOf(ctx, p, &st) != nil {
			st = Status{}
		}
		if s.forms.Heard(p, st.Program, s.now()); st.Clock.IsZero() {
			continue
		}
		heard++
		received := s.now()
		low, high := sent.Sub(st.Clock), received.Sub(st.Clock)
		if i == 0 || low < least {
			least = low
		}
		if i == 0 || high > most {
			most = high
		}
	}
	if heard < len(s.peers) {
		s.ahead.Store(0)
		return "", false
	}
	// The nearest of them; 0 if this clock is between theirs.
	ahead := max(least, 0) + min(most, 0)
	s.ahead.Store(ahead.Milliseconds())
	switch {
	case ahead > MaxAhead:
		why = fmt.Sprintf("its clock is %v ahead of those of all others", ahead.Round(time.Millisecond))
	case ahead < -MaxAhead:
		why = fmt.Sprintf("its clock is %v behind those of all others", -ahead.Round(time.Millisecond))
	}
	return why, true
}

// clock is the time as it has run since this node's clock last agreed with another one's,
// even if that clock has been set meanwhile. While they are not compared it is the clock's.
func (s *Store) clock() time.Time {
	now := s.now()
	if right := s.right.Load(); right != nil {
		return right.Add(now.Sub(*right))
	}
	return now
}
