package delivery

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payledger/domain"
	"payledger/domain/deliveries"
)

// checkEvery is how often an endpoint with queued deliveries is looked up while
// nothing is due, so that it is noticed if it was disabled or removed. A project
// that cannot be read is read again after retryRead.
const (
	checkEvery = time.Minute
	retryRead  = time.Second
)

// target is one endpoint: a queue of its own, with a goroutine of its own that
// asks for attempts to begin.
type target struct {
	project string
	id      string

	wake    chan struct{}
	limiter *rate.Limiter
	slots   *slots
	share   share // of slots
	limits  Limits

	mu                sync.Mutex // held for a short time, and never while the rows are read
	failures          int        // one after the other
	window            window
	breaker           breaker
	requests          int // under way
	requested         []requested
	requestedUnderWay int  // requests for those, which are no others'
	leaving           bool // it answered 410 and is being disabled
	refused           bool // the last attempt was not allowed
}

func (s *sender) newTarget(project, id string) *target {
	limits := s.config.Limits
	t := &target{
		project: project, id: id, failures: s.config.Rows.Endpoint(id).Failures, wake: make(chan struct{}, 1),
		limiter: rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst), slots: s.slots, share: s.slots.of(project),
		limits: limits,
	}
	if t.failures >= failuresToOpen {
		t.breaker = breaker{until: s.clock.now(), wait: minProbeWait} // the next attempt is a probe
	}
	return t
}

// offer takes in a lane that waits.
func (t *target) offer(k deliveries.DueKey) {
	t.mu.Lock()
	t.window.offer(k)
	t.mu.Unlock()
	t.nudge()
}

// nudge lets the endpoint's goroutine look again.
func (t *target) nudge() {
	select {
	case t.wake <- struct{}{}:
	default: // it has one more look before it
	}
}

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

// abandoned is ended for an attempt that was chosen and did not begin.
func (t *target) abandoned(a attempt) {
	if !a.requested {
		t.mu.Lock()
		t.breaker.abandoned()
		t.mu.Unlock()
	}
	t.ended(a)
}

// open says until when the circuit breaker is open, 0 if it is closed.
func (t *target) open(now domain.Instant) domain.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.breaker.open(now)
}

// forever is a wait that only a nudge ends.
const forever = 100 * 365 * 24 * time.Hour

// serve lets attempts with an endpoint begin until ctx ends or the writer has failed.
func (s *sender) serve(ctx context.Context, t *target) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, err := s.turn(ctx, t)
		if err != nil {
			return
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// turn does what can be done for an endpoint now and says how long there will be
// nothing else to do, unless it is nudged. It stays in the queue for a slot as long as
// it wants one.
func (s *sender) turn(ctx context.Context, t *target) (time.Duration, error) {
	wants := false
	defer func() {
		if !wants {
			s.slots.leave(t)
		}
	}()
	if s.config.Rows.Endpoint(t.id).Lanes == 0 {
		return forever, nil
	}
	endpoint, state, err := s.find(ctx, t.project, t.id)
	if err != nil {
		if ctx.Err() == nil {
			s.config.Log.Warn().Err(err).Str("project", t.project).Msg("the project of a webhook endpoint could not be read; it is tried again")
		}
		return retryRead, nil
	}
	if state != "" {
		return checkEvery, s.hold(ctx, t, state)
	}
	requested, due, wait := t.room(s.clock.now())
	if requested+due == 0 {
		return wait, nil
	}
	wants = true
	if s.slots.waits(t) {
		s.seldom.Warn().Int("max_requests", s.config.Limits.Requests).Str("project", t.project).Str("endpoint", t.id).
			Msg("webhook endpoints wait, this one among them, because too many requests to others are not answered: " +
				"see which time out, and whether the limit of open files is low (ulimit -n, LimitNOFILE= of systemd)")
		return checkEvery, nil // a slot that is granted nudges
	}
	return 0, s.writer.insist(ctx, func(x *tx) error { return x.begin(t, endpoint) })
}

// hold takes the deliveries of an endpoint that gets nothing out of their lanes, some at
// a time. Attempts under way end by themselves.
func (s *sender) hold(ctx context.Context, t *target, state domain.DeliveryState) error {
	what := deliveries.Held
	if state == domain.DeliveryCancelled {
		what = deliveries.Cancelled
	}
	var after deliveries.DueKey // of the lanes that were seen
	for more := true; more && ctx.Err() == nil; {
		err := s.writer.insist(ctx, func(x *tx) error {
			keys, err := s.config.Rows.Due(context.WithoutCancel(ctx), t.id, after, maxAtOnce)
			if err != nil {
				return err
			}
			more = len(keys) == maxAtOnce
			for noted := 0; len(keys) > 0; keys = keys[1:] {
				l, _, err := s.config.Rows.Lane(t.id, keys[0].Payment())
				if err != nil {
					return err
				}
				if _, busy := x.underWay[laneKey{t.id, keys[0].Payment()}]; busy || x.othersMay(&l) {
					l.Queue = l.Queue[min(1, len(l.Queue)):]
				}
				if noted += len(l.Queue); noted > maxAtOnce && noted > len(l.Queue) {
					more = true
					break
				}
				for _, q := range l.Queue {
					x.note(t, deliveries.Entry{Payment: keys[0].Payment(), Sequence: q.Sequence, What: what})
				}
				after = keys[0]
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	// An endpoint that is enabled again starts without its past failures.
	t.mu.Lock()
	t.failures, t.breaker = 0, breaker{}
	t.mu.Unlock()
	return nil
}
