package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/notifier/webhook"
)

// lastWords is how long attempts under way may go on when the engine ends. One
// that is cut off is made again after the next start.
const lastWords = 2 * time.Second

// ErrClosed is the answer after Close.
var ErrClosed = errors.New("the lanes are closed")

// Lanes are the deliveries to every endpoint. Safe for concurrent use.
type Lanes struct {
	config  Config
	db      *boltfile.File
	clock   clock
	writer  *writer
	metrics metrics
	slots   *slots

	flying map[flight]bool // lanes with an attempt under way; the writer's own

	mu       sync.Mutex
	targets  map[string]*target // by endpoint
	highest  uint32             // number of a target
	running  *running           // nil: Run is not at work
	attempts sync.WaitGroup
}

// running is what Run does.
type running struct {
	serve   func(*target)   // starts to serve an endpoint
	sending context.Context // of attempts
}

// flight is the key of a lane.
type flight [20]byte

// Open opens the lane file, or makes it. One that this directory was not last
// used with, or that does not fit the event log, is put aside, and a fresh one
// is made.
func Open(ctx context.Context, c Config) (*Lanes, error) {
	l := &Lanes{config: c.withDefaults(), flying: make(map[flight]bool), targets: make(map[string]*target)}
	l.slots = newSlots(l.config.Limits.Requests)
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	l.writer = newWriter(l)
	l.metrics = newMetrics(l)
	err := l.writer.commit([]*waiting{{op: resumeOp{}}}) // however full the disk is
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
	if c.Limits.Requests == 0 {
		c.Limits.Requests = webhook.DefaultRequests
	}
	if c.Limits.Concurrency == 0 {
		c.Limits.Concurrency = 16
	}
	if c.Limits.Rate == 0 {
		c.Limits.Rate = 1000
	}
	if c.Limits.Burst == 0 {
		c.Limits.Burst = 1000
	}
	return c
}

// open opens the file; one whose endpoints cannot be read is put aside too.
func (l *Lanes) open(ctx context.Context) (err error) {
	for range 2 {
		if l.db, err = openFile(ctx, l.config); err != nil {
			return err
		}
		if err = l.load(); err == nil {
			return nil
		}
		err = errors.Join(l.distrust(err), l.db.Close())
		if !errors.Is(err, errDamaged) {
			break
		}
		clear(l.targets)
	}
	return err
}

// load reads the endpoints.
func (l *Lanes) load() error {
	return l.view(func(x tables) error {
		last := domain.Instant(numberIn(x.meta, keyTime))
		l.clock = newClock(l.config.Now, last)
		l.highest = uint32(numberIn(x.meta, keyEndpoints))
		return x.endpoints.ForEach(func(key, v []byte) error {
			project, id, n, err := parseTally(key, v)
			if err != nil {
				return err
			}
			if gone := until(l.clock.first, last); n.failingSince != 0 && gone > aliveEvery {
				n.away += gone - aliveEvery
			}
			l.targets[id] = l.newTarget(numberOf(key), project, id, n)
			return nil
		})
	})
}

// view reads the file as of its last change.
func (l *Lanes) view(fn func(tables) error) error {
	return damagedBy(l.db.View(func(btx *bbolt.Tx) error { return fn(tablesOf(btx)) }))
}

// damagedBy tells damage to the file from other errors.
func damagedBy(err error) error {
	if boltfile.Damaged(err) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// Run sends until ctx ends, once. An error means that the lane file failed:
// nothing can be sent or enqueued any more.
func (l *Lanes) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
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
	select {
	case <-ctx.Done():
	case <-l.writer.failed:
	}
	stop()
	l.mu.Lock()
	l.running = nil
	l.mu.Unlock()
	serving.Wait()
	late := time.AfterFunc(lastWords, abort)
	l.attempts.Wait()
	late.Stop()
	return l.distrust(l.writer.error())
}

// distrust makes sure that a damaged file is not opened again.
func (l *Lanes) distrust(err error) error {
	if !errors.Is(err, errDamaged) {
		return err
	}
	if e := writeMark(l.config.Mark, newEpoch()); e != nil {
		return fmt.Errorf("%w; remove it before the next start: %w", err, e)
	}
	return fmt.Errorf("%w; at the next start it is put aside", err)
}

// Close closes the lane file. Run must have ended.
func (l *Lanes) Close() error {
	l.writer.close()
	err := l.writer.error()
	if err == nil {
		err = l.seal()
	}
	l.metrics.unregister()
	return errors.Join(err, l.db.Close())
}

// seal gives the file another epoch, so that copies taken of it until now are
// told from it, and the time of its end.
func (l *Lanes) seal() error {
	next := newEpoch()
	err := l.db.Update(func(btx *bbolt.Tx) error {
		meta := btx.Bucket([]byte(bucketMeta))
		return errors.Join(putEpochs(meta, next, epochIn(meta, keyEpoch)), putInstant(meta, keyTime, l.clock.now()))
	})
	if err != nil {
		return fmt.Errorf("closing the lane file: %w", err)
	}
	return writeMark(l.config.Mark, next)
}

// target finds an endpoint, or takes in a new one.
func (x *tx) target(project, id string) (*target, error) {
	l := x.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.targets[id]; t != nil {
		return t, nil
	}
	l.highest++
	t := l.newTarget(l.highest, project, id, tally{})
	t.window.all = true
	l.targets[id] = t
	if l.running != nil {
		l.running.serve(t)
	}
	x.changed[t] = struct{}{}
	return t, putNumber(x.meta, keyEndpoints, uint64(l.highest))
}

// known finds an endpoint that was sent something.
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
// fanned out, or were too old for it when the lane file was made. base is where
// the log ended then: of the events at or below it each payment's newest is to
// be sent, and outcomes before that are to be listed (see Event.Unconfirmed).
func (l *Lanes) Start() (after, base eventstore.Position, err error) {
	err = l.view(func(x tables) error {
		after, base = positionIn(x.meta, keyAfter), positionIn(x.meta, keyBase)
		return nil
	})
	return after, base, err
}

// Enqueue adds events to the lanes of their endpoints, in the order of their
// payments, and notes that the fan-out got to upTo. When it returns nil, both
// are durable; an event it is told of again is left out. While the disk is too
// full it answers eventstore.ErrFull, as does everything else that changes the
// file. It returns when the writer can take what comes next.
func (l *Lanes) Enqueue(ctx context.Context, upTo eventstore.Position, events []Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &enqueueOp{upTo: upTo, events: events, endpoints: l.endpoints(ctx, events), busy: l.writer.busy.Load()}
	err := l.writer.do(o)
	if err == nil {
		l.metrics.unconfirmed.Add(float64(o.listed))
	}
	l.writer.ready(ctx)
	return err
}

// endpoints looks up those that events go to, except those that get nothing.
func (l *Lanes) endpoints(ctx context.Context, events []Event) map[string]domain.Endpoint {
	found := make(map[string]domain.Endpoint)
	if !l.sending() {
		return found
	}
	seen := make(map[string]struct{})
	for _, e := range events {
		if _, ok := seen[e.Endpoint]; ok {
			continue
		}
		seen[e.Endpoint] = struct{}{}
		if endpoint, state, err := l.endpoint(ctx, e.Project, e.Endpoint); err == nil && state == "" {
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
func (l *Lanes) Secret(endpoint string, s domain.Secret) (string, error) {
	return l.config.Secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion is the version of the master key that new secrets are made with.
func (l *Lanes) KeyVersion() int { return l.config.Secrets.Current() }

// Changed looks again at what waits for an endpoint that was changed: one that
// is paused is tried at once, and one that gets nothing any more is left.
func (l *Lanes) Changed(endpoint string) {
	if t := l.known(endpoint); t != nil {
		t.tryNow(l.clock.now())
	}
}

// CheckTarget says why a URL may not be called, nil if it may.
func (l *Lanes) CheckTarget(url string) error { return l.config.Sender.Check(url) }
