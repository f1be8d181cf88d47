package projections

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"payledger/eventstore"
)

// waiting are the waiters for a position.
type waiting struct {
	lowest atomic.Uint64 // position waited for, 0 if there are no waiters

	mu  sync.Mutex
	all []waiter
}

type waiter struct {
	position uint64
	ready    chan struct{}
}

// Position is the last one that the views reflect.
func (e *Engine) Position() eventstore.Position { return eventstore.Position(e.position.Load()) }

// Wait returns once the views reflect the event at the position or a later one, or with the
// context's error, or with the error that stopped the engine before that.
func (e *Engine) Wait(ctx context.Context, p eventstore.Position) error {
	if e.position.Load() >= uint64(p) {
		return nil
	}
	w := &e.waiting
	ready := make(chan struct{})
	w.mu.Lock()
	w.all = append(w.all, waiter{uint64(p), ready})
	if low := w.lowest.Load(); low == 0 || uint64(p) < low {
		w.lowest.Store(uint64(p))
	}
	w.mu.Unlock()
	// advance may have passed the position just before this waiter was there.
	e.wake(e.position.Load())
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		w.leave(ready)
		return ctx.Err()
	case <-e.failed:
		w.leave(ready)
		if e.position.Load() >= uint64(p) {
			return nil
		}
		return e.err
	}
}

// Fresh waits until the views reflect every event that the store holds now and that the filter
// matches; they may still lag behind others. It returns a position at or after the last such event.
// After a clean end of Run it returns at once, unless such an event was appended since.
func (e *Engine) Fresh(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if err := e.failure(); err != nil && !errors.Is(err, ErrStopped) {
		return 0, err
	}
	last, err := e.end(ctx, f)
	if err != nil {
		return 0, err
	}
	return last, e.Wait(ctx, last)
}

// end is a position after which no event matches, or the one up to which the log is folded.
func (e *Engine) end(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	last, err := e.store.LastOf(ctx, f)
	return min(last, e.upTo), err
}

func (e *Engine) advance(p eventstore.Position) {
	e.position.Store(uint64(p))
	e.wake(uint64(p))
}

// wake signals the waiters for a position up to p.
func (e *Engine) wake(p uint64) {
	w := &e.waiting
	if low := w.lowest.Load(); low == 0 || p < low {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(func(o waiter) bool {
		if o.position > p {
			return true
		}
		close(o.ready)
		return false
	})
}

func (w *waiting) leave(ready chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(func(o waiter) bool { return o.ready != ready })
}

func (w *waiting) keep(stays func(waiter) bool) {
	kept := w.all[:0]
	var lowest uint64
	for _, o := range w.all {
		if !stays(o) {
			continue
		}
		kept = append(kept, o)
		if lowest == 0 || o.position < lowest {
			lowest = o.position
		}
	}
	clear(w.all[len(kept):])
	w.all = kept
	w.lowest.Store(lowest)
}
