// Package recent holds in memory what was recorded last: the newest records, and the
// last position of each stream. So following the log and loading a stream that is in use
// need no disk.
package recent

import (
	"sync"
	"sync/atomic"

	"payledger/eventstore"
)

// The bounds of the records kept in memory.
const (
	MaxRecords = 4096
	maxBytes   = 8 << 20 // of bodies
)

// Tail knows the last durable position and keeps the newest durable records. One
// goroutine at a time may publish; all other methods are safe for concurrent use.
type Tail struct {
	mu      sync.RWMutex
	durable eventstore.Position
	ring    []eventstore.Stored // of MaxRecords, made with the first; each record at the slot of its position
	held    int                 // how many records of the ring are set, the last one at durable
	bytes   int                 // of their bodies
	wake    chan struct{}       // closed when durable moves; nil while no reader waits

	closed   atomic.Bool // it and lastSeen are read without mu
	lastSeen *lastSeen
}

// NewTail is the tail of a log whose last durable position is given.
func NewTail(durable eventstore.Position) *Tail {
	return &Tail{durable: durable, lastSeen: newLastSeen(durable)}
}

// Durable is the last durable position, for the goroutine that publishes: it takes
// no lock.
func (t *Tail) Durable() eventstore.Position { return t.durable }

// Publish shows the records, which are durable now, to readers. erased are the positions whose
// details were removed: they are forgotten here too, with the events that have them.
func (t *Tail) Publish(records []eventstore.Stored, erased []eventstore.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range erased {
		if r, ok := t.at(p); ok {
			r.Details, r.Event = nil, nil
			*t.slot(p) = r
		}
	}
	if t.ring == nil {
		t.ring = make([]eventstore.Stored, MaxRecords)
	}
	for _, r := range records {
		if t.held == MaxRecords {
			t.drop()
		}
		*t.slot(r.Position) = r
		t.held++
		t.bytes += len(r.Body)
		t.durable = r.Position
	}
	for t.bytes > maxBytes {
		t.drop()
	}
	t.lastSeen.set(records)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

func (t *Tail) slot(p eventstore.Position) *eventstore.Stored { return &t.ring[p%MaxRecords] }

// first is the position of the oldest record in memory.
func (t *Tail) first() eventstore.Position { return t.durable + 1 - eventstore.Position(t.held) }

// drop forgets the oldest record.
func (t *Tail) drop() {
	r := t.slot(t.first())
	t.bytes -= len(r.Body)
	*r = eventstore.Stored{}
	t.held--
}

// LastOf is a position after which no record matches: for a filter without an ID
// the last durable one.
func (t *Tail) LastOf(f eventstore.Filter) (eventstore.Position, error) {
	if t.closed.Load() {
		return 0, eventstore.ErrClosed
	}
	if f.ID == "" {
		return t.lastSeen.any(), nil
	}
	return t.lastSeen.of(f.ID), nil
}

// Last is the last durable position.
func (t *Tail) Last() (eventstore.Position, error) { return t.LastOf(eventstore.Filter{}) }

// Record returns the record at a position if it is in memory.
func (t *Tail) Record(p eventstore.Position) (eventstore.Stored, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.at(p)
}

func (t *Tail) at(p eventstore.Position) (eventstore.Stored, bool) {
	if p < t.first() || p > t.durable {
		return eventstore.Stored{}, false
	}
	return *t.slot(p), true
}

// Stream returns the records of the stream after a position, newest first, as
// far as they are in memory. next is the stream's record before them: 0 at its
// beginning, in the file if it is after the position. known is false when the
// stream's last record is not known to be in memory.
func (t *Tail) Stream(s eventstore.Stream, after eventstore.Position) (records []eventstore.Stored, next, durable eventstore.Position, known bool, _ error) {
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

// After appends up to limit matching records after the position to dst.
// reached is the last position looked at; ok is false when the next record is
// not in memory.
func (t *Tail) After(dst []eventstore.Stored, p eventstore.Position, f eventstore.Filter, limit int) (_ []eventstore.Stored, reached, durable eventstore.Position, ok bool, _ error) {
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

// Close makes all later calls return eventstore.ErrClosed.
func (t *Tail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed.Store(true)
}

// Wait returns a channel that is closed once a record after the position is durable;
// nil: there is one.
func (t *Tail) Wait(after eventstore.Position) <-chan struct{} {
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
