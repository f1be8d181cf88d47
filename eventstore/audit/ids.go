package audit

import (
	"fmt"
	"slices"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	idsKept = 1 << 19 // ids in one of the two sets
	// An id is issued before its event is recorded, and running commands can finish
	// in any order. A lag of more than some seconds means that a process was
	// stopped in between.
	maxLag = 24 * time.Hour
)

// ids finds duplicate event ids: exactly among at least the last half million,
// and by their time when they are more than a day old.
type ids struct {
	recent, before idSet
	newest         domain.Instant
}

func newIDs() ids { return ids{recent: newIDSet()} }

// add adds an id. It returns what is wrong with the id, "" for nothing.
func (s *ids) add(id domain.ID) string {
	if s.recent.size() == idsKept {
		s.recent, s.before = newIDSet(), s.recent
	}
	if s.before.has(id) || !s.recent.add(id) {
		return fmt.Sprintf("event id %s is a duplicate", id)
	}
	at := domain.IDTime(id)
	switch {
	case id.IsZero():
		return "the event id is zero"
	case at.Add(maxLag) < s.newest:
		return fmt.Sprintf("event id %s is of %s, more than a day older than an event before it", id, at)
	}
	s.newest = max(s.newest, at)
	return ""
}

// nearEnd is how many ids an insertion into a sorted slice may move.
const nearEnd = 1 << 10

// idSet is a set of ids that are added nearly in order.
type idSet struct {
	sorted []domain.ID
	strays map[domain.ID]struct{} // more than nearEnd places from the end of sorted
}

func newIDSet() idSet { return idSet{strays: make(map[domain.ID]struct{})} }

func (s *idSet) size() int { return len(s.sorted) + len(s.strays) }

// place is the id's index in sorted, or the index to insert it at.
func (s *idSet) place(id domain.ID) (i int, ok bool) {
	n := len(s.sorted)
	from := n
	for step := 1; from > 0 && s.sorted[from-1].Compare(id) >= 0; step *= 2 {
		n, from = from, max(0, from-step)
	}
	i, ok = slices.BinarySearchFunc(s.sorted[from:n], id, domain.ID.Compare)
	return from + i, ok
}

func (s *idSet) has(id domain.ID) bool {
	i, ok := s.place(id)
	return ok || (i < len(s.sorted) && s.stray(id)) // a stray is less than the last sorted id
}

func (s *idSet) stray(id domain.ID) bool {
	_, ok := s.strays[id]
	return ok
}

// add returns false if the set already has the id.
func (s *idSet) add(id domain.ID) bool {
	switch i, ok := s.place(id); {
	case ok:
		return false
	case i == len(s.sorted):
		s.sorted = append(s.sorted, id)
		return true
	case s.stray(id):
		return false
	case i < len(s.sorted)-nearEnd:
		s.strays[id] = struct{}{}
	default:
		s.sorted = slices.Insert(s.sorted, i, id)
	}
	return true
}

const (
	claimDays    = 30 * 24 * time.Hour
	claimsPeriod = 15 * 24 * time.Hour
)

// claimKey is an idempotency key in its project, which is given by its number.
type claimKey struct {
	project uint32
	key     domain.Digest
}

type claimed struct {
	position eventstore.Position
	at       domain.Instant
}

// claims finds idempotency keys that were claimed twice within 30 days. It keeps
// the keys of the current period of 15 days and of the two before.
type claims struct {
	projects map[string]uint32
	periods  [3]map[claimKey]claimed // newest first
	period   int64
	newest   domain.Instant
}

func newClaims() claims {
	return claims{
		projects: make(map[string]uint32),
		periods:  [3]map[claimKey]claimed{make(map[claimKey]claimed), {}, {}},
	}
}

// add adds a key. It returns the position at which the key was claimed before, 0
// for none.
func (s *claims) add(r *eventstore.Stored, key domain.Digest) eventstore.Position {
	s.newest = max(s.newest, domain.IDTime(r.Commit))
	period := int64(s.newest) / claimsPeriod.Milliseconds()
	for n := min(period-s.period, 3); n > 0; n-- {
		s.periods = [3]map[claimKey]claimed{make(map[claimKey]claimed), s.periods[0], s.periods[1]}
	}
	s.period = period
	number, ok := s.projects[r.Stream.Project]
	if !ok {
		number = uint32(len(s.projects))
		s.projects[r.Stream.Project] = number
	}
	k := claimKey{number, key}
	for _, p := range s.periods {
		if was, ok := p[k]; ok && s.newest < was.at.Add(claimDays) {
			return was.position
		}
	}
	s.periods[0][k] = claimed{r.Position, s.newest}
	return 0
}
