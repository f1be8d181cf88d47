package storetest

import (
	"bytes"
	"errors"

	"payledger/eventstore"
)

// checkFaults: each write that can fail, each on a new log. The group and all commits after it
// fail, nothing of it is shown, and the next open decides whether it is in the log. In both cases
// the commits can be sent again.
func checkFaults(s *subject) {
	for i := range s.log.Faults() {
		f := &subject{TB: s.TB, log: s.create(s.TB), create: s.create}
		f.open()
		f.meet(f.log.Faults()[i])
		f.verify()
	}
}

func (s *subject) meet(fault Fault) {
	s.Helper()
	// Enough that every index of the log has grown beyond its first page.
	var growing []*started
	for i := range 40 {
		c := s.claiming(stream("prj_b", i), 0, byte(100+i))
		c.Record.Body = bytes.Repeat(c.Record.Body, 20)
		growing = append(growing, s.start(c))
	}
	for _, a := range growing {
		if err := a.wait().err; err != nil {
			s.Fatal(err)
		}
	}
	base := s.scan(0, eventstore.Filter{})
	last := s.last()
	fault.Arm(s.store)
	var commits []eventstore.Commit
	var answers []*started
	for i := range 16 {
		commits = append(commits, s.claiming(stream("prj_a", i+1), 0, byte(i)))
	}
	for _, c := range commits {
		answers = append(answers, s.start(c))
	}
	for _, a := range answers {
		s.isFatal(fault.Name, a.wait().err)
	}
	_, err := eventstore.AppendOne(s.Context(), s.store, s.commit(stream("prj_a", 50), 0))
	s.isFatal(fault.Name+", afterwards", err)
	s.same(fault.Name+": what is shown", s.scan(0, eventstore.Filter{}), base)
	for _, c := range commits {
		if records, _ := s.peekLoad(c.Record.Stream); len(records) > 0 || s.peekClaimed(c) {
			s.Errorf("%s: a record is shown that failed", fault.Name)
		}
	}
	err = s.store.Follow(s.Context(), last, eventstore.Filter{}, func(eventstore.Stored) error { return nil })
	s.isFatal(fault.Name+", Follow", err)

	s.reopen()
	if err := s.log.Verify(s.Context(), s.store); err != nil {
		s.Fatalf("%s: Verify: %v", fault.Name, err)
	}
	if n := len(s.scan(last, eventstore.Filter{})); (n > 0) != fault.Persisted {
		s.Errorf("%s: %d records survived, persisted: %v", fault.Name, n, fault.Persisted)
	}
	for _, c := range commits {
		r := s.add(c)
		s.same(fault.Name+": Load", s.load(c.Record.Stream), []eventstore.Stored{r})
	}
	if p := s.last(); p != last+eventstore.Position(len(commits)) {
		s.Errorf("%s: Last = %d, want %d", fault.Name, p, int(last)+len(commits))
	}
}

func (s *subject) isFatal(what string, err error) {
	s.Helper()
	if _, ok := errors.AsType[*eventstore.FatalError](err); !ok {
		s.Errorf("%s: the answer is %v, want a fatal error", what, err)
	}
}

// checkCorruption: whichever byte of a record changes, every read of it reports
// its position, and the records before it are read as before.
func checkCorruption(s *subject) {
	first := s.add(s.claiming(stream("prj_a", 1), 0, 1))
	second := s.add(s.commit(stream("prj_a", 1), first.Position))
	s.add(s.commit(stream("prj_a", 2), 0))
	for p, before := range [][]eventstore.Stored{1: {}, 2: {first}} {
		if p == 0 {
			continue
		}
		at := eventstore.Position(p)
		for offset := range s.log.Size(at) {
			s.damage(at, offset)
			var got []eventstore.Stored
			var corrupt *eventstore.CorruptError
			for r, err := range s.store.Scan(s.Context(), 0, eventstore.Filter{}) {
				if err == nil {
					got = append(got, r)
				} else if !errors.As(err, &corrupt) || corrupt.Position != at {
					s.Errorf("byte %d of record %d: Scan answers %v", offset, at, err)
				}
			}
			if corrupt == nil || len(got) != len(before) {
				s.Errorf("byte %d of record %d: Scan shows %d records, then %v", offset, at, len(got), corrupt)
			}
			for _, err := range s.store.Load(s.Context(), second.Stream) {
				s.isCorrupt("Load", err, at)
			}
			if at == first.Position {
				_, _, err := s.store.Claimed(s.Context(), first.Stream.Project, first.Claim.Key)
				s.isCorrupt("Claimed", err, at)
			}
			s.isCorrupt("Verify", s.log.Verify(s.Context(), s.store), at)
			s.damage(at, offset) // the same again repairs it
		}
	}
	s.same("Load", s.load(first.Stream), []eventstore.Stored{first, second})
}

func (s *subject) isCorrupt(what string, err error, at eventstore.Position) {
	s.Helper()
	var corrupt *eventstore.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Position != at {
		s.Errorf("%s of damaged record %d: %v", what, at, err)
	}
}

func (s *subject) damage(p eventstore.Position, offset int) {
	s.Helper()
	if err := s.store.Close(); err != nil {
		s.Fatal(err)
	}
	s.log.Flip(p, offset)
	s.open()
}
