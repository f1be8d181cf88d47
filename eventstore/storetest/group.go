package storetest

import (
	"context"
	"errors"
	"runtime"

	"payledger/eventstore"
)

// checkStagedConflict: two commits of one stream in one group: the first wins,
// the second fails alone.
func checkStagedConflict(s *subject) {
	st := stream("prj_a", 1)
	winner, loser, other := s.commit(st, 0), s.commit(st, 0), s.commit(stream("prj_a", 2), 0)
	first, queued, release := s.hold(s.commit(stream("prj_a", 9), 0), winner, loser, other)
	release()
	if a := first.wait(); a.err != nil {
		s.Fatal(a.err)
	}
	a, b, c := queued[0].wait(), queued[1].wait(), queued[2].wait()
	if a.err != nil || c.err != nil {
		s.Fatalf("the winner: %v, the bystander: %v", a.err, c.err)
	}
	s.isConflict(b.err, st, a.stored.Position)
	s.same("the winner's position", a.stored.Position, eventstore.Position(2))
	s.same("the bystander's position", c.stored.Position, eventstore.Position(3))
	s.same("Load", s.load(st), []eventstore.Stored{a.stored})
}

// checkTogether: the commits of one call are decided in their order, each by
// itself, and answered when all of them are.
func checkTogether(s *subject) {
	st := stream("prj_a", 1)
	first, loser, patient := s.claiming(st, 0, 1), s.commit(st, 0), s.commit(stream("prj_a", 4), 0)
	patient.Patient = true
	thief, bad, last := s.claiming(stream("prj_a", 2), 0, 1), s.commit(st, 0), s.commit(stream("prj_a", 3), 0)
	bad.Record.Body = nil
	all := []eventstore.Commit{first, loser, patient, thief, bad, first, last}
	held, release := s.stall()
	answered := make(chan []eventstore.Appended, 1)
	store := s.store
	go func() { answered <- store.Append(s.Context(), all...) }()
	<-held
	for range 1000 {
		runtime.Gosched()
	}
	if len(answered) > 0 {
		s.Error("commits were answered before they were durable")
	}
	release()
	done := <-answered
	stored, ok := s.claimed(first)
	if !ok || len(done) != len(all) {
		s.Fatalf("%v", done)
	}
	for _, i := range []int{0, 2, 5, 6} {
		if done[i].Err != nil {
			s.Errorf("commit %d: %v", i, done[i].Err)
			continue
		}
		for _, r := range s.load(all[i].Record.Stream) {
			s.same("the position answered", done[i].Position, r.Position)
		}
	}
	s.isConflict(done[1].Err, st, stored.Position)
	s.isClaimed(done[3].Err, stored)
	if done[4].Err == nil {
		s.Error("a commit without a body was taken")
	}
	if p := s.last(); p != 3 || len(s.load(last.Record.Stream)) != 1 || len(s.load(patient.Record.Stream)) != 1 {
		s.Errorf("Last = %d, want 3", p)
	}
	if done := s.store.Append(s.Context()); len(done) != 0 {
		s.Errorf("no commits are answered with %v", done)
	}
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	for _, a := range s.store.Append(ended, all...) {
		if !errors.Is(a.Err, context.Canceled) {
			s.Errorf("with an ended context: %v", a.Err)
		}
	}
	s.log.Faults()[0].Arm(s.store)
	for _, a := range s.store.Append(s.Context(), s.commit(stream("prj_a", 5), 0), s.commit(stream("prj_a", 6), 0)) {
		s.isFatal("together", a.Err)
	}
}

// checkStagedClaim: two commits with one key in one group.
func checkStagedClaim(s *subject) {
	winner, loser := s.claiming(stream("prj_a", 1), 0, 1), s.claiming(stream("prj_a", 2), 0, 1)
	_, queued, release := s.hold(s.commit(stream("prj_a", 9), 0), winner, loser)
	release()
	a, b := queued[0].wait(), queued[1].wait()
	if a.err != nil {
		s.Fatal(a.err)
	}
	s.isClaimed(b.err, a.stored)
	if n := len(s.load(loser.Record.Stream)); n != 0 {
		s.Errorf("the loser's stream has %d records", n)
	}
}

// checkStagedDuplicate: one commit twice in one group is one record.
func checkStagedDuplicate(s *subject) {
	c, d := s.commit(stream("prj_a", 1), 0), s.claiming(stream("prj_a", 2), 0, 1)
	_, queued, release := s.hold(s.commit(stream("prj_a", 9), 0), c, d, c, d)
	release()
	for i := range 2 {
		a, b := queued[i].wait(), queued[i+2].wait()
		if a.err != nil || b.err != nil {
			s.Fatal(a.err, b.err)
		}
		s.same("the second answer", b.stored, a.stored)
	}
	if p := s.last(); p != 3 {
		s.Errorf("Last = %d, want 3", p)
	}
}

// checkNothingEarly: before a group is durable neither its records nor its
// refusals are shown.
func checkNothingEarly(s *subject) {
	st := stream("prj_a", 1)
	before := s.add(s.claiming(st, 0, 1))
	_, queued, release := s.hold(s.commit(stream("prj_a", 9), 0),
		s.claiming(st, before.Position, 2),
		s.claiming(st, before.Position, 3),            // a conflict with what is staged
		s.claiming(stream("prj_a", 2), 0, 2),          // a claim that is staged
		s.commit(stream("prj_a", 3), before.Position), // a conflict with what is durable
	)
	followed := make(chan eventstore.Stored, 16)
	following := make(chan error, 1)
	store := s.store
	go func() {
		following <- store.Follow(s.Context(), before.Position, eventstore.Filter{}, func(r eventstore.Stored) error {
			followed <- r
			return nil
		})
	}()
	s.nothingAfter(before, s.claiming(st, 0, 2))

	held, releaseGroup := s.stall()
	release()
	<-held
	if r := <-followed; r.Position != before.Position+1 {
		s.Errorf("the follower saw position %d first", r.Position)
	}
	// A goroutine that can continue had the time to do so.
	for range 1000 {
		runtime.Gosched()
	}
	for i, q := range queued {
		if q.answered() {
			s.Errorf("commit %d of the group was answered before it was durable: %v", i, q.err)
		}
	}
	if len(followed) > 0 {
		s.Error("the follower saw a record before it was durable")
	}
	if records, shown := s.peekLoad(st); shown {
		s.same("Load before the group is durable", records, []eventstore.Stored{before})
	}
	if s.peekClaimed(s.claiming(st, 0, 2)) {
		s.Error("a claim was shown before it was durable")
	}
	if p, shown := s.peekLast(); shown && p != before.Position+1 {
		s.Errorf("Last = %d before the group is durable", p)
	}
	releaseGroup()
	won := queued[0].wait()
	if won.err != nil {
		s.Fatal(won.err)
	}
	s.isConflict(queued[1].wait().err, st, won.stored.Position)
	s.isClaimed(queued[2].wait().err, won.stored)
	s.isConflict(queued[3].wait().err, stream("prj_a", 3), 0)
	s.same("the follower's next", <-followed, won.stored)
	s.same("Load", s.load(st), []eventstore.Stored{before, won.stored})
	if err := s.store.Close(); err != nil {
		s.Error(err)
	}
	if err := <-following; !errors.Is(err, eventstore.ErrClosed) {
		s.Errorf("Follow answered %v, want ErrClosed", err)
	}
	s.open()
}

// nothingAfter checks that the held record and the queued ones do not show.
func (s *subject) nothingAfter(before eventstore.Stored, queued eventstore.Commit) {
	s.Helper()
	if p, shown := s.peekLast(); shown && p != before.Position {
		s.Errorf("Last = %d while the next record is held back", p)
	}
	if n := len(s.scan(before.Position, eventstore.Filter{})); n != 0 {
		s.Errorf("Scan shows %d records that are not durable", n)
	}
	if records, _ := s.peekLoad(stream("prj_a", 9)); len(records) != 0 {
		s.Errorf("Load shows %d records that are not durable", len(records))
	}
	if s.peekClaimed(queued) {
		s.Error("a claim is shown that is not durable")
	}
}

func (s *subject) isClaimed(err error, value eventstore.Stored) {
	s.Helper()
	var claimed *eventstore.ClaimedError
	if !errors.As(err, &claimed) {
		s.Errorf("the answer is %v, want that the key is taken", err)
		return
	}
	s.same("the claim's holder", claimed.Value, value)
}

// checkBusy: commits that do not fit in the queue are refused instead of filling the memory, and
// all others succeed.
func checkBusy(s *subject) {
	const most = 1 << 16
	_, _, release := s.hold(s.commit(stream("prj_a", 0), 0))
	var waiting []*started
	busy := false
	for i := 1; i < most && !busy; i++ {
		st := stream("prj_a", i)
		before := s.log.Waiting(s.store)
		a := s.start(s.commit(st, 0))
		s.queuedUp(release, func() bool {
			return a.answered() || s.log.Waiting(s.store) > before
		})
		if busy = a.answered(); !busy {
			waiting = append(waiting, a)
		} else if !errors.Is(a.err, eventstore.ErrBusy) {
			s.Errorf("the answer is %v, want ErrBusy", a.err)
		}
	}
	release()
	if !busy {
		s.Errorf("%d commits wait and none was refused", most)
	}
	for _, a := range waiting {
		if err := a.wait().err; err != nil {
			s.Fatal(err)
		}
	}
	if p := s.last(); p != eventstore.Position(len(waiting)+1) {
		s.Errorf("Last = %d, want %d", p, len(waiting)+1)
	}
}
