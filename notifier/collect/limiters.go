package collect

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payledger/notifier/connector"
)

const (
	breakAfter = 5 // calls in a row that failed
	breakFirst = 2 * time.Second
	breakMost  = time.Minute
)

// ErrDown: the provider was away in the last calls, or has asked for a pause.
var ErrDown = errors.New("the provider cannot be reached just now")

// limiters are those of all routes.
type limiters struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*limiter
}

func newLimiters(now func() time.Time) *limiters {
	return &limiters{now: now, all: make(map[string]*limiter)}
}

func (g *limiters) of(route string) *limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[route] == nil {
		g.all[route] = &limiter{now: g.now, all: newLane(12, 16), notices: newLane(3, 5), spare: newLane(4, 4)}
	}
	return g.all[route]
}

// lane is a limit of concurrent calls and of calls per second, with a burst of twice as many.
type lane struct {
	slots chan struct{}
	rate  *rate.Limiter
}

func newLane(atATime, perSecond int) lane {
	return lane{slots: make(chan struct{}, atATime), rate: rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)}
}

func (l lane) leave() { <-l.slots }

func (l lane) try(now time.Time) bool {
	select {
	case l.slots <- struct{}{}:
	default:
		return false
	}
	if l.rate.AllowN(now, 1) {
		return true
	}
	l.leave()
	return false
}

// wait is try for a caller that can wait. The error is ErrDown or the context's.
func (l lane) wait(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.rate.Wait(ctx); err != nil {
		l.leave()
		return ErrDown // the deadline would pass first
	}
	return nil
}

// limiter limits the calls to one route's provider: 16 at a time, and 20 a second.
//
// A flood of Pay buttons or notifications does not stop the polls of other payments: notifications
// and polls have separate parts of the limit.
type limiter struct {
	now                 func() time.Time
	all, notices, spare lane

	mu       sync.Mutex
	failures int
	pause    time.Duration
	closed   time.Time // until when no call passes
}

// enter lets a call pass that can wait, or says how long to wait. leave follows.
func (g *limiter) enter() (leave func(), wait time.Duration) {
	if wait := g.closedFor(); wait > 0 {
		return nil, wait
	}
	for _, l := range []lane{g.all, g.spare} {
		if l.try(g.now()) {
			return l.leave, 0
		}
	}
	return nil, time.Second
}

// await is enter for a caller that can wait, through each of the lanes. The error is ErrDown or the
// context's.
func (g *limiter) await(ctx context.Context, through ...lane) (leave func(), err error) {
	passed := 0
	leave = func() {
		for _, l := range through[:passed] {
			l.leave()
		}
	}
	for _, l := range through {
		if g.closedFor() > 0 {
			leave()
			return nil, ErrDown
		}
		if err := l.wait(ctx); err != nil {
			leave()
			return nil, err
		}
		passed++
	}
	if g.closedFor() > 0 { // meanwhile
		leave()
		return nil, ErrDown
	}
	return leave, nil
}

// closedFor is how long no call is allowed.
func (g *limiter) closedFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed.Sub(g.now())
}

// called notes how a call ended. After breakAfter failures in a row no call passes
// for a while; each failure after that doubles the pause, but for those of calls that were under
// way when it began: else all calls of a short outage together would make it the longest.
func (g *limiter) called(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var busy *connector.BusyError
	switch {
	case errors.As(err, new(*strangerError)):
	case errors.As(err, &busy):
		g.closed = g.now().Add(max(g.closed.Sub(g.now()), min(max(busy.After, time.Second), breakMost)))
	case !unknown(err):
		g.failures, g.pause = 0, 0
	case g.now().Before(g.closed): // the call was under way
	default:
		if g.failures++; g.failures >= breakAfter {
			g.pause = min(max(2*g.pause, breakFirst), breakMost)
			g.closed = g.now().Add(g.pause)
		}
	}
}

// strangerError is the error of a call about an attempt that only a notification names.
// The notification may be forged and the call fail for that reason alone, so the error does
// not show that the provider cannot be reached.
type strangerError struct{ error }

func (e *strangerError) Unwrap() error { return e.error }

// unknown reports whether it is not known what the provider did.
func unknown(err error) bool {
	return err != nil && !errors.As(err, new(*connector.RefusedError)) && !errors.As(err, new(*connector.SpentKeyError)) &&
		!errors.As(err, new(*connector.BusyError)) && !errors.Is(err, connector.ErrNotFound) && !errors.Is(err, connector.ErrForged)
}
