package storetest

import "payledger/eventstore"

// checkForever: a permanent key is claimed once in the whole log, and is independent of idempotency
// keys.
func checkForever(s *subject) {
	first := s.forever(stream("prj_a", 1), 0, 1)
	r := s.add(first)
	keyed := s.add(s.claiming(stream("prj_a", 2), 0, 1)) // of the same bytes
	bad := s.forever(stream("prj_a", 9), 0, 2)
	bad.Claim.Fingerprint[0] = 1
	if _, err := eventstore.AppendOne(s.Context(), s.store, bad); err == nil {
		s.Error("a permanent claim with a fingerprint was taken")
	}
	for range 2 {
		for _, again := range []eventstore.Commit{
			s.forever(stream("prj_a", 3), 0, 1),
			s.forever(stream("prj_a", 2), keyed.Position, 1),
			s.forever(stream("prj_b", 1), 0, 1), // another project
			s.forever(stream("prj_a", 1), r.Position, 1),
			s.forever(stream("prj_a", 1), 77, 1), // a conflict as well
		} {
			_, err := eventstore.AppendOne(s.Context(), s.store, again)
			s.isClaimed(err, r)
		}
		_, err := eventstore.AppendOne(s.Context(), s.store, s.claiming(stream("prj_a", 4), 0, 1))
		s.isClaimed(err, keyed)
		again, err := eventstore.AppendOne(s.Context(), s.store, first)
		if err != nil {
			s.Errorf("sent twice: %v", err)
		}
		s.same("sent twice", again, r)
		got, ok := s.claimed(s.claiming(stream("prj_a", 2), 0, 1))
		if !ok {
			s.Error("the idempotency key is not found")
		}
		s.same("Claimed", got, keyed)
		if _, ok := s.claimed(s.claiming(stream("prj_b", 2), 0, 1)); ok {
			s.Error("what was claimed permanently is found as an idempotency key")
		}
		s.reopen()
	}
	if r := s.load(first.Record.Stream); len(r) != 1 || r[0].Claim == nil || *r[0].Claim != *first.Claim {
		s.Errorf("Load: %+v", r)
	}
}

// checkForeverLasts: years and any number of idempotency keys later, a key that
// was claimed permanently is still taken.
func checkForeverLasts(s *subject) {
	const day = 24 * 60 * 60 * 1000
	at := func(c eventstore.Commit, days int) eventstore.Commit {
		if err := c.ID.SetTime(firstMoment + uint64(days)*day); err != nil {
			s.Fatal(err)
		}
		return c
	}
	var held []eventstore.Stored
	const years = 6
	for i := range years {
		held = append(held, s.add(at(s.forever(stream("prj_a", i), 0, byte(i+1)), 365*i)))
		for n := range 8 {
			s.add(at(s.claiming(stream("prj_b", 100*i+n), 0, byte(8*i+n)), 365*i+20*n))
		}
		s.reopen()
		for n, r := range held {
			_, err := eventstore.AppendOne(s.Context(), s.store, at(s.forever(stream("prj_c", 100*i+n), 0, byte(n+1)), 365*i+300))
			s.isClaimed(err, r)
		}
	}
	if p := s.last(); p != 9*years {
		s.Errorf("Last = %d, want %d", p, 9*years)
	}
}

// checkStagedForever: two commits of different projects with one key in one
// group.
func checkStagedForever(s *subject) {
	winner, loser := s.forever(stream("prj_a", 1), 0, 1), s.forever(stream("prj_b", 2), 0, 1)
	_, queued, release := s.hold(s.commit(stream("prj_a", 9), 0), winner, loser, winner)
	release()
	a, b, again := queued[0].wait(), queued[1].wait(), queued[2].wait()
	if a.err != nil || again.err != nil {
		s.Fatal(a.err, again.err)
	}
	s.isClaimed(b.err, a.stored)
	s.same("the second answer", again.stored, a.stored)
	if n := len(s.load(loser.Record.Stream)); n != 0 {
		s.Errorf("the loser's stream has %d records", n)
	}
}

// checkForeverRace: 50 keys, 16 writers of different projects for each, one
// winner each.
func checkForeverRace(s *subject) {
	s.race(50, 16, func(writer, key int) eventstore.Commit {
		return s.forever(stream("prj_"+string(rune('a'+writer)), key), 0, byte(key))
	})
}
