package recent

import (
	"hash/maphash"
	"sync/atomic"

	"payledger/eventstore"
)

// markSlots is the number of high-water marks. While some hundred records are
// still to be followed, one stream in a hundred shares its mark with one of theirs.
const markSlots = 1 << 16

// lastSeen has high-water marks: for each hash of a stream's id, the position of
// the last record of any stream with that hash. So a stream has no record after its
// mark. Every request asks for one, so they are read without a lock.
type lastSeen struct {
	seed   maphash.Seed
	opened eventstore.Position // the last one when the log was opened: no mark is before it
	last   atomic.Uint64       // of all streams
	marks  []atomic.Uint64
}

func newLastSeen(durable eventstore.Position) *lastSeen {
	l := &lastSeen{seed: maphash.MakeSeed(), opened: durable, marks: make([]atomic.Uint64, markSlots)}
	l.last.Store(uint64(durable))
	return l
}

// set notes the records, which are the newest of the log.
func (l *lastSeen) set(records []eventstore.Stored) {
	for _, r := range records {
		l.mark(r.Stream.ID).Store(uint64(r.Position))
		l.last.Store(uint64(r.Position))
	}
}

func (l *lastSeen) mark(id string) *atomic.Uint64 {
	return &l.marks[maphash.String(l.seed, id)%markSlots]
}

func (l *lastSeen) of(id string) eventstore.Position {
	return max(eventstore.Position(l.mark(id).Load()), l.opened)
}

func (l *lastSeen) any() eventstore.Position { return eventstore.Position(l.last.Load()) }
