package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payledger/domain"
)

// checkEvery is how soon an endpoint with deliveries in line is noticed to be
// disabled or removed, when nothing is due. A project that cannot be read is
// asked for again after retryRead.
const (
	checkEvery = time.Minute
	retryRead  = time.Second
)

// target is one endpoint as the engine sees it: a queue of its own, with a
// goroutine of its own that begins attempts.
type target struct {
	number  uint32
	project string
	id      string

	wake    chan struct{}
	limiter *rate.Limiter
	slots   *slots
	share   share // of slots
	waits   bool  // for a slot; known to its goroutine alone

	// due guards window. It is held while the window is filled from the file,
	// so nobody may wait for it who reads the file; mu is taken for moments, by
	// anybody, and within due.
	due    sync.Mutex
	window window

	mu       sync.Mutex
	tally    tally // changed by the writer alone
	breaker  breaker
	requests int // being prepared or under way
	asked    []askedFor
	asking   int  // requests for those, which are no others'
	leaving  bool // it answered 410 and is being disabled
	refused  bool // the last attempt was not allowed
}

func (l *Lanes) newTarget(number uint32, project, id string, n tally) *target {
	limits := l.config.Limits
	t := &target{
		number: number, project: project, id: id, tally: n, wake: make(chan struct{}, 1),
		limiter: rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst), slots: l.slots, share: l.slots.of(project),
	}
	if n.failures >= breakerFailures {
		t.breaker = breaker{until: l.clock.now(), wait: breakerFirst} // the next attempt is a probe
	}
	return t
}

func (t *target) counted() tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tally
}

// offer tells of a lane that waits, as the file says since now.
func (t *target) offer(k dueKey) {
	t.due.Lock()
	t.window.offer(k)
	t.due.Unlock()
	t.nudge()
}

// nudge lets the endpoint's goroutine look again.
func (t *target) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// tryNow lets an attempt begin although the circuit breaker is open.
func (t *target) tryNow(now domain.Instant) {
	t.mu.Lock()
	t.breaker.tryNow(now)
	t.mu.Unlock()
	t.nudge()
}

func (t *target) passed() {
	t.mu.Lock()
	t.breaker.passed()
	t.mu.Unlock()
}

// ended gives back what an attempt that is over held.
func (t *target) ended(n int) {
	t.mu.Lock()
	t.requests -= n
	t.mu.Unlock()
	t.slots.give(t, n)
	t.nudge()
}

// takeOrWait takes up to n slots; while there is none the endpoint waits in
// line for one.
func (t *target) takeOrWait(n int) int {
	n = t.slots.takeOrWait(t, n)
	t.waits = n == 0
	return n
}

// open says until when the circuit breaker is open, 0 if it is closed.
func (t *target) open(now domain.Instant) domain.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.breaker.open(now)
}

// serve begins attempts with an endpoint until ctx ends; sending is theirs.
// The error is the file's.
func (l *Lanes) serve(ctx, sending context.Context, t *target) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t.waits = false
		wait, err := l.turn(ctx, sending, t)
		l.keepInLine(t)
		if ctx.Err() != nil {
			return nil // what is wrong with the file, the writer knows
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

// keepInLine lets an endpoint wait for a slot for as long as it wants one.
func (l *Lanes) keepInLine(t *target) {
	if !t.waits {
		l.slots.leave(t)
		return
	}
	if l.slots.crowded(time.Now()) {
		l.config.Log.Warn().Int("max_requests", l.config.Limits.Requests).Str("project", t.project).Str("endpoint", t.id).
			Msg("webhook endpoints wait, this one among them, because too many requests to others are not answered: " +
				"see which time out, and whether the limit of open files is low (ulimit -n, LimitNOFILE= of systemd)")
	}
}

// idle is a wait that only a nudge ends.
const idle = 100 * 365 * 24 * time.Hour

// turn does what can be done for an endpoint now and says how long nothing
// else will be, if nobody nudges.
func (l *Lanes) turn(ctx, sending context.Context, t *target) (time.Duration, error) {
	if t.counted().lanes == 0 {
		return idle, nil
	}
	endpoint, state, err := l.endpoint(ctx, t)
	if err != nil {
		return retryRead, nil //nolint:nilerr // said there; it is tried until it works
	}
	if state != "" {
		return checkEvery, l.hold(ctx, t, state)
	}
	start, wait, err := l.ready(t)
	if err != nil || start == nil {
		return wait, err
	}
	start.endpoint = endpoint
	if err := l.writer.start(ctx, start); err != nil {
		return 0, err
	}
	l.begin(sending, start)
	return 0, nil // the next ones get what the endpoint is by then
}

// endpoint looks an endpoint up. state is what its deliveries become when it
// gets nothing: held or cancelled.
func (l *Lanes) endpoint(ctx context.Context, t *target) (e domain.Endpoint, state domain.DeliveryState, err error) {
	p, ok, err := l.config.Endpoints.Project(ctx, t.project)
	if err != nil {
		if ctx.Err() == nil {
			l.config.Log.Warn().Err(err).Str("project", t.project).Msg("the project of a webhook endpoint could not be read; it is tried again")
		}
		return e, "", err
	}
	if ok {
		e, ok = p.Endpoint(t.id)
	}
	switch {
	case !ok:
		return e, domain.DeliveryCancelled, nil
	case e.Disabled != "":
		return e, domain.DeliveryHeld, nil
	}
	return e, "", nil
}

// hold takes everything out of an endpoint's lanes.
func (l *Lanes) hold(ctx context.Context, t *target, state domain.DeliveryState) error {
	o := &holdOp{target: t, state: state, more: true}
	for o.more && ctx.Err() == nil {
		if err := l.writer.insist(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// ready takes as many lanes as may be started now, with the places for their
// attempts, or says how long none may be.
func (l *Lanes) ready(t *target) (*startOp, time.Duration, error) {
	if asked := t.takeAsked(); len(asked) > 0 {
		return &startOp{target: t, asked: asked, places: len(asked)}, 0, nil
	}
	t.due.Lock()
	defer t.due.Unlock()
	now := l.clock.now()
	if len(t.window.keys) == 0 && !t.window.all {
		if err := l.refill(t); err != nil {
			return nil, 0, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.window.keys) == 0, t.leaving:
		return nil, checkEvery, nil
	case t.window.keys[0].at() > now && !t.breaker.granted:
		return nil, min(until(t.window.keys[0].at(), now), checkEvery), nil
	}
	free := t.breaker.allow(now, l.config.Limits.Concurrency-t.requests)
	if free <= 0 {
		if open := t.breaker.open(now); open != 0 {
			return nil, min(until(open, now), checkEvery), nil
		}
		return nil, checkEvery, nil // the end of an attempt nudges
	}
	tokens := t.limiter.TokensAt(time.Now())
	if tokens < 1 {
		return nil, max(time.Duration((1-tokens)/l.config.Limits.Rate*float64(time.Second)), time.Millisecond), nil
	}
	if t.breaker.granted {
		now = t.window.keys[0].at()
	}
	n := t.takeOrWait(min(free, int(tokens), t.window.due(now)))
	if n == 0 {
		return nil, checkEvery, nil // a slot that is granted nudges
	}
	keys := t.window.pop(n, now)
	t.requests += len(keys)
	return &startOp{target: t, keys: keys, granted: t.breaker.begun(), places: len(keys)}, 0, nil
}

// refill reads on in the file where the window ends. Nothing is lost between
// the file and the window because changes are offered to it after they are in
// the file, under the same lock, t.due.
func (l *Lanes) refill(t *target) error {
	err := l.view(func(x tables) error {
		t.window.refill(x.dueAfter(t, t.window.end, windowSize))
		return nil
	})
	if errors.Is(err, errDamaged) {
		l.writer.fail(err)
	}
	return err
}
