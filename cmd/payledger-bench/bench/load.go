package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is how a target is loaded.
type load struct {
	Connections int
	Rate        int           // requests a second of an open loop; 0: closed
	Warm        time.Duration // before anything counts
	Duration    time.Duration
	ReadOnly    bool // it leaves nothing to do
}

// outcome is what came of a load.
type outcome struct {
	Answered int           // within the time that counts, as they should be
	Elapsed  time.Duration // that time
	Latency  Latency
	Late     Latency // open loop: how late requests were sent
	Refused  int     // answered otherwise, from the first to the last
	Refusal  string  // one of them

	All       int           // answered as they should be, from the first to the last
	ServerCPU time.Duration // within the time that counts
	OwnCPU    time.Duration
}

// rate is answers a second.
func (o outcome) rate() float64 { return per(float64(o.Answered), o.Elapsed.Seconds()) }

// per divides, and answers 0 where there is nothing to divide by.
func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// The phases of a load.
const (
	warming int32 = iota
	counting
	over
)

// lane is what one connection did.
type lane struct {
	latency, late []time.Duration
	all, refused  int
	refusal       string
}

// patience is how long an answer may take before the run fails.
const patience = 30 * time.Second

// drive puts the load on a target. The error is that of a connection: refusals
// are counted.
func drive(ctx context.Context, t *target, l load, w work) (outcome, error) {
	clients, err := t.dialAll(ctx, l.Connections)
	if err != nil {
		return outcome{}, err
	}
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	var phase atomic.Int32
	var working sync.WaitGroup // as long as a connection has something to do
	working.Add(len(clients))
	lanes := make([]lane, len(clients))
	g, ctx := errgroup.WithContext(ctx)
	due := make(chan time.Time, 1<<16)
	start := time.Now()
	for i, c := range clients {
		if err := c.within(l.Warm + l.Duration + patience); err != nil {
			return outcome{}, err
		}
		op := w(t, c)
		if l.Rate > 0 {
			g.Go(func() error {
				defer working.Done()
				return lanes[i].open(&phase, op, due)
			})
		} else {
			g.Go(func() error {
				defer working.Done()
				return lanes[i].closed(ctx, &phase, op)
			})
		}
	}
	if l.Rate > 0 {
		g.Go(func() error {
			defer close(due)
			return pace(ctx, start, l.Rate, l.Warm+l.Duration, due)
		})
	}

	idle := make(chan struct{})
	g.Go(func() error {
		working.Wait()
		close(idle)
		return nil
	})
	var o outcome
	g.Go(func() error {
		defer phase.Store(over)
		if err := sleep(ctx, l.Warm); err != nil {
			return err
		}
		before, own, from := t.cpu(), ownCPU(), time.Now()
		phase.Store(counting)
		err := sleepUnless(ctx, l.Duration, idle)
		o.Elapsed, o.ServerCPU, o.OwnCPU = time.Since(from), t.cpu()-before, ownCPU()-own
		return err
	})
	if err := g.Wait(); err != nil {
		return o, fmt.Errorf("loading %s over %d connections: %w", t.name, l.Connections, err)
	}
	return o.gather(lanes), nil
}

func (o outcome) gather(lanes []lane) outcome {
	var took, late [][]time.Duration
	for _, a := range lanes {
		o.Answered += len(a.latency)
		o.All += a.all
		o.Refused += a.refused
		if a.refusal != "" {
			o.Refusal = a.refusal
		}
		took, late = append(took, a.latency), append(late, a.late)
	}
	o.Latency, o.Late = latencies(took...), latencies(late...)
	return o
}

// closed sends the next request when the last is answered.
func (a *lane) closed(ctx context.Context, phase *atomic.Int32, op func() error) error {
	from := time.Now()
	for {
		if phase.Load() == over || ctx.Err() != nil {
			return ctx.Err()
		}
		err := op()
		to := time.Now()
		if done, err := a.note(err); done || err != nil {
			return err
		}
		if err == nil && phase.Load() == counting {
			a.latency = append(a.latency, to.Sub(from))
		}
		from = to
	}
}

// open sends each request when it is due, or as soon after as it can.
func (a *lane) open(phase *atomic.Int32, op func() error, due <-chan time.Time) error {
	for at := range due {
		now := phase.Load()
		sent := time.Now()
		err := op()
		to := time.Now()
		if done, err := a.note(err); done || err != nil {
			return err
		}
		// What was due within the time counts, however late its answer.
		if err == nil && now >= counting {
			a.latency = append(a.latency, to.Sub(at))
			a.late = append(a.late, sent.Sub(at))
		}
	}
	return nil
}

// note counts an answer. done says that the connection has nothing left to do,
// the error that it broke.
func (a *lane) note(err error) (done bool, broken error) {
	if err == nil {
		a.all++
		return false, nil
	}
	if r, ok := errors.AsType[*refused](err); ok {
		a.refused++
		a.refusal = r.what
		return false, nil
	}
	if errors.Is(err, errDone) {
		return true, nil
	}
	return true, err
}

// dialAll opens so many connections, each with randomness of its own.
func (t *target) dialAll(ctx context.Context, n int) ([]*client, error) {
	clients := make([]*client, 0, n)
	for range n {
		var seed [32]byte
		rand.Read(seed[:])
		c, err := dial(ctx, t.addr, seed)
		if err != nil {
			for _, c := range clients {
				c.close()
			}
			return nil, fmt.Errorf("connecting to %s: %w", t.name, err)
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// each runs one operation after another over so many connections until each
// answers errDone. A refusal ends it too.
func each(ctx context.Context, t *target, connections int, w work) error {
	clients, err := t.dialAll(ctx, connections)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		op := w(t, c)
		all.Go(func() {
			defer c.close()
			for ctx.Err() == nil {
				if errs[i] = errors.Join(c.within(patience), op()); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, errDone) {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return ctx.Err()
}

// upTo lets a work do n operations, all connections together.
func upTo(n int, w work) work {
	var done atomic.Int64
	return func(t *target, c *client) func() error {
		op := w(t, c)
		return func() error {
			if done.Add(1) > int64(n) {
				return errDone
			}
			return op()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error { return sleepUnless(ctx, d, nil) }

// sleepUnless ends early once there is nothing to wait for.
func sleepUnless(ctx context.Context, d time.Duration, idle <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
