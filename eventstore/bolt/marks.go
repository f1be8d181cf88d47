package bolt

import (
	"hash/maphash"
	"sync/atomic"

	"payledger/eventstore"
)

// manyMarks is how many there are. At some hundred records that somebody has
// yet to follow, one stream in a hundred seems to be among theirs and is not.
const manyMarks = 1 << 16

// marks tell up to where there may be records of a stream. Streams whose ids
// have the same hash share one, which is at the last record of any of them.
// They are read without a lock, because every request does.
type marks struct {
	seed   maphash.Seed
	opened eventstore.Position // the last one when the log was opened: none before is marked
	last   atomic.Uint64       // the last of all
	at     []atomic.Uint64
}

func newMarks(durable eventstore.Position) *marks {
	m := &marks{seed: maphash.MakeSeed(), opened: durable, at: make([]atomic.Uint64, manyMarks)}
	m.last.Store(uint64(durable))
	return m
}

// set marks the records, which are the newest there are.
func (m *marks) set(records []eventstore.Stored) {
	for _, r := range records {
		m.mark(r.Stream.ID).Store(uint64(r.Position))
		m.last.Store(uint64(r.Position))
	}
}

func (m *marks) mark(id string) *atomic.Uint64 { return &m.at[maphash.String(m.seed, id)%manyMarks] }

// of is a position after which the stream has no record.
func (m *marks) of(id string) eventstore.Position {
	return max(eventstore.Position(m.mark(id).Load()), m.opened)
}

func (m *marks) newest() eventstore.Position { return eventstore.Position(m.last.Load()) }
