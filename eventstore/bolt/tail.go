package bolt

import (
	"context"
	"sync"

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
	records []eventstore.Stored // contiguous, the last one at durable
	bytes   int
	heads   map[eventstore.Stream]eventstore.Position // of streams whose last record is in records
	wake    chan struct{}                             // closed when durable moves; nil while nobody waits
	closed  bool
}

func newTail(durable eventstore.Position) *tail {
	return &tail{durable: durable, heads: make(map[eventstore.Stream]eventstore.Position)}
}

// publish shows the records, which are durable now, to readers.
func (t *tail) publish(records []eventstore.Stored) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		t.records = append(t.records, r)
		t.bytes += len(r.Body)
		t.heads[r.Stream] = r.Position
		t.durable = r.Position
	}
	drop := 0
	for len(t.records)-drop > tailRecords || t.bytes > tailBytes {
		r := t.records[drop]
		t.bytes -= len(r.Body)
		if t.heads[r.Stream] == r.Position {
			delete(t.heads, r.Stream)
		}
		t.records[drop] = eventstore.Stored{}
		drop++
	}
	t.records = t.records[drop:]
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// last is the last durable position.
func (t *tail) last() (eventstore.Position, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return 0, eventstore.ErrClosed
	}
	return t.durable, nil
}

func (t *tail) at(p eventstore.Position) (eventstore.Stored, bool) {
	first := t.durable + 1 - eventstore.Position(len(t.records))
	if p < first || p > t.durable {
		return eventstore.Stored{}, false
	}
	return t.records[p-first], true
}

// stream appends the newest records of the stream, newest first, as far as
// they are in memory. next is where the stream goes on in the file, 0 at its
// end; known is false when the stream's head is not in memory.
func (t *tail) stream(s eventstore.Stream) (records []eventstore.Stored, next, durable eventstore.Position, known bool, _ error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return nil, 0, 0, false, eventstore.ErrClosed
	}
	next, known = t.heads[s]
	for next != 0 {
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
	if t.closed {
		return dst, p, 0, false, eventstore.ErrClosed
	}
	if p >= t.durable {
		return dst, p, t.durable, true, nil
	}
	if _, ok := t.at(p + 1); !ok {
		return dst, p, t.durable, false, nil
	}
	for ; p < t.durable && limit > 0; p++ {
		if r, _ := t.at(p + 1); f.Matches(r.Stream) {
			dst = append(dst, r)
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
