package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// shutdownGrace is how long attempts under way may go on when the engine ends. One
// that is cut off is made again after the next start.
const shutdownGrace = 2 * time.Second

// requestTime is longer than a request takes: it ends within this time after the event
// that it begins with was to be appended, however long that took. So long after another
// sender has begun, no request of this one is under way.
const requestTime = domain.AnswerTime + 5*time.Second

// ErrLost ends Run: another sender has begun.
var ErrLost = errors.New("another process has begun to send the webhooks of this log")

// sender is what sends from the beginning of Run until its end.
type sender struct {
	*Lanes
	clock   clock
	writer  *writer
	metrics metrics
	slots   *slots
	seldom  zerolog.Logger // for one line a minute

	begins   bool                 // nothing was recorded yet; the writer's own
	base     uint64               // see deliveries.State
	alone    domain.Instant       // requests of the sender before are over
	last     eventstore.Stored    // record of a sender: the next one follows it; the writer's own
	underWay map[laneKey]struct{} // lanes with an attempt under way; the writer's own
	sending  context.Context      // of attempts
	serving  context.Context      // of what begins them
	servants sync.WaitGroup       // the endpoints' goroutines
	attempts sync.WaitGroup       // begun by the writer
	mu       sync.Mutex
	targets  map[string]*target // by endpoint
}

// laneKey names a lane.
type laneKey struct {
	endpoint string
	payment  domain.ID
}

// Run sends until ctx ends, once at a time. An error means that nothing can be sent any
// more: that of the log or of its fold, or ErrLost. Its metrics, which go at the end, are
// registered with in; nil: there are none.
func (l *Lanes) Run(ctx context.Context, in prometheus.Registerer) error {
	var last eventstore.Position
	var err error
	for again := true; again; again = eventstore.Passing(err) && health.Pause(ctx, retryFull) {
		if last, err = l.config.Ledger.Store.Last(ctx); err == nil {
			err = l.config.Rows.Fresh(ctx)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sending, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	state := l.config.Rows.State()
	s := &sender{
		Lanes: l, clock: newClock(l.config.Now, state.Time), slots: newSlots(l.config.Limits.Requests),
		seldom: l.config.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}),
		last:   eventstore.Stored{Position: eventstore.Position(state.Position), Sequence: state.Sequence},
		begins: true, sending: sending, serving: ctx, underWay: make(map[laneKey]struct{}), targets: make(map[string]*target),
	}
	if s.base = state.Base; s.base == 0 {
		s.base = max(uint64(last), 1) // in an empty log, too, it is known afterwards that there was a sender
	}
	s.writer = newWriter(s)
	s.metrics = newMetrics(s, in)
	if in != nil {
		defer in.Unregister(s.metrics.registry)
	}
	s.writer.end.Go(s.writer.run)
	defer s.writer.close()
	if s.serveAll(ctx) == nil {
		select {
		case <-ctx.Done():
		case <-s.writer.failed:
		}
		s.mu.Lock()
		stop() // no endpoint is served from now on
		s.mu.Unlock()
		l.config.Rows.Watch(nil)
		l.sender.Store(nil)
		late := time.AfterFunc(shutdownGrace, abort)
		s.servants.Wait()
		s.attempts.Wait()
		late.Stop()
	}
	err = s.writer.error()
	if ctx.Err() != nil && errors.Is(err, eventstore.ErrUnconfirmed) {
		return nil // the next sender sees whether it was recorded
	}
	return err
}

// serveAll lets the endpoints be served. While one fails, or another sender may be at work,
// it is recorded at once that this one begins, and otherwise with the first that it sends.
func (s *sender) serveAll(ctx context.Context) error {
	s.alone = s.clock.now().Add(requestTime)
	if s.config.Shared || s.anyFails() {
		if err := s.writer.insist(ctx, alive); err != nil {
			return err
		}
	}
	s.sender.Store(s)
	s.config.Rows.Watch(&deliveries.Watch{
		Queued: func(project, endpoint string, at deliveries.DueKey) { s.target(project, endpoint).offer(at) },
		Requested: func(project, endpoint string, payment, event domain.ID) {
			s.target(project, endpoint).request(requested{payment, event})
		},
		Changed: func(endpoint string) {
			if t := s.known(endpoint); t != nil {
				t.tryNow(s.clock.now())
			}
		},
		Unknown: func(endpoint string, position uint64) {
			s.config.Log.Error().Str("endpoint", endpoint).Uint64("position", position).Msg("a delivery in the event log is to an endpoint that never was: it is left out")
		},
	})
	for id, e := range s.config.Rows.Endpoints() { // others are served when something is queued
		if e.Lanes > 0 {
			s.target(e.Project, id)
		}
	}
	s.servants.Go(func() { s.keepAlive(ctx) })
	return nil
}

// target finds an endpoint, or begins to serve a new one.
func (s *sender) target(project, id string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.targets[id]
	if t == nil {
		t = s.newTarget(project, id)
		s.targets[id] = t
		if s.serving.Err() == nil {
			s.servants.Go(func() { s.serve(s.serving, t) })
		}
	}
	return t
}

// known finds an endpoint that is served.
func (s *sender) known(id string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets[id]
}

// forgetEvery is how often the oldest rows are looked at that nothing else forgets.
const forgetEvery = time.Hour

// keepAlive says until ctx ends that this sender is there: while an endpoint fails, and
// when there are old rows, which are forgotten with its events.
func (s *sender) keepAlive(ctx context.Context) {
	for n := 1; health.Pause(ctx, deliveries.AliveEvery/2); n++ {
		if until(s.clock.now(), s.config.Rows.State().Time) >= deliveries.AliveEvery/2 && s.anyFails() && s.writer.insist(ctx, alive) != nil {
			return // a failure is Run's
		}
		if n%int(2*forgetEvery/deliveries.AliveEvery) != 0 {
			continue
		}
		for more := true; more; {
			old, err := s.config.Rows.Outdated(ctx, s.wallNow())
			if err != nil || old && s.writer.insist(ctx, alive) != nil {
				break
			}
			state := s.config.Rows.State()
			more = old && (state.DeliveriesSeen != "" || state.LanesSeen != "")
		}
	}
}

// alive has an event written, also one without entries.
func alive(x *tx) error {
	x.write = true
	return nil
}

// anyFails reports whether an endpoint fails.
func (s *sender) anyFails() bool {
	failing := func(e *deliveries.Endpoint) bool { return e.FailingSince != 0 }
	return slices.ContainsFunc(slices.Collect(maps.Values(s.config.Rows.Endpoints())), failing)
}

// tx is what is decided for one event. What an operation reads is as of the event before.
type tx struct {
	*sender
	now    domain.Instant
	noted  deliveries.Noted
	write  bool // also without entries
	places map[string]int
	size   int
	begun  []attempt // to be made when the event is durable
	ended  []laneKey
	taken  []taken // out of the window
}

// taken is a lane of which an event notes something, as the window had it.
type taken struct {
	target *target
	key    deliveries.DueKey
}

// The size of an event: operations are taken up to maxNoted, and each adds
// maxAtOnce entries at most. So it is below 48 KiB.
const (
	maxNoted  = 30 << 10
	maxAtOnce = 256
)

// note adds an entry.
func (x *tx) note(t *target, e deliveries.Entry) {
	place, ok := x.places[t.id]
	if !ok {
		place = len(x.noted.Endpoints)
		x.places[t.id] = place
		x.noted.Endpoints = append(x.noted.Endpoints, t.id)
		x.size += len(t.id) + 3
	}
	e.Endpoint = place
	text := e.Text()
	x.noted.Entries = append(x.noted.Entries, text)
	x.size += len(text) + 3
}

// change lets operations decide, and returns how many did; the others are for the next
// event. Once it returns, what they decided is durable and folded: only then are
// attempts made. After an error nothing of it is.
func (s *sender) change(group []*waiting) (n int, err error) {
	x := &tx{sender: s, now: s.clock.now(), places: make(map[string]int)}
	began := time.Now()
	for n < len(group) && x.size < maxNoted && err == nil {
		err = group[n].op(x)
		n++
	}
	if err == nil && (x.write || len(x.noted.Entries) > 0) {
		if x.noted.At, x.noted.Begins = x.now, s.begins; s.begins {
			x.noted.Base = s.base
		}
		if err = s.append(x.noted); err == nil {
			s.begins = false
		}
	}
	for _, a := range x.begun {
		if err != nil {
			delete(s.underWay, a.lane())
			a.target.abandoned(a)
			if a.requested {
				a.target.request(requested{a.Payment, a.Event})
			}
			continue
		}
		a.began = began
		s.attempts.Go(func() { s.attempt(s.sending, a) })
	}
	if err != nil {
		for _, lane := range x.taken {
			lane.target.offer(lane.key)
		}
		return n, err
	}
	for _, k := range x.ended {
		delete(s.underWay, k)
	}
	return n, nil
}

// append appends an event after the last one of a sender and waits until it is folded.
func (s *sender) append(n deliveries.Noted) error {
	ctx := context.WithoutCancel(s.sending)
	c, err := s.config.Ledger.Commit(eventstore.DeliveriesStream(), s.last, n, eventstore.Order{EventID: s.config.IDs.Next()})
	if err != nil {
		return err
	}
	stored, err := eventstore.AppendOne(ctx, s.config.Ledger.Store, c)
	for pause := health.StorePause(); errors.Is(err, eventstore.ErrUnconfirmed) && pause.Wait(s.sending); {
		stored, err = eventstore.AppendOne(ctx, s.config.Ledger.Store, c)
	}
	switch {
	case errors.As(err, new(*eventstore.ConflictError)):
		return ErrLost
	case err != nil:
		return err
	}
	s.last = eventstore.Stored{Position: stored.Position, Sequence: stored.Sequence}
	if err := s.config.Rows.Wait(ctx, stored.Position); err != nil {
		return fmt.Errorf("folding what was sent: %w", err)
	}
	return nil
}

// all are the endpoints that are served.
func (s *sender) all() []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.targets))
}
