package notifier

import (
	"context"
	"sync"
)

// queue is an unbounded first-in first-out queue with one reader. Safe for
// concurrent use.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	woken chan struct{} // holds one poke
}

func newQueue[T any]() *queue[T] { return &queue[T]{woken: make(chan struct{}, 1)} }

func (q *queue[T]) put(v T) {
	q.mu.Lock()
	q.items = append(q.items, v)
	q.mu.Unlock()
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// take waits for the next item; ok is false when ctx has ended.
func (q *queue[T]) take(ctx context.Context) (v T, ok bool) {
	for ctx.Err() == nil {
		q.mu.Lock()
		if len(q.items) > 0 {
			v, q.items = q.items[0], q.items[1:]
			q.mu.Unlock()
			return v, true
		}
		q.items = nil
		q.mu.Unlock()
		select {
		case <-q.woken:
		case <-ctx.Done():
		}
	}
	return v, false
}
