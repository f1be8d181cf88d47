package signals

import "time"

// delayedQueue is a queue that pauses.
type delayedQueue struct {
	due   time.Time
	queue *signalQueue
}

// delayHeap is a heap, the first one due first.
type delayHeap []delayedQueue

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h delayHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayHeap) Push(x any)        { *h = append(*h, x.(delayedQueue)) }
func (h *delayHeap) Pop() any {
	all := *h
	last := all[len(all)-1]
	*h = all[:len(all)-1]
	return last
}

// fifo is a first-in first-out list.
type fifo[T any] struct {
	items []T
	gone  int // of items, taken
}

func (f *fifo[T]) len() int { return len(f.items) - f.gone }
func (f *fifo[T]) first() T { return f.items[f.gone] }
func (f *fifo[T]) put(v T)  { f.items = append(f.items, v) }

func (f *fifo[T]) take() T {
	v := f.items[f.gone]
	var none T
	f.items[f.gone] = none
	switch f.gone++; {
	case f.gone == len(f.items):
		f.items, f.gone = nil, 0
	case f.gone > 32 && 2*f.gone > len(f.items):
		n := copy(f.items, f.items[f.gone:])
		clear(f.items[n:])
		f.items, f.gone = f.items[:n], 0
	}
	return v
}
