package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// waitingCall is an Append that is on its way. Commits that have an answer leave it.
type waitingCall struct {
	ctx     context.Context //nolint:containedctx // the caller's
	commits []eventstore.Commit
	places  []int // of the commits among the results
	results []eventstore.Appended
	done    chan struct{}
}

// errTakenBack is what the commits of a group are answered with that was taken back.
// They are sent again.
var errTakenBack = errors.New("the group was taken back")

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	results := make([]eventstore.Appended, len(commits))
	part := &waitingCall{}
	size := 0
	flush := func() {
		if len(part.commits) > 0 {
			s.call(ctx, part)
		}
		part, size = &waitingCall{}, 0
	}
	var last eventstore.Position
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
	for _, r := range results {
		last = max(last, r.Position)
	}
	// The caller reads its own writes on this node.
	if err := s.has(ctx, last); err != nil && last > 0 {
		for i := range results {
			results[i].Err = cmp.Or(results[i].Err, err)
		}
	}
	return results
}

// call sends commits to the sequencer until they are answered.
func (s *Store) call(ctx context.Context, c *waitingCall) {
	c.ctx, c.done = ctx, make(chan struct{})
	if err := s.ended(); err != nil {
		c.fail(err)
		return
	}
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	s.last++
	id := s.last
	if !closed {
		s.calls[id] = c
	}
	s.mu.Unlock()
	if closed {
		c.fail(eventstore.ErrClosed)
		return
	}
	s.post(calling{id})
	select {
	case <-c.done:
	case <-ctx.Done():
		s.mu.Lock()
		_, waits := s.calls[id]
		delete(s.calls, id)
		s.mu.Unlock()
		if !waits {
			<-c.done
			return
		}
		s.post(replied{id})
		c.fail(ctx.Err())
	}
}

func (c *waitingCall) fail(err error) {
	for _, i := range c.places {
		c.results[i].Err = err
	}
	close(c.done)
}

var errSeen = errors.New("seen")

// has waits until the file has the position.
func (s *Store) has(ctx context.Context, p eventstore.Position) error {
	if last, err := s.Store.Last(ctx); err != nil || last >= p {
		return err
	}
	err := s.Follow(ctx, p-1, eventstore.Filter{}, func(eventstore.Stored) error { return errSeen })
	if errors.Is(err, errSeen) {
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
	var answers [][]byte
	var here []eventstore.Appended
	if x.to == s.name {
		here = s.appendOwn(c.commits)
	} else {
		var request []byte
		for _, commit := range c.commits {
			request = parts(request, commitBytes(commit))
		}
		reply, err := s.nc.Request(s.prefix+string(x.to)+verbAppend, request, peerTime)
		if err == nil {
			answers, err = pieces(reply.Data)
		}
		if err != nil || len(answers) != len(c.commits) {
			s.post(lost{x.call})
			return
		}
	}
	left := &waitingCall{ctx: c.ctx, results: c.results, done: c.done}
	settled := make(map[int]eventstore.Appended)
	for i, commit := range c.commits {
		var a eventstore.Appended
		var ok bool
		if here != nil {
			a, ok = here[i], !unsettled(here[i].Err)
		} else {
			a, ok = answerOf(answers[i], commit)
		}
		if ok {
			settled[c.places[i]] = a
		} else {
			left.commits, left.places = append(left.commits, commit), append(left.places, c.places[i])
		}
	}
	s.settle(x.call, c, left, settled)
}

// unsettled reports whether a commit may be recorded although its answer is this.
func unsettled(err error) bool {
	return errors.Is(err, errTakenBack) || errors.Is(err, eventstore.ErrClosed) || errors.As(err, new(*eventstore.FatalError))
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

// tooOld is how much older than the log's newest id a commit may be: what is staged
// must still be recognised if it is there already (eventstore.RecentTime).
const tooOld = 30 * time.Second

// appendOwn gives commits to the own committer.
func (s *Store) appendOwn(commits []eventstore.Commit) []eventstore.Appended {
	results := make([]eventstore.Appended, len(commits))
	newest, err := s.LastID(s.ctx)
	var fresh []eventstore.Commit
	var places []int
	for i, c := range commits {
		switch {
		case err != nil:
			results[i].Err = err
		case domain.IDTime(c.ID).Add(tooOld) < domain.IDTime(newest):
			results[i].Err = errTakenBack
		default:
			fresh, places = append(fresh, c), append(places, i)
		}
	}
	for i, a := range s.Store.Append(s.ctx, fresh...) {
		results[places[i]] = a
	}
	return results
}
