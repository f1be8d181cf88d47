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
	// An id is issued before its event is recorded, and the order among those
	// under way is free. Only a process that was held up lags by more than
	// moments.
	maxLag = 24 * time.Hour
)

// ids finds event ids that come twice: exactly among the last half million at
// least, and by their time when they are older than a day.
type ids struct {
	recent, before idSet
	newest         domain.Instant
}

func newIDs() ids { return ids{recent: newIDSet()} }

// add says what is wrong with the id, "" for nothing.
func (s *ids) add(id domain.ID) string {
	if s.recent.size() == idsKept {
		s.recent, s.before = newIDSet(), s.recent
	}
	if s.before.has(id) || !s.recent.add(id) {
		return fmt.Sprintf("event id %s came before", id)
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

// nearEnd is how many ids an insertion may move.
const nearEnd = 1 << 10

// idSet is a set of ids that come nearly in order.
type idSet struct {
	sorted []domain.ID
	strays map[domain.ID]struct{} // that belong too far from the end
}

func newIDSet() idSet { return idSet{strays: make(map[domain.ID]struct{})} }

func (s *idSet) size() int { return len(s.sorted) + len(s.strays) }

// place is where the id stands among the sorted ones, or belongs.
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
	return ok || (i < len(s.sorted) && s.stray(id)) // strays are smaller than the greatest
}

func (s *idSet) stray(id domain.ID) bool {
	_, ok := s.strays[id]
	return ok
}

// add answers false if the id was there.
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

// claimKey is an idempotency key within its project. The project is numbered.
type claimKey struct {
	project uint32
	key     domain.Digest
}

type claimed struct {
	position eventstore.Position
	at       domain.Instant
}

// claims finds idempotency keys that were given away twice within 30 days. It
// keeps those of the present and two earlier periods of 15 days.
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

// add answers the position at which the key was claimed before, 0 for none.
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
