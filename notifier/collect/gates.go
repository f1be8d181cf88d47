package collect

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payledger/notifier/connector"
)

// What a route's provider is asked at most.
const (
	callsAtATime   = 16
	callsPerSecond = 20
	callsAtOnce    = 40

	breakAfter = 5 // calls in a row that failed
	breakFirst = 2 * time.Second
	breakMost  = time.Minute
)

// ErrDown: the provider was away in the last calls, or has asked for a pause.
var ErrDown = errors.New("the provider cannot be reached just now")

// gates are those of all routes.
type gates struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*gate
}

func newGates(now func() time.Time) *gates { return &gates{now: now, all: make(map[string]*gate)} }

func (g *gates) of(route string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[route] == nil {
		g.all[route] = &gate{now: g.now, slots: make(chan struct{}, callsAtATime), rate: rate.NewLimiter(callsPerSecond, callsAtOnce)}
	}
	return g.all[route]
}

// gate lets calls to one route's provider pass.
type gate struct {
	now   func() time.Time
	slots chan struct{}
	rate  *rate.Limiter

	mu       sync.Mutex
	failures int
	pause    time.Duration
	closed   time.Time // until when no call passes
}

// enter lets a call pass that can wait, or says how long to wait. leave follows.
func (g *gate) enter() (wait time.Duration, ok bool) {
	if wait := g.shut(); wait > 0 {
		return wait, false
	}
	select {
	case g.slots <- struct{}{}:
	default:
		return time.Second, false
	}
	if !g.rate.AllowN(g.now(), 1) {
		<-g.slots
		return time.Second, false
	}
	return 0, true
}

// await is enter for somebody who waits. The error is ErrDown or the context's.
func (g *gate) await(ctx context.Context) error {
	if g.shut() > 0 {
		return ErrDown
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := g.rate.Wait(ctx); err != nil {
		<-g.slots
		return ErrDown // the deadline would pass first
	}
	return nil
}

func (g *gate) leave() { <-g.slots }

// shut is how long no call passes.
func (g *gate) shut() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed.Sub(g.now())
}

// called notes how a call ended. After breakAfter failures in a row no call passes
// for a while, then one tries; each further failure doubles the pause.
func (g *gate) called(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var busy *connector.BusyError
	switch {
	case errors.As(err, &busy):
		g.closed = g.now().Add(min(max(busy.After, time.Second), breakMost))
	case !unknown(err):
		g.failures, g.pause = 0, 0
	default:
		if g.failures++; g.failures >= breakAfter {
			g.pause = min(max(2*g.pause, breakFirst), breakMost)
			g.closed = g.now().Add(g.pause)
		}
	}
}

// unknown reports whether it is not known what the provider did.
func unknown(err error) bool {
	return err != nil && !errors.As(err, new(*connector.RefusedError)) && !errors.As(err, new(*connector.SpentKeyError)) &&
		!errors.As(err, new(*connector.BusyError)) && !errors.Is(err, connector.ErrNotFound) && !errors.Is(err, connector.ErrForged)
}
