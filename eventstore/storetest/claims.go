package storetest

import (
	"errors"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// checkClaims: a key is claimed once per project, is checked before the expectation, and is found
// again.
func checkClaims(s *subject) {
	c := s.claiming(stream("prj_a", 1), 0, 1)
	if _, ok := s.claimed(c); ok {
		s.Error("an unclaimed key is found")
	}
	r := s.add(c)
	elsewhere := s.claiming(stream("prj_b", 1), 0, 1)
	if _, ok := s.claimed(elsewhere); ok {
		s.Error("a key of one project is found in another")
	}
	other := s.add(elsewhere)
	for range 2 {
		for _, again := range []eventstore.Commit{
			s.claiming(stream("prj_a", 3), 0, 1),
			s.claiming(stream("prj_a", 2), 0, 1),
			s.claiming(stream("prj_a", 1), r.Position, 1),
			s.claiming(stream("prj_a", 1), 77, 1), // a conflict as well
		} {
			_, err := eventstore.AppendOne(s.Context(), s.store, again)
			s.isClaimed(err, r)
		}
		for c, want := range map[*eventstore.Commit]eventstore.Stored{&c: r, &elsewhere: other} {
			got, ok := s.claimed(*c)
			if !ok {
				s.Error("a claim is not found")
			}
			s.same("Claimed", got, want)
		}
		s.reopen()
	}
}

// checkClaimsLast: a key is remembered for 30 days, after any number of others.
func checkClaimsLast(s *subject) {
	const day = 24 * 60 * 60 * 1000
	at := func(c eventstore.Commit, millis uint64) eventstore.Commit {
		if err := c.ID.SetTime(firstMoment + millis); err != nil {
			s.Fatal(err)
		}
		return c
	}
	for start := range uint64(16) {
		key, first := byte(start+1), start*41*day
		claimed := at(s.claiming(stream("prj_a", int(start)), 0, key), first)
		r := s.add(claimed)
		head := s.add(at(s.commit(stream("prj_b", 2*int(start)), 0), first+16*day))
		s.add(at(s.commit(stream("prj_b", 2*int(start)+1), 0), first+30*day))
		got, ok := s.claimed(claimed)
		if !ok {
			s.Fatalf("a key was forgotten within 30 days, started on day %d", start*41)
		}
		s.same("Claimed", got, r)
		_, err := eventstore.AppendOne(s.Context(), s.store, at(s.claiming(head.Stream, head.Position, key+100), first+30*day))
		if err != nil {
			s.Fatal(err)
		}
		_, err = eventstore.AppendOne(s.Context(), s.store, at(s.claiming(stream("prj_a", 500), 0, key), first+30*day))
		s.isClaimed(err, r)
		if start%4 == 0 {
			s.reopen()
		}
	}
}

// checkClaimRace: 100 keys, 32 writers for each, one winner each.
func checkClaimRace(s *subject) {
	winners := s.race(100, 32, func(writer, key int) eventstore.Commit {
		return s.claiming(stream("prj_a", 100*writer+key), 0, byte(key))
	})
	for key, want := range winners {
		r, ok, err := s.store.Claimed(s.Context(), "prj_a", domain.Digest{byte(key), 31: 1})
		if !ok || err != nil {
			s.Fatalf("Claimed: %v, %v", ok, err)
		}
		s.same("Claimed", r, want)
	}
}

// race has each writer append a commit for each key, in different orders. Of each
// key's commits one succeeds, and the others fail with that one's record.
func (s *subject) race(keys, writers int, commit func(writer, key int) eventstore.Commit) (winners map[int]eventstore.Stored) {
	s.Helper()
	winners = make(map[int]eventstore.Stored)
	holders := make(map[int][]eventstore.Stored)
	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range keys {
				key := (i + 3*w) % keys
				r, err := eventstore.AppendOne(s.Context(), s.store, commit(w, key))
				var claimed *eventstore.ClaimedError
				mu.Lock()
				switch {
				case err == nil:
					if _, twice := winners[key]; twice {
						s.Errorf("key %d was claimed twice", key)
					}
					winners[key] = r
				case errors.As(err, &claimed):
					holders[key] = append(holders[key], claimed.Value)
				default:
					s.Errorf("Append: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(winners) != keys || s.last() != eventstore.Position(keys) {
		s.Errorf("%d winners, %d records, want %d", len(winners), s.last(), keys)
	}
	for key, found := range holders {
		for _, r := range found {
			s.same("the holder in the error", r, winners[key])
		}
	}
	return winners
}
