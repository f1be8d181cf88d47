package httpserver

import (
	"net/http"
	"sync"
	"time"
)

const (
	// gateTime is how long a request waits at a gate that is shut.
	gateTime = 2 * time.Second
	// drainTime is how long a gate waits for the requests behind it.
	drainTime = time.Second
)

// Gate lets requests through to a handler, which can be replaced by another one while the
// server goes on: meanwhile they wait. It begins shut.
type Gate struct {
	late http.Handler // answers those that have waited for gateTime

	mu      sync.Mutex
	handler http.Handler    // nil: the gate is shut
	opened  chan struct{}   // closed while it is open
	inside  *sync.WaitGroup // the requests behind it
}

// NewGate makes a gate. late answers the requests that it has kept waiting for 2 seconds.
func NewGate(late http.Handler) *Gate { return &Gate{late: late, opened: make(chan struct{})} }

// Open lets the requests through to a handler.
func (g *Gate) Open(h http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handler, g.inside = h, new(sync.WaitGroup)
	close(g.opened)
}

// Shut lets no more requests through, and waits for those behind it for a second.
func (g *Gate) Shut() {
	g.mu.Lock()
	inside := g.inside
	g.handler, g.opened = nil, make(chan struct{})
	g.mu.Unlock()
	empty := make(chan struct{})
	go func() { // ends with the last request
		defer close(empty)
		inside.Wait()
	}()
	select {
	case <-empty:
	case <-time.After(drainTime):
	}
}

// enter is the handler, nil while the gate is shut; opened is closed once it is open.
func (g *Gate) enter() (h http.Handler, leave func(), opened <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.handler == nil {
		return nil, nil, g.opened
	}
	g.inside.Add(1)
	return g.handler, g.inside.Done, nil
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	late := time.Now().Add(gateTime)
	for {
		h, leave, opened := g.enter()
		if h != nil {
			pass(h, leave, w, r)
			return
		}
		select {
		case <-opened:
		case <-r.Context().Done():
			return
		case <-time.After(time.Until(late)):
			g.late.ServeHTTP(w, r)
			return
		}
	}
}

func pass(h http.Handler, leave func(), w http.ResponseWriter, r *http.Request) {
	defer leave() // also when the handler panics
	h.ServeHTTP(w, r)
}
