// Package storetest is the conformance suite of event stores: it checks what
// eventstore.Store promises on any store that can be reopened, held back, made to
// fail and damaged.
//
// Every check ends by reopening the log and running the store's verifier. Fails
// inverts a check, to show that it notices a broken store.
package storetest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// Log is one event log under test, with what the suite does to it beyond the Store
// interface. A method that cannot do its work fails the test.
type Log interface {
	// Open opens the log, which is empty at first. The store that was opened
	// before has been closed.
	Open() eventstore.Store

	// Verify checks everything that an open store holds.
	Verify(context.Context, eventstore.Store) error

	// Stall holds the next group of commits that writes something before its last step: all is
	// written, nothing is known to be durable. held is closed when the group is there; release lets it
	// continue and may be called more than once.
	Stall(eventstore.Store) (held <-chan struct{}, release func())

	// Waiting is the number of commits that wait for the next group.
	Waiting(eventstore.Store) int

	// Interrupted reports that what waits behind a group that is held goes elsewhere, by no fault
	// of the store: another node has come to lead. The check begins again on a new log.
	Interrupted() bool

	// Shared reports whether other stores have the log too and reads ask them. Such a
	// read waits for a group under way, and fails with the store; it shows nothing
	// of it.
	Shared() bool

	// Faults are the ways in which the log's writes can fail.
	Faults() []Fault

	// Size is the number of bytes of the record that Flip can damage. Flip inverts
	// one bit of one of them, or restores it. The store is closed meanwhile.
	Size(eventstore.Position) int
	Flip(p eventstore.Position, offset int)
}

// Fault is one way in which a write fails.
type Fault struct {
	Name string
	// Persisted: the group is in the log nevertheless.
	Persisted bool
	// Arm makes the next group that writes something fail in this way.
	Arm func(eventstore.Store)
}

type check struct {
	name string
	run  func(*subject)
}

func checks() []check {
	return []check{
		{"order", checkOrder},
		{"bodies", checkBodies},
		{"bounds", checkBounds},
		{"conflict", checkConflict},
		{"all or nothing", checkAllOrNothing},
		{"duplicate", checkDuplicate},
		{"together", checkTogether},
		{"staged conflict", checkStagedConflict},
		{"staged claim", checkStagedClaim},
		{"staged duplicate", checkStagedDuplicate},
		{"nothing early", checkNothingEarly},
		{"details", checkDetails},
		{"claims", checkClaims},
		{"claims last 30 days", checkClaimsLast},
		{"claim race", checkClaimRace},
		{"permanent claims", checkForever},
		{"permanent claims last", checkForeverLasts},
		{"staged permanent claim", checkStagedForever},
		{"permanent claim race", checkForeverRace},
		{"gapless", checkGapless},
		{"cursor across reopen", checkCursor},
		{"filters", checkFilters},
		{"follow from any position", checkFollow},
		{"follow is woken", checkFollowWoken},
		{"cancel", checkCancel},
		{"close", checkClose},
		{"busy", checkBusy},
		{"corruption", checkCorruption},
		{"faults", checkFaults},
		{"model", checkModel},
	}
}

// Run runs every check on logs that create makes, each in parallel with the
// others.
func Run(t *testing.T, create func(testing.TB) Log) {
	t.Helper()
	for _, c := range checks() {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c.on(t, create)
		})
	}
}

// Fails reports an error unless the named check fails on the logs that create
// makes, which are broken on purpose.
func Fails(t *testing.T, name string, create func(testing.TB) Log) {
	t.Helper()
	for _, c := range checks() {
		if c.name != name {
			continue
		}
		r := &recorder{TB: t}
		var done sync.WaitGroup
		done.Go(func() { c.on(r, create) })
		done.Wait()
		if !r.Failed() {
			t.Errorf("the check %q passed on a store that is broken", name)
		}
		return
	}
	t.Fatalf("there is no check %q", name)
}

func (c check) on(t testing.TB, create func(testing.TB) Log) {
	for c.once(t, create) {
		t.Log("another node came to lead while a group was held; the check begins again")
	}
}

// interrupted ends a check that has to begin again.
type interrupted struct{}

func (c check) once(t testing.TB, create func(testing.TB) Log) (again bool) {
	s := &subject{TB: t, log: create(t), create: create}
	defer func() {
		r := recover()
		if _, again = r.(interrupted); r != nil && !again {
			panic(r)
		}
	}()
	s.open()
	c.run(s)
	s.verify()
	return false
}

// recorder is a test whose failure does not fail the test it belongs to.
type recorder struct {
	testing.TB
	failed atomic.Bool
}

func (r *recorder) Failed() bool          { return r.failed.Load() }
func (r *recorder) Fail()                 { r.failed.Store(true) }
func (r *recorder) FailNow()              { r.Fail(); runtime.Goexit() }
func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Log(...any)            {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.FailNow() }
func (r *recorder) Skipf(string, ...any)  { r.FailNow() }
func (r *recorder) SkipNow()              { r.FailNow() }

// subject is the log of one check with its open store.
type subject struct {
	testing.TB
	log    Log
	create func(testing.TB) Log
	store  eventstore.Store
	issued atomic.Uint64
}

func (s *subject) open() {
	s.Helper()
	store := s.log.Open()
	s.store = store
	s.Cleanup(func() { _ = store.Close() })
}

func (s *subject) reopen() {
	s.Helper()
	if err := s.store.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	s.open()
}

func (s *subject) verify() {
	s.Helper()
	s.reopen()
	if err := s.log.Verify(s.Context(), s.store); err != nil {
		s.Errorf("Verify: %v", err)
	}
	if err := s.store.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
}

// firstMoment is the time of the first id: 2026-11-20T10:15:30.123Z.
const firstMoment = 1795169730123

// id issues event ids a millisecond apart.
func (s *subject) id() domain.ID {
	n := s.issued.Add(1)
	var id domain.ID
	if err := id.SetTime(firstMoment + n); err != nil {
		s.Fatal(err)
	}
	id[15], id[14] = byte(n), byte(n>>8)
	return id
}

// stream names the n-th payment of the project.
func stream(project string, n int) eventstore.Stream {
	id := domain.ID{1, 160, 112, 116, 98, 90}
	id[14], id[15] = byte(n>>8), byte(n)
	return eventstore.PaymentStream(project, id)
}

func (s *subject) commit(st eventstore.Stream, expect eventstore.Position) eventstore.Commit {
	id := s.id()
	return eventstore.Commit{
		ID:     id,
		Record: eventstore.Record{Stream: st, Expect: expect, Body: []byte(`{"id":"` + id.String() + `"}`)},
	}
}

func (s *subject) claiming(st eventstore.Stream, expect eventstore.Position, key byte) eventstore.Commit {
	c := s.commit(st, expect)
	c.Claim = &eventstore.Claim{Key: domain.Digest{key, 31: 1}, Fingerprint: domain.Digest{key, 31: 2}}
	return c
}

// forever is a commit with a permanent claim.
func (s *subject) forever(st eventstore.Stream, expect eventstore.Position, key byte) eventstore.Commit {
	c := s.commit(st, expect)
	c.Claim = &eventstore.Claim{Key: domain.Digest{key, 31: 1}, Forever: true}
	return c
}

// add appends a commit that must succeed.
func (s *subject) add(c eventstore.Commit) eventstore.Stored {
	s.Helper()
	r, err := eventstore.AppendOne(s.Context(), s.store, c)
	if err != nil {
		s.Fatalf("Append(%s): %v", c.ID, err)
	}
	return r
}

// answer is the result of an Append.
type answer struct {
	stored eventstore.Stored
	err    error
}

// started is an Append in the background; done is closed when it has returned.
type started struct {
	answer
	done chan struct{}
}

func (s *subject) start(c eventstore.Commit) *started {
	return s.startWith(s.Context(), c)
}

func (s *subject) startWith(ctx context.Context, c eventstore.Commit) *started {
	a := &started{done: make(chan struct{})}
	store := s.store
	go func() {
		defer close(a.done)
		a.stored, a.err = eventstore.AppendOne(ctx, store, c)
	}()
	s.Cleanup(func() { <-a.done })
	return a
}

func (a *started) wait() answer {
	<-a.done
	return a.answer
}

func (a *started) answered() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// stall holds the next group, see Log.Stall.
func (s *subject) stall() (held <-chan struct{}, release func()) {
	held, letGo := s.log.Stall(s.store)
	s.Cleanup(letGo)
	return held, func() {
		deposed := s.log.Interrupted()
		letGo()
		if deposed {
			panic(interrupted{})
		}
	}
}

// queuedUp waits until the condition holds of the commits behind a group that is held.
func (s *subject) queuedUp(release func(), condition func() bool) {
	s.Helper()
	for !condition() {
		if s.log.Interrupted() {
			release()
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// hold brings a group with the commit c alone to its last step and queues the
// others behind it, in order.
func (s *subject) hold(c eventstore.Commit, behind ...eventstore.Commit) (first *started, queued []*started, release func()) {
	s.Helper()
	held, release := s.stall()
	first = s.start(c)
	<-held
	for i, c := range behind {
		queued = append(queued, s.start(c))
		s.queuedUp(release, func() bool { return s.log.Waiting(s.store) == i+1 })
	}
	return first, queued, release
}
