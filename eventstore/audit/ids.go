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

// idSet is a set of ids, of which most come in their order.
type idSet struct {
	sorted []domain.ID            // each was greater than all before it
	strays map[domain.ID]struct{} // the others
}

func newIDSet() idSet { return idSet{strays: make(map[domain.ID]struct{})} }

func (s *idSet) size() int { return len(s.sorted) + len(s.strays) }

// above reports whether the id is greater than all in the set.
func (s *idSet) above(id domain.ID) bool {
	n := len(s.sorted)
	return n == 0 || s.sorted[n-1].Compare(id) < 0
}

func (s *idSet) has(id domain.ID) bool {
	if s.above(id) {
		return false
	}
	_, sorted := slices.BinarySearchFunc(s.sorted, id, domain.ID.Compare)
	_, stray := s.strays[id]
	return sorted || stray
}

// add returns false if the set already has the id.
func (s *idSet) add(id domain.ID) bool {
	switch {
	case s.above(id):
		s.sorted = append(s.sorted, id)
	case s.has(id):
		return false
	default:
		s.strays[id] = struct{}{}
	}
	return true
}

const claimDays = 30 * 24 * time.Hour

// claimKey is an idempotency key in its project, which is given by its number.
type claimKey struct {
	project uint32
	key     domain.Digest
}

type claimed struct {
	position eventstore.Position
	at       domain.Instant
}

// claims finds idempotency keys that were claimed twice within 30 days. It keeps the keys of the last 30
// days at least, and of the last 60 at most.
type claims struct {
	projects       map[string]uint32
	recent, before map[claimKey]claimed
	since          domain.Instant // when recent began
	newest         domain.Instant
}

func newClaims() claims {
	return claims{projects: make(map[string]uint32), recent: make(map[claimKey]claimed)}
}

// add adds a key. It returns the position at which the key was claimed before, 0
// for none.
func (s *claims) add(r *eventstore.Stored, key domain.Digest) eventstore.Position {
	if s.newest = max(s.newest, domain.IDTime(r.Commit)); s.newest >= s.since.Add(claimDays) {
		s.recent, s.before, s.since = make(map[claimKey]claimed), s.recent, s.newest
	}
	number, ok := s.projects[r.Stream.Project]
	if !ok {
		number = uint32(len(s.projects))
		s.projects[r.Stream.Project] = number
	}
	k := claimKey{number, key}
	for _, p := range [...]map[claimKey]claimed{s.recent, s.before} {
		if was, ok := p[k]; ok && s.newest < was.at.Add(claimDays) {
			return was.position
		}
	}
	s.recent[k] = claimed{r.Position, s.newest}
	return 0
}
