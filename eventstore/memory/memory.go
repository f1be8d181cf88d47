// Package memory keeps the event log in memory: the same store as package
// bolt as far as callers can tell, for tests, with hooks that make its writes
// fail, hold them back just before they are durable, or damage what is stored.
//
// Like a file, the log can hold more than its readers see: records up to the last
// durable position are visible, and a write that failed may have left records
// after it. Only Reopen shows those.
package memory

import (
	"context"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	maxGroup   = 1024 // commits made durable together
	maxWaiting = 4096 // commits waiting for their group
	chunk      = 256  // records read under one lock
)

// Store is an event log in memory. Its hooks are safe for concurrent use, as
// are its methods.
type Store struct {
	fatalCh chan struct{}
	closeCh chan struct{}
	commits sync.WaitGroup

	mu         sync.Mutex
	log        *log
	durable    eventstore.Position
	wake       chan struct{} // closed when durable moves; nil while no reader waits
	waiting    []*pending
	committing bool
	closed     bool
	fatal      error

	hooks hooks
	flaws flaws
}

type pending struct {
	commit eventstore.Commit
	done   chan struct{}
	stored eventstore.Stored
	err    error
}

// New returns an empty log.
func New() *Store { return open(newLog()) }

func open(l *log) *Store {
	l.erase(0)
	return &Store{
		log: l, durable: l.last(),
		fatalCh: make(chan struct{}), closeCh: make(chan struct{}),
	}
}

// Reopen closes the store and opens its log again: with every record that was persisted, whether or
// not its Append succeeded. Hooks are not carried over, damage is.
func (s *Store) Reopen() *Store {
	_ = s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.log.records {
		s.log.records[i].Event = nil
	}
	return open(s.log)
}

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	waiting := make([]*pending, len(commits))
	for i, c := range commits {
		waiting[i] = &pending{commit: c, done: make(chan struct{}), err: ctx.Err()}
		if waiting[i].err == nil {
			waiting[i].err = c.Validate()
		}
	}
	s.enqueue(waiting)
	results := make([]eventstore.Appended, len(commits))
	for i, p := range waiting {
		select {
		case <-p.done:
			results[i] = eventstore.Appended{Stored: p.stored, Err: p.err}
		case <-ctx.Done():
			results[i].Err = ctx.Err()
		}
	}
	return results
}

// enqueue queues the commits, except those with an error and those that are
// refused.
func (s *Store) enqueue(all []*pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		switch {
		case p.err != nil:
		case s.closed:
			p.err = eventstore.ErrClosed
		case s.fatal != nil && !s.flaws.survivesFaults:
			p.err = s.fatal
		case s.hooks.refuse != nil:
			p.err = s.hooks.refuse
		case len(s.waiting) >= maxWaiting:
			p.err = eventstore.ErrBusy
		}
		if p.err != nil {
			close(p.done)
			continue
		}
		s.waiting = append(s.waiting, p)
	}
	if len(s.waiting) > 0 && !s.committing {
		s.committing = true
		s.commits.Go(s.commitWaiting)
	}
}

// commitWaiting commits group after group until no commit waits. All results of a
// group are given together, after the group is durable.
func (s *Store) commitWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		n := min(len(s.waiting), maxGroup)
		group := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.commitGroup(group)
	}
	s.committing = false
}

func (s *Store) commitGroup(group []*pending) {
	if s.fatal == nil || s.flaws.survivesFaults {
		before := s.log.last()
		for _, p := range group {
			p.stored, p.err = s.stage(p.commit)
			if p.err != nil && s.flaws.earlyRefusals {
				close(p.done)
			}
		}
		if s.log.last() > before {
			s.sync(before)
		}
	}
	for _, p := range group {
		early := p.err != nil && s.flaws.earlyRefusals
		if s.fatal != nil && !s.flaws.survivesFaults {
			p.stored, p.err = eventstore.Stored{}, s.fatal
		}
		if p.err == nil && s.hooks.lose != nil {
			p.stored, p.err = eventstore.Stored{}, s.hooks.lose
		}
		if !early {
			close(p.done)
		}
	}
}

// sync makes the records staged after the position durable, or fails as the hooks
// say.
func (s *Store) sync(before eventstore.Position) {
	if s.flaws.earlyRecords {
		s.publish()
	}
	if st := s.hooks.stall; st != nil {
		s.hooks.stall = nil
		s.mu.Unlock()
		close(st.held)
		<-st.released
		s.mu.Lock()
	}
	if f := s.hooks.fault; f != nil {
		s.hooks.fault = nil
		if !f.Persisted {
			s.log.truncate(before)
		}
		s.fatal = &eventstore.FatalError{Err: f.Err}
		close(s.fatalCh)
		return
	}
	s.publish()
}

func (s *Store) publish() {
	s.log.erase(s.durable)
	s.durable = s.log.last()
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// stage checks the commit, claims before expectations, against the log with the
// records that are staged in the same group, and adds it.
func (s *Store) stage(c eventstore.Commit) (eventstore.Stored, error) {
	if c.Claim != nil {
		if at := s.log.claims[keyOf(c.Record.Stream.Project, c.Claim)]; at != 0 && s.counts(at) {
			r := s.log.records[at-1]
			if r.Commit == c.ID {
				return r, nil
			}
			return eventstore.Stored{}, &eventstore.ClaimedError{Value: r}
		}
	}
	head := s.log.heads[c.Record.Stream]
	if head != 0 && s.log.records[head-1].Commit == c.ID && !s.flaws.forgetsIDs {
		return s.log.records[head-1], nil
	}
	if head != c.Record.Expect && s.counts(head) {
		return eventstore.Stored{}, &eventstore.ConflictError{Stream: c.Record.Stream, Actual: head}
	}
	return s.log.add(c), nil
}

// counts reports whether checks consider the position: all are considered, unless
// the flaw is set that ignores staged records.
func (s *Store) counts(at eventstore.Position) bool {
	return at <= s.durable || !s.flaws.ignoreStaged
}

// Fatal is closed when a commit failed fatally: the store takes no more.
func (s *Store) Fatal() <-chan struct{} { return s.fatalCh }

// Err is the *eventstore.FatalError behind Fatal, or nil.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

// LastID is the newest event id in the log, zero for an empty log.
func (s *Store) LastID(context.Context) (domain.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return domain.ID{}, eventstore.ErrClosed
	}
	var newest domain.ID
	for _, r := range s.log.records[:s.durable] {
		if r.Commit.Compare(newest) > 0 {
			newest = r.Commit
		}
	}
	return newest, nil
}

// Close implements eventstore.Store. Closing again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closeCh)
	}
	s.mu.Unlock()
	s.commits.Wait()
	return nil
}
