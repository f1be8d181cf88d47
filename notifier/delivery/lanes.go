package delivery

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
	"payledger/notifier/webhook"
)

// shutdownGrace is how long attempts under way may go on when the engine ends. One
// that is cut off is made again after the next start.
const shutdownGrace = 2 * time.Second

// ErrClosed is the answer after Close.
var ErrClosed = errors.New("the lanes are closed")

// Lanes are the deliveries to every endpoint. Safe for concurrent use.
type Lanes struct {
	config  Config
	file    *store.File
	clock   clock
	writer  *writer
	metrics metrics
	slots   *slots
	crowded zerolog.Logger // for one line a minute

	underWay map[store.LaneKey]bool // lanes with an attempt under way; the writer's own
	foreign  []store.LaneKey        // of these, the ones that another node may have begun
	unknown  bool                   // see store.Tables.RequestsUnknown

	mu       sync.Mutex
	targets  map[string]*target // by endpoint
	highest  store.Number       // number of a target
	running  *running           // nil: Run is not at work
	attempts sync.WaitGroup
}

// running is what Run does.
type running struct {
	serve   func(*target)   // starts to serve an endpoint
	sending context.Context // of attempts
}

// Open opens the lane file, or makes it. One that this directory was not last
// used with, or that does not fit the event log, is moved aside, and a fresh one
// is made.
func Open(ctx context.Context, c Config) (*Lanes, error) {
	l := &Lanes{config: c.withDefaults(), underWay: make(map[store.LaneKey]bool), targets: make(map[string]*target)}
	l.slots = newSlots(l.config.Limits.Requests)
	l.crowded = c.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	if c.Lead != nil {
		if err := l.leaveAlone(); err != nil {
			return nil, errors.Join(err, l.file.Abandon())
		}
	}
	l.writer = &writer{lanes: l, wake: make(chan struct{}, 1), failed: make(chan struct{})}
	l.metrics = newMetrics(l)
	err := l.change([]*waiting{{op: func(x *tx) error { // the time, and for how long no program ran; however full the disk is
		for _, t := range l.all() {
			if t.counted().FailingSince != 0 {
				x.changed[t] = struct{}{}
			}
		}
		return nil
	}}})
	if err != nil {
		l.writer.fail(err)
	}
	l.writer.end.Go(l.writer.run)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Full == nil {
		c.Full = func() bool { return false }
	}
	if c.Schedule == nil {
		c.Schedule = webhook.DefaultSchedule()
	}
	c.Limits = Limits{
		Requests:    cmp.Or(c.Limits.Requests, webhook.DefaultRequests),
		Concurrency: cmp.Or(c.Limits.Concurrency, 16),
		Rate:        cmp.Or(c.Limits.Rate, 1000),
		Burst:       cmp.Or(c.Limits.Burst, 1000),
	}
	return c
}

// open opens the file and reads its endpoints; one whose endpoints cannot be read is moved aside too.
func (l *Lanes) open(ctx context.Context) (err error) {
	c := l.config
	for range 2 {
		l.file, err = store.Open(ctx, store.Options{Path: c.Path, Mark: c.Mark, LogID: c.LogID, Store: c.Ledger.Store, Now: c.Now, Log: c.Log})
		if err != nil {
			return err
		}
		if c.Lead != nil {
			if err = c.Lead(ctx, l.file); err != nil {
				return errors.Join(err, l.file.Abandon())
			}
		}
		err = l.file.View(func(x store.Tables) error {
			last := x.Time()
			l.clock = newClock(c.Now, last)
			l.highest, l.unknown = x.Highest(), x.RequestsUnknown()
			return x.EachEndpoint(func(number store.Number, project, id string, n store.Tally) {
				if gone := until(l.clock.first, last); n.FailingSince != 0 && gone > aliveEvery {
					n.Away += gone - aliveEvery
				}
				l.targets[id] = l.newTarget(number, project, id, n)
			})
		})
		if err == nil {
			return nil
		}
		err = errors.Join(l.file.Distrust(err), l.file.Abandon())
		if !errors.Is(err, store.ErrDamaged) {
			break
		}
		clear(l.targets)
	}
	return err
}

// Run sends until ctx ends, once. An error means that the lane file failed:
// nothing can be sent or enqueued any more.
func (l *Lanes) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.waitForForeign(ctx)
	sending, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var serving sync.WaitGroup
	l.mu.Lock()
	l.running = &running{
		serve: func(t *target) {
			serving.Go(func() {
				if err := l.serve(ctx, t); err != nil {
					l.writer.fail(err)
				}
			})
		},
		sending: sending,
	}
	for _, t := range l.targets {
		l.running.serve(t)
	}
	l.mu.Unlock()
	serving.Go(func() { l.prune(ctx) })
	serving.Go(func() { l.keepAlive(ctx) })
	serving.Go(func() { l.release(ctx) })
	select {
	case <-ctx.Done():
	case <-l.writer.failed:
	}
	stop()
	l.mu.Lock()
	l.running = nil
	l.mu.Unlock()
	serving.Wait()
	late := time.AfterFunc(shutdownGrace, abort)
	l.attempts.Wait()
	late.Stop()
	return l.file.Distrust(l.writer.error())
}

// Close closes the lane file. Run must have ended.
func (l *Lanes) Close() error {
	l.writer.close()
	if l.config.Metrics != nil {
		l.config.Metrics.Unregister(l.metrics.registry)
	}
	if err := l.writer.error(); err != nil {
		return errors.Join(err, l.file.Abandon())
	}
	return l.file.Close(l.clock.now())
}

// WriteTo writes a copy of the lane file, as it is at one instant.
func (l *Lanes) WriteTo(w io.Writer) (int64, error) { return l.file.WriteTo(w) }

// known finds an endpoint that has had deliveries.
func (l *Lanes) known(id string) *target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.targets[id]
}

func (l *Lanes) all() []*target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.targets))
}

func (l *Lanes) wallNow() domain.Instant { return domain.InstantOf(l.config.Now()) }

// firstTry is when a delivery that comes to the head of its lane is due.
func (l *Lanes) firstTry(now domain.Instant) domain.Instant {
	wait, _ := l.config.Schedule.Next(0, l.config.Random(), 0)
	return now.Add(wait)
}

// Start says where the fan-out goes on: events up to and including after were
// fanned out, or were too old for it when the lane file was made. base is the
// log's last position at that time: of the events up to it only each payment's
// newest is sent, and outcomes before that are listed (see Event.Unconfirmed).
func (l *Lanes) Start() (after, base eventstore.Position, err error) {
	err = l.file.View(func(x store.Tables) error {
		after, base = x.Progress()
		return nil
	})
	return after, base, err
}

// Enqueue adds events to the lanes of their endpoints, in the order of their
// payments, and notes that the fan-out got to upTo. When it returns nil, both
// are durable; an event that is enqueued again is left out. While the disk is too
// full it returns eventstore.ErrFull, as does everything else that changes the
// file. It returns when the writer would commit the next events at once.
func (l *Lanes) Enqueue(ctx context.Context, upTo eventstore.Position, events []Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	endpoints, busy, unconfirmed := l.endpoints(ctx, events), l.writer.busy.Load(), 0
	err := l.writer.do(func(x *tx) (err error) {
		unconfirmed, err = x.enqueueAll(upTo, events, endpoints, busy)
		return err
	})
	if err == nil {
		l.metrics.unconfirmed.Add(float64(unconfirmed))
	}
	l.writer.ready(ctx)
	return err
}

// endpoints looks up those that events go to, except those that get nothing.
func (l *Lanes) endpoints(ctx context.Context, events []Event) map[string]projects.Endpoint {
	found := make(map[string]projects.Endpoint)
	if !l.sending() {
		return found
	}
	seen := make(map[string]struct{})
	for _, e := range events {
		if _, ok := seen[e.Endpoint]; ok {
			continue
		}
		seen[e.Endpoint] = struct{}{}
		if endpoint, state, err := l.find(ctx, e.Project, e.Endpoint); err == nil && state == "" {
			found[e.Endpoint] = endpoint
		}
	}
	return found
}

// sending reports whether Run is at work.
func (l *Lanes) sending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running != nil
}

// Secret answers a signing secret of an endpoint.
func (l *Lanes) Secret(endpoint string, s projects.Secret) (string, error) {
	return l.config.Secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion is the version of the master key that new secrets are made with.
func (l *Lanes) KeyVersion() int { return l.config.Secrets.Current() }

// Changed looks again at what waits for an endpoint that was changed: a paused
// one is tried at once, and the deliveries of one that gets nothing any more are
// taken out of line.
func (l *Lanes) Changed(endpoint string) {
	if t := l.known(endpoint); t != nil {
		t.tryNow(l.clock.now())
	}
}

// CheckTarget says why a URL may not be called, nil if it may.
func (l *Lanes) CheckTarget(url string) error { return l.config.Sender.Check(url) }
