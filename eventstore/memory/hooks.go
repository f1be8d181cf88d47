package memory

import (
	"errors"
	"sync"

	"payledger/eventstore"
)

// Fault makes a commit fail fatally.
type Fault struct {
	// Persisted: the group is on disk nevertheless, which only Reopen shows.
	Persisted bool
	// Err is the reason within the FatalError.
	Err error
}

type hooks struct {
	fault  *Fault
	stall  *stall
	refuse error
	lose   error
}

// flaws break the store, to show that its tests notice.
type flaws struct {
	ignoreStaged   bool // checks forget what is staged in the same group
	earlyRefusals  bool // refusals are answered before their group is durable
	earlyRecords   bool // records are shown before they are durable
	forgetsIDs     bool // a commit is recognised by its claim only
	survivesFaults bool // commits are taken after one has failed
}

// FailNext makes the next group that writes something fail.
func (s *Store) FailNext(f Fault) {
	if f.Err == nil {
		f.Err = errors.New("the write failed on purpose")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.fault = &f
}

// Refuse makes every Append fail with err, for instance eventstore.ErrFull or
// ErrBusy, until it is called with nil.
func (s *Store) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.refuse = err
}

// Lose makes every Append answer err for what it records, for instance
// eventstore.ErrUnconfirmed, until it is called with nil.
func (s *Store) Lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.lose = err
}

// Damage makes every read of the record at the position fail with an
// *eventstore.CorruptError, or repairs the record if it is damaged already.
func (s *Store) Damage(p eventstore.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.damaged[p] = !s.log.damaged[p]
}

// Stall holds the next group that writes something before its last step: all is written, nothing is
// durable. held is closed when the group is there; release lets it continue and may be called more
// than once. Commits that come meanwhile wait for the next group.
func (s *Store) Stall() (held <-chan struct{}, release func()) {
	st := &stall{held: make(chan struct{}), released: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.stall = st
	return st.held, sync.OnceFunc(func() { close(st.released) })
}

// Waiting is the number of commits that are not in a group yet.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

type stall struct{ held, released chan struct{} }
