package baseline

import (
	"runtime"
	"sync"
)

// entry is what one request has to have kept.
type entry struct {
	id   [26]byte
	body []byte
	done chan error
}

// group commits what waits together: the least that durable answers to many
// cost.
type group struct {
	mu      sync.Mutex
	filled  *sync.Cond
	waiting []*entry
	closed  bool
}

func newGroup() *group {
	g := new(group)
	g.filled = sync.NewCond(&g.mu)
	return g
}

// keep returns when the entry is kept.
func (g *group) keep(e *entry) error {
	e.done = make(chan error, 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	g.filled.Signal()
	g.mu.Unlock()
	return <-e.done
}

// run commits all that waits, again and again, until the group is closed.
func (g *group) run(commit func([]*entry) error) {
	for {
		all := g.take()
		if all == nil {
			return
		}
		err := commit(all)
		for _, e := range all {
			e.done <- err
		}
	}
}

func (g *group) take() []*entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) == 0 && !g.closed {
		g.filled.Wait()
	}
	// Those who were just answered are about to come back; a group that leaves
	// without them costs a sync of its own.
	for n := 0; n < len(g.waiting); {
		n = len(g.waiting)
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
	all := g.waiting
	g.waiting = nil
	return all
}

func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.filled.Broadcast()
}
