package recent

import (
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// However many commits there are in a minute, those of the last minute and the
// newest 65,536 are recognised, and no more than twice that are kept. A clock that
// stands still does not fill the memory.
func TestIDs(t *testing.T) {
	t.Parallel()
	const minute = uint64(60_000)
	id := func(n, ms uint64) domain.ID {
		id := domain.ID{8: byte(n >> 24), 9: byte(n >> 16), 10: byte(n >> 8), 11: byte(n)}
		if err := id.SetTime(ms); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for what, perMinute := range map[string]uint64{"slow": 1 << 14, "fast": 1 << 17, "frozen": 0} {
		at := func(n uint64) uint64 {
			if perMinute == 0 {
				return 1
			}
			return 1 + n*minute/perMinute
		}
		var r IDs
		least := max(eventstore.RecentCommits, perMinute)
		for n := uint64(1); n <= 1<<20+1<<17; n++ {
			r.Add(id(n, at(n)), eventstore.Position(n))
			r.Durable(id(n, at(n)))
			if kept := len(r.active) + len(r.other); (perMinute > 0 && kept > 2*int(least)+1) || kept > 2*maxIDs {
				t.Fatalf("%s: %d ids are kept after %d commits", what, kept, n)
			}
			if n%999 != 0 {
				continue
			}
			for _, back := range []uint64{0, 1, least / 2, least - 1} {
				if back < n && r.Find(id(n-back, at(n-back))) != eventstore.Position(n-back) {
					t.Fatalf("%s: commit %d is not recognised after commit %d", what, n-back, n)
				}
			}
		}
		if perMinute > 0 && r.Find(id(1, at(1))) != 0 {
			t.Errorf("%s: the first commit is still recognised", what)
		}
		taken := id(1<<31, at(1))
		r.Add(taken, 1)
		r.Remove([]eventstore.Stored{{Commit: taken}})
		if r.Find(taken) != 0 {
			t.Errorf("%s: a commit that was taken back is recognised", what)
		}
	}
}
