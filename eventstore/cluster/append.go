package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/forms"
	"payledger/eventstore/cluster/wire"
)

// waitingCall is an Append that is on its way. Commits that have an answer leave it.
type waitingCall struct {
	ctx     context.Context //nolint:containedctx // the caller's
	commits []eventstore.Commit
	places  []int // of the commits among the results
	results []eventstore.Appended
	done    chan struct{}
}

// errTakenBack answers the commits of a group that was taken back. They are sent again.
var errTakenBack = errors.New("the group was taken back")

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	results := make([]eventstore.Appended, len(commits))
	if err := s.enter(); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	defer s.appending.Done()
	part := &waitingCall{}
	size := 0
	flush := func() {
		if len(part.commits) > 0 {
			s.call(ctx, part)
		}
		part, size = &waitingCall{}, 0
	}
	for i, c := range commits {
		if results[i].Err = cmp.Or(ctx.Err(), c.Validate()); results[i].Err != nil {
			continue
		}
		if size += len(c.Record.Body); len(part.commits) == bolt.MaxGroupCommits || (size > bolt.MaxGroupBytes && len(part.commits) > 0) {
			flush()
			size = len(c.Record.Body)
		}
		part.commits, part.places, part.results = append(part.commits, c), append(part.places, i), results
	}
	flush()
	if err := s.has(ctx, spokenOf(results)); err != nil {
		for i := range results {
			results[i].Err = cmp.Or(results[i].Err, err)
		}
	}
	return results
}

// enter admits an Append; Close waits for it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return eventstore.ErrClosed
	}
	if err := cmp.Or(s.Err(), s.ended()); err != nil {
		return err
	}
	s.appending.Add(1)
	return nil
}

// spokenOf is the greatest position in the results, be it of a record or of the reason for
// a refusal. The caller finds it in this node's file.
func spokenOf(results []eventstore.Appended) (last eventstore.Position) {
	for _, r := range results {
		var conflict *eventstore.ConflictError
		var claimed *eventstore.ClaimedError
		switch {
		case errors.As(r.Err, &conflict):
			last = max(last, conflict.Actual)
		case errors.As(r.Err, &claimed):
			last = max(last, claimed.Value.Position)
		default:
			last = max(last, r.Position)
		}
	}
	return last
}

// call sends commits to the sequencer until they are answered.
func (s *Store) call(ctx context.Context, c *waitingCall) {
	c.ctx, c.done = ctx, make(chan struct{})
	s.mu.Lock()
	s.last++
	id := s.last
	s.calls[id] = c
	s.mu.Unlock()
	s.post(calling{id})
	select {
	case <-c.done:
	case <-ctx.Done():
		s.leave(id, ctx.Err())
		<-c.done
	case <-s.Fatal():
		s.leave(id, s.Err())
		<-c.done
	}
}

// leave ends a call before all of its commits are answered.
func (s *Store) leave(id uint64, err error) {
	s.mu.Lock()
	c := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if c != nil {
		s.post(replied{id})
		c.fail(err)
	}
}

func (c *waitingCall) fail(err error) {
	for _, i := range c.places {
		c.results[i].Err = err
	}
	close(c.done)
}

var errSeen = errors.New("seen")

// has waits until the file has the position, for a while: what was answered is true
// without that.
func (s *Store) has(ctx context.Context, p eventstore.Position) error {
	if p == 0 {
		return nil
	}
	if last, err := s.Store.Last(ctx); err != nil || last >= p {
		return err
	}
	until, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	err := s.Store.Follow(until, p-1, eventstore.Filter{}, func(eventstore.Stored) error { return errSeen })
	if errors.Is(err, errSeen) || (until.Err() != nil && ctx.Err() == nil) {
		return nil
	}
	return err
}

// send sends the commits of a call to the sequencer.
func (s *Store) send(x send) {
	s.mu.Lock()
	c := s.calls[x.call]
	s.mu.Unlock()
	if c == nil {
		return
	}
	var answers []eventstore.Appended
	if x.to == s.name {
		answers = s.Store.Append(s.ctx, c.commits...)
	} else {
		reply, err := s.nc.Request(s.prefix+string(x.to)+verbAppend, wire.EncodeCommits(c.commits), peerTime)
		ok := err == nil
		if ok {
			answers, ok = wire.DecodeAnswers(reply.Data, c.commits)
		}
		if !ok {
			s.post(lost{x.call})
			return
		}
	}
	left := &waitingCall{ctx: c.ctx, results: c.results, done: c.done}
	settled := make(map[int]eventstore.Appended)
	for i, a := range answers {
		if unsettled(a.Err) {
			left.commits, left.places = append(left.commits, c.commits[i]), append(left.places, c.places[i])
		} else {
			settled[c.places[i]] = a
		}
	}
	s.settle(x.call, c, left, settled)
}

// unsettled reports whether a commit may be recorded although its answer is this.
func unsettled(err error) bool {
	return errors.Is(err, wire.ErrUnsettled) || errors.Is(err, errTakenBack) || errors.Is(err, eventstore.ErrClosed) || errors.As(err, new(*eventstore.FatalError))
}

// settle hands out results; what is left of the call is sent again.
func (s *Store) settle(id uint64, c, left *waitingCall, settled map[int]eventstore.Appended) {
	s.mu.Lock()
	if s.calls[id] != c {
		s.mu.Unlock()
		return // its caller is gone
	}
	for i, a := range settled {
		c.results[i] = a
	}
	if len(left.commits) > 0 {
		s.calls[id] = left
		s.mu.Unlock()
		s.post(lost{id})
		return
	}
	delete(s.calls, id)
	s.mu.Unlock()
	s.post(replied{id})
	close(c.done)
}

const (
	// tooOld is how much older than the log's newest id a commit may be that is not
	// recognised: an older one may have been recorded and forgotten
	// (eventstore.RecentTime).
	tooOld = 30 * time.Second
	// MaxAhead is how much newer a commit may be than the sequencer's clock and the log's
	// newest id: one node whose clock is wrong must not move the log's time, not even
	// that of the sequencer.
	MaxAhead = 500 * time.Millisecond
)

// admit is bolt's hook. It sees a commit when the committer has taken it from the
// queue, where it may have waited.
func (s *Store) admit(c *eventstore.Commit, newest domain.ID) error {
	at, last := domain.IDTime(c.ID), domain.IDTime(newest)
	switch {
	case at.Add(tooOld) < last:
		return eventstore.ErrUnconfirmed
	case at > max(last, domain.InstantOf(s.clock())).Add(MaxAhead):
		return wire.ErrTooNew
	}
	err := s.forms.Admit(c.Record.Body, s.now())
	if errors.Is(err, forms.ErrNotAsked) {
		return errTakenBack
	}
	return err
}
