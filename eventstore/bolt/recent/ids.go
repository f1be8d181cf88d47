package recent

import (
	"payledger/domain"
	"payledger/eventstore"
)

// maxIDs bounds the ids of one generation: if the clock jumped ahead, the log's
// time stands still until the clock is there, and no id would ever be forgotten.
const maxIDs = 1 << 20

// IDs finds the records of the newest commits by their ids, in two
// generations. When the active one is old and large enough, it takes the place of
// the other, which is forgotten. So the ids in the other one and the active one
// are at least those that eventstore.RecentTime and eventstore.RecentCommits ask
// for, and at most twice that.
type IDs struct {
	active, other map[domain.ID]eventstore.Position
	since         uint64 // the log's time in ms when the active generation began
}

// NewIDs returns an empty index. The ids that are in the log are added before any other; newest is
// the greatest of them.
func NewIDs(newest domain.ID) IDs { return IDs{since: newest.Time()} }

// Find returns the position of a recent commit, 0 if it is not known.
func (r *IDs) Find(id domain.ID) eventstore.Position {
	if at := r.active[id]; at != 0 {
		return at
	}
	return r.other[id]
}

// Add notes a commit, which may still be taken back.
func (r *IDs) Add(id domain.ID, at eventstore.Position) {
	if r.active == nil {
		r.active = make(map[domain.ID]eventstore.Position)
	}
	r.active[id] = at
}

// Remove takes back the newest commits.
func (r *IDs) Remove(records []eventstore.Stored) {
	for i := range records {
		delete(r.active, records[i].Commit)
	}
}

// Durable says that what was added is durable; newest is the greatest event id of
// the log, whose time is the log's.
func (r *IDs) Durable(newest domain.ID) {
	now, n := newest.Time(), len(r.active)
	old := n >= eventstore.RecentCommits && now >= r.since+uint64(eventstore.RecentTime.Milliseconds())
	if old || n >= maxIDs {
		r.other, r.active, r.since = r.active, nil, now
	}
}

// Needs reports whether the ids need that of an older commit, while the log's are
// read from the newest one on: of the last two RecentTimes, since a record may be
// somewhat younger than its id, and no fewer than RecentCommits.
func (r *IDs) Needs(older domain.ID) bool {
	n := len(r.active)
	return n < maxIDs && (n < eventstore.RecentCommits || older.Time()+2*uint64(eventstore.RecentTime.Milliseconds()) >= r.since)
}
