// Package queue is a first-in first-out queue between goroutines.
package queue

import (
	"context"
	"math"
	"sync"
)

// Queue is an unbounded first-in first-out queue. Safe for concurrent use.
type Queue[T any] struct {
	mu    sync.Mutex
	items []T
	woken chan struct{} // holds one poke, if there are items
}

// New makes an empty queue.
func New[T any]() *Queue[T] { return &Queue[T]{woken: make(chan struct{}, 1)} }

// Put adds an item.
func (q *Queue[T]) Put(v T) { q.PutWithin(v, math.MaxInt) }

// PutWithin puts an item unless there are so many already, and reports whether
// it did.
func (q *Queue[T]) PutWithin(v T, limit int) bool {
	q.mu.Lock()
	room := len(q.items) < limit
	if room {
		q.items = append(q.items, v)
	}
	q.mu.Unlock()
	if room {
		Poke(q.woken)
	}
	return room
}

// Take waits for the next item; ok is false when ctx has ended.
func (q *Queue[T]) Take(ctx context.Context) (v T, ok bool) {
	var room [1]T
	if items := q.TakeAll(ctx, room[:0], 1); len(items) > 0 {
		return items[0], true
	}
	return v, false
}

// TakeAll waits for an item and appends it to dst with those behind it, up to
// so many; none when ctx has ended.
func (q *Queue[T]) TakeAll(ctx context.Context, dst []T, limit int) []T {
	for ctx.Err() == nil {
		q.mu.Lock()
		n := min(len(q.items), limit)
		dst = append(dst, q.items[:n]...)
		clear(q.items[:n])
		if q.items = q.items[n:]; len(q.items) == 0 {
			q.items = nil
		} else {
			Poke(q.woken) // another reader may be waiting
		}
		q.mu.Unlock()
		if n > 0 {
			return dst
		}
		select {
		case <-q.woken:
		case <-ctx.Done():
		}
	}
	return dst
}

// Poke wakes the reader of a channel that holds one element, or leaves the poke
// that it has not taken yet.
func Poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
