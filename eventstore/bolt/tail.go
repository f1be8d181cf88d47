package bolt

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"payledger/eventstore"
)

// The bounds of the records kept in memory.
const (
	tailRecords = 4096
	tailBytes   = 8 << 20 // of bodies
)

// tail knows the last durable position and keeps the newest durable records. One
// goroutine at a time may publish; all other methods are safe for concurrent use.
type tail struct {
	mu      sync.RWMutex
	durable eventstore.Position // who publishes reads it without mu
	ring    []eventstore.Stored // of tailRecords, made with the first; each record at the slot of its position
	held    int                 // how many records of the ring are set, the last one at durable
	bytes   int                 // of their bodies
	wake    chan struct{}       // closed when durable moves; nil while no reader waits

	closed   atomic.Bool // it and lastSeen are read without mu
	lastSeen *lastSeen
}

// newTail is the tail of a log whose last durable position is given.
func newTail(durable eventstore.Position) *tail {
	return &tail{durable: durable, lastSeen: newLastSeen(durable)}
}

// publish shows the records, which are durable now, to readers. erased are the positions whose
// details were removed: they are forgotten here too, with the events that have them.
func (t *tail) publish(records []eventstore.Stored, erased []eventstore.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range erased {
		if r, ok := t.at(p); ok {
			r.Details, r.Event = nil, nil
			*t.slot(p) = r
		}
	}
	if t.ring == nil {
		t.ring = make([]eventstore.Stored, tailRecords)
	}
	for _, r := range records {
		if t.held == tailRecords {
			t.drop()
		}
		*t.slot(r.Position) = r
		t.held++
		t.bytes += len(r.Body)
		t.durable = r.Position
	}
	for t.bytes > tailBytes {
		t.drop()
	}
	t.lastSeen.set(records)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

func (t *tail) slot(p eventstore.Position) *eventstore.Stored { return &t.ring[p%tailRecords] }

// first is the position of the oldest record in memory.
func (t *tail) first() eventstore.Position { return t.durable + 1 - eventstore.Position(t.held) }

// drop forgets the oldest record.
func (t *tail) drop() {
	r := t.slot(t.first())
	t.bytes -= len(r.Body)
	*r = eventstore.Stored{}
	t.held--
}

// lastOf is a position after which no record matches: for a filter without an ID
// the last durable one.
func (t *tail) lastOf(f eventstore.Filter) (eventstore.Position, error) {
	if t.closed.Load() {
		return 0, eventstore.ErrClosed
	}
	if f.ID == "" {
		return t.lastSeen.any(), nil
	}
	return t.lastSeen.of(f.ID), nil
}

// last is the last durable position.
func (t *tail) last() (eventstore.Position, error) { return t.lastOf(eventstore.Filter{}) }

// record returns the record at a position if it is in memory.
func (t *tail) record(p eventstore.Position) (eventstore.Stored, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.at(p)
}

func (t *tail) at(p eventstore.Position) (eventstore.Stored, bool) {
	if p < t.first() || p > t.durable {
		return eventstore.Stored{}, false
	}
	return *t.slot(p), true
}

// stream returns the records of the stream after a position, newest first, as
// far as they are in memory. next is the stream's record before them: 0 at its
// beginning, in the file if it is after the position. known is false when the
// stream's last record is not known to be in memory.
func (t *tail) stream(s eventstore.Stream, after eventstore.Position) (records []eventstore.Stored, next, durable eventstore.Position, known bool, _ error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed.Load() {
		return nil, 0, 0, false, eventstore.ErrClosed
	}
	// No record of the stream is after the mark. The one at the mark is the
	// stream's last, or of another stream with the same mark.
	next = t.lastSeen.of(s.ID)
	if next <= after {
		return nil, next, t.durable, true, nil
	}
	if r, ok := t.at(next); !ok || r.Stream != s {
		return nil, 0, t.durable, false, nil
	}
	for next > after {
		r, ok := t.at(next)
		if !ok {
			break
		}
		records = append(records, r)
		next = r.Prev
	}
	return records, next, t.durable, true, nil
}

// after appends up to limit matching records after the position to dst.
// reached is the last position looked at; ok is false when the next record is
// not in memory.
func (t *tail) after(dst []eventstore.Stored, p eventstore.Position, f eventstore.Filter, limit int) (_ []eventstore.Stored, reached, durable eventstore.Position, ok bool, _ error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed.Load() {
		return dst, p, 0, false, eventstore.ErrClosed
	}
	if p >= t.durable {
		return dst, p, t.durable, true, nil
	}
	if _, ok := t.at(p + 1); !ok {
		return dst, p, t.durable, false, nil
	}
	for ; p < t.durable && limit > 0; p++ {
		if r := t.slot(p + 1); f.Matches(r.Stream) {
			dst = append(dst, *r)
			limit--
		}
	}
	return dst, p, t.durable, true, nil
}

// close makes all later calls return eventstore.ErrClosed.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed.Store(true)
}

// wait returns a channel that is closed once a record after the position is durable;
// nil: there is one.
func (t *tail) wait(after eventstore.Position) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.durable > after {
		return nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// wait returns nil once a record after the position is durable.
func (s *Store) wait(ctx context.Context, after eventstore.Position) error {
	durable := s.tail.wait(after)
	if durable == nil {
		return nil
	}
	select {
	case <-durable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return eventstore.ErrClosed
	case <-s.fatal:
		return s.Err()
	}
}

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
