package delivery

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/notifier/delivery/store"
)

// checkEvery is how often an endpoint with deliveries in line is looked up while
// nothing is due, so that it is noticed if it was disabled or removed. A project
// that cannot be read is read again after retryRead.
const (
	checkEvery = time.Minute
	retryRead  = time.Second
)

// target is one endpoint: a queue of its own, with a goroutine of its own that
// asks for attempts to begin.
type target struct {
	number  store.Number
	project string
	id      string

	wake    chan struct{}
	limiter *rate.Limiter
	slots   *slots
	share   share // of slots
	limits  Limits

	mu                sync.Mutex  // held for a short time, and never while the file is read
	tally             store.Tally // changed by the writer alone, as are window and requested
	window            window
	breaker           breaker
	requests          int // under way
	requested         []requested
	requestedUnderWay int  // requests for those, which are no others'
	leaving           bool // it answered 410 and is being disabled
	refused           bool // the last attempt was not allowed
}

func (l *Lanes) newTarget(number store.Number, project, id string, n store.Tally) *target {
	limits := l.config.Limits
	t := &target{
		number: number, project: project, id: id, tally: n, wake: make(chan struct{}, 1),
		limiter: rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst), slots: l.slots, share: l.slots.of(project),
		limits: limits,
	}
	if n.Failures >= failuresToOpen {
		t.breaker = breaker{until: l.clock.now(), wait: minProbeWait} // the next attempt is a probe
	}
	return t
}

func (t *target) counted() store.Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tally
}

// offer takes in a lane that waits.
func (t *target) offer(k store.DueKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window.offer(k)
}

// nudge lets the endpoint's goroutine look again.
func (t *target) nudge() { poke(t.wake) }

// tryNow lets an attempt begin although the circuit breaker is open.
func (t *target) tryNow(now domain.Instant) {
	t.mu.Lock()
	t.breaker.tryNow(now)
	t.mu.Unlock()
	t.nudge()
}

// ended gives back the place and the slot of an attempt that is over.
func (t *target) ended(a attempt) {
	t.mu.Lock()
	if a.requested {
		t.requestedUnderWay--
	} else {
		t.requests--
	}
	t.mu.Unlock()
	t.slots.give(t, 1)
	t.nudge()
}

// open says until when the circuit breaker is open, 0 if it is closed.
func (t *target) open(now domain.Instant) domain.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.breaker.open(now)
}

// forever is a wait that only a nudge ends.
const forever = 100 * 365 * 24 * time.Hour

// serve lets attempts with an endpoint begin until ctx ends. The error is the
// file's.
func (l *Lanes) serve(ctx context.Context, t *target) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, err := l.turn(ctx, t)
		if ctx.Err() != nil {
			return nil // an error of the file is the writer's
		}
		if err != nil {
			return err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// turn does what can be done for an endpoint now and says how long there will be
// nothing else to do, unless it is nudged. It waits in line for a slot as long as
// it wants one.
func (l *Lanes) turn(ctx context.Context, t *target) (time.Duration, error) {
	wants := false
	defer func() {
		if !wants {
			l.slots.leave(t)
		}
	}()
	if t.counted().Lanes == 0 {
		return forever, nil
	}
	endpoint, state, err := l.find(ctx, t.project, t.id)
	if err != nil {
		if ctx.Err() == nil {
			l.config.Log.Warn().Err(err).Str("project", t.project).Msg("the project of a webhook endpoint could not be read; it is tried again")
		}
		return retryRead, nil
	}
	if state != "" {
		return checkEvery, l.hold(ctx, t, state)
	}
	requested, due, wait := t.room(l.clock.now())
	if requested+due == 0 {
		return wait, nil
	}
	wants = true
	if l.slots.waits(t) {
		l.crowded.Warn().Int("max_requests", l.config.Limits.Requests).Str("project", t.project).Str("endpoint", t.id).
			Msg("webhook endpoints wait, this one among them, because too many requests to others are not answered: " +
				"see which time out, and whether the limit of open files is low (ulimit -n, LimitNOFILE= of systemd)")
		return checkEvery, nil // a slot that is granted nudges
	}
	return 0, l.writer.insist(ctx, func(x *tx) error { return x.begin(t, endpoint) }, maxBeginDelay)
}

// find looks an endpoint up. state is set if it gets nothing: what its deliveries
// become, held if it is disabled and cancelled if there is none.
func (l *Lanes) find(ctx context.Context, project, id string) (e projects.Endpoint, state domain.DeliveryState, err error) {
	p, ok, err := l.config.Endpoints.Project(ctx, project)
	if err != nil {
		return e, "", err
	}
	if ok {
		e, ok = p.Endpoint(id)
	}
	switch {
	case !ok:
		return e, domain.DeliveryCancelled, nil
	case e.Disabled != "":
		return e, domain.DeliveryHeld, nil
	}
	return e, "", nil
}

const holdAtOnce = 256

// hold takes the deliveries of an endpoint that gets nothing out of their lanes, some
// lanes at a time. Attempts under way end by themselves.
func (l *Lanes) hold(ctx context.Context, t *target, state domain.DeliveryState) error {
	var after store.DueKey // of the lanes that were seen
	for more := true; more && ctx.Err() == nil; {
		err := l.writer.insist(ctx, func(x *tx) error {
			keys := x.DueAfter(t.number, after, holdAtOnce)
			for _, k := range keys {
				lane, err := x.Lane(t.number, k.Payment())
				if err != nil {
					return err
				}
				kept := 0
				if x.inFlight(lane) {
					kept = min(1, len(lane.Line))
				}
				for _, p := range lane.Line[kept:] {
					if err := x.settle(t, p.Event, state); err != nil {
						return err
					}
				}
				lane.Line = lane.Line[:kept]
				x.save(t, lane)
				after = k
			}
			if more = len(keys) == holdAtOnce; !more {
				// An endpoint that is enabled again starts without its past failures.
				x.count(t, func(n *store.Tally) {
					n.Calm()
					t.breaker = breaker{}
				})
			}
			return nil
		}, 0)
		if err != nil {
			return err
		}
	}
	return nil
}
