package bolt

import (
	"context"
	"sync"
	"sync/atomic"

	"payledger/eventstore"
)

// The bounds of the records kept in memory.
const (
	tailRecords = 4096
	tailBytes   = 8 << 20 // of bodies
)

// tail knows the last durable position and keeps the newest durable records,
// so that following the log and loading a fresh stream need no disk.
type tail struct {
	mu      sync.RWMutex
	durable eventstore.Position
	ring    []eventstore.Stored            // of tailRecords, made with the first; each record at its position's place
	held    int                            // how many of the ring there are, the last one at durable
	bytes   int                            // of their bodies
	heads   map[string]eventstore.Position // of streams whose last record is in memory, by their ids
	wake    chan struct{}                  // closed when durable moves; nil while nobody waits

	closed atomic.Bool // it and marks are read without mu
	marks  *marks
}

func newTail(durable eventstore.Position) *tail {
	return &tail{durable: durable, heads: make(map[string]eventstore.Position), marks: newMarks(durable)}
}

// publish shows the records, which are durable now, to readers.
func (t *tail) publish(records []eventstore.Stored) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ring == nil {
		t.ring = make([]eventstore.Stored, tailRecords)
	}
	for _, r := range records {
		if t.held == tailRecords {
			t.drop()
		}
		*t.place(r.Position) = r
		t.held++
		t.bytes += len(r.Body)
		t.heads[r.Stream.ID] = r.Position
		t.durable = r.Position
	}
	for t.bytes > tailBytes {
		t.drop()
	}
	t.marks.set(records)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// place is where the record at a position stands while it is in memory.
func (t *tail) place(p eventstore.Position) *eventstore.Stored { return &t.ring[p%tailRecords] }

// first is the position of the oldest record in memory.
func (t *tail) first() eventstore.Position { return t.durable + 1 - eventstore.Position(t.held) }

// drop forgets the oldest record.
func (t *tail) drop() {
	r := t.place(t.first())
	t.bytes -= len(r.Body)
	if t.heads[r.Stream.ID] == r.Position {
		delete(t.heads, r.Stream.ID)
	}
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
		return t.marks.newest(), nil
	}
	return t.marks.of(f.ID), nil
}

func (t *tail) last() (eventstore.Position, error) { return t.lastOf(eventstore.Filter{}) }

// record answers the record at a position if it is in memory.
func (t *tail) record(p eventstore.Position) (eventstore.Stored, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.at(p)
}

func (t *tail) at(p eventstore.Position) (eventstore.Stored, bool) {
	if p < t.first() || p > t.durable {
		return eventstore.Stored{}, false
	}
	return *t.place(p), true
}

// stream answers the records of the stream after a position, newest first, as
// far as they are in memory. next is the stream's record before them: 0 at its
// beginning, in the file where it is after the position; known is false when
// the stream's head is not in memory.
func (t *tail) stream(s eventstore.Stream, after eventstore.Position) (records []eventstore.Stored, next, durable eventstore.Position, known bool, _ error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed.Load() {
		return nil, 0, 0, false, eventstore.ErrClosed
	}
	next, known = t.heads[s.ID]
	if known && t.place(next).Stream != s {
		next, known = 0, false // another stream has the same id
	}
	for next > after {
		r, ok := t.at(next)
		if !ok {
			break
		}
		records = append(records, r)
		next = r.Prev
	}
	return records, next, t.durable, known, nil
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
		if r := t.place(p + 1); f.Matches(r.Stream) {
			dst = append(dst, *r)
			limit--
		}
	}
	return dst, p, t.durable, true, nil
}

// wait returns nil once a record after the position is durable.
func (s *Store) wait(ctx context.Context, after eventstore.Position) error {
	t := s.tail
	t.mu.Lock()
	if t.durable > after {
		t.mu.Unlock()
		return nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	wake := t.wake
	t.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return eventstore.ErrClosed
	case <-s.fatal:
		return s.Err()
	}
}
