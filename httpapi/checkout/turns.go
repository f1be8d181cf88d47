package checkout

import (
	"context"
	"sync"

	"payledger/domain"
)

// turns handles the forms of one payment one after another: of two that are
// sent at the same moment the second finds the result of the first.
type turns struct {
	mu    sync.Mutex
	taken map[domain.ID]*turn
}

type turn struct {
	place chan struct{} // holds one
	forms int           // in it and waiting
}

func newTurns() *turns { return &turns{taken: make(map[domain.ID]*turn)} }

// enter waits until no other form of the payment is in; leave lets the next
// one in.
func (t *turns) enter(ctx context.Context, id domain.ID) (leave func(), err error) {
	t.mu.Lock()
	it, ok := t.taken[id]
	if !ok {
		it = &turn{place: make(chan struct{}, 1)}
		t.taken[id] = it
	}
	it.forms++
	t.mu.Unlock()
	select {
	case it.place <- struct{}{}:
		return func() { <-it.place; t.drop(id, it) }, nil
	case <-ctx.Done():
		t.drop(id, it)
		return nil, ctx.Err()
	}
}

func (t *turns) drop(id domain.ID, it *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if it.forms--; it.forms == 0 {
		delete(t.taken, id)
	}
}
