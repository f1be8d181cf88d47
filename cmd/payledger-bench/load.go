package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// operation is what a connection does over and over, one at a time. It returns
// errDone when nothing is left to do; any other error ends the benchmark.
type operation func(*client) error

// load is how a target is loaded.
//
// In a closed loop each connection sends its next request when it has the
// answer to the last. In an open loop requests are due at fixed times and their
// latency counts from then, however late they were sent, so that a server that
// stalls is charged for everyone who would have waited.
type load struct {
	connections int
	rate        int           // requests a second of an open loop; 0: a closed loop
	warm        time.Duration // before anything counts
	duration    time.Duration // 0: until every operation is done
}

// outcome is what came of a load.
type outcome struct {
	rate float64       // answers a second within the time that counts
	p99  float64       // of those answers, milliseconds
	all  int           // answers from the first to the last
	cpu  time.Duration // what the load itself took
}

const (
	// patience is how long an answer, or a target's end, may take before the run fails.
	patience = 2 * time.Minute

	// longest is the limit of a load without a duration.
	longest = 30 * time.Minute

	// pacers is how many loads are paced at the same time, at most. Each keeps
	// one of Go's processors while it sleeps in the kernel.
	pacers = 2
)

// drive puts a load on a target. What it created is added to the target's
// acknowledged payments.
func (t *target) drive(ctx context.Context, l load, op operation) (o outcome, err error) {
	duration := l.duration
	if duration == 0 {
		duration = longest
	}
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for i := range l.connections {
		c, err := t.dial(ctx, t.projects[i%len(t.projects)], time.Now().Add(l.warm+duration+patience))
		if err != nil {
			return o, err
		}
		clients = append(clients, c)
	}
	start := time.Now()
	from := start.Add(l.warm)
	until := from.Add(duration)
	g, ctx := errgroup.WithContext(ctx)
	var due chan time.Time
	if l.rate > 0 {
		due = make(chan time.Time, 1<<16)
		g.Go(func() error { return pace(ctx, start, until, l.rate, due) })
	}
	for _, c := range clients {
		g.Go(func() error { return c.loop(ctx, op, from, until, due) })
	}
	cpu := processCPU(os.Getpid())
	err = g.Wait()
	o.cpu = processCPU(os.Getpid()) - cpu
	end := time.Now()
	if end.After(until) {
		end = until
	}
	var latency []time.Duration
	for _, c := range clients {
		o.all += c.all
		latency = append(latency, c.latency...)
		t.created(c.acked)
	}
	slices.Sort(latency)
	if n := len(latency); n > 0 {
		o.rate, o.p99 = float64(n)/end.Sub(from).Seconds(), float64(latency[n*99/100])/1e6
	}
	return o, err
}

// loop runs the operation until its end: when each request is due in an open
// loop, and one after the other where due is nil, at least one.
func (c *client) loop(ctx context.Context, op operation, from, until time.Time, due <-chan time.Time) error {
	for {
		at := time.Now()
		if due == nil && c.all > 0 && !at.Before(until) {
			return nil
		}
		if due != nil {
			next, ok := <-due
			if !ok {
				return nil
			}
			at = next
		}
		err := op(c)
		switch {
		case errors.Is(err, errDone):
			return nil
		case err != nil:
			return errors.Join(ctx.Err(), err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		c.all++
		end := time.Now()
		// All that was due within the time counts, however late its answer.
		if !at.Before(from) && (due != nil || end.Before(until)) {
			c.latency = append(c.latency, end.Sub(at))
		}
	}
}

// pace says when each request of an open loop is due, evenly spread, and closes
// due at the end.
func pace(ctx context.Context, start, until time.Time, rate int, due chan<- time.Time) error {
	defer close(due)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for at := start; at.Before(until); at = at.Add(time.Second / time.Duration(rate)) {
		waitUntil(at)
		select {
		case due <- at:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// times lets an operation run so often, all connections together.
func times(n int, op operation) operation {
	var begun atomic.Int64
	return func(c *client) error {
		if begun.Add(1) > int64(n) {
			return errDone
		}
		return op(c)
	}
}

// eachOf runs an operation once for each of these payments.
func eachOf(all []acked, op func(*client, acked) error) operation {
	var begun atomic.Int64
	return func(c *client) error {
		n := begun.Add(1)
		if n > int64(len(all)) {
			return errDone
		}
		return op(c, all[n-1])
	}
}

// The operations of most loads, on a target as it is when the load begins.

func creating(*target) operation {
	return func(c *client) error {
		_, err := c.create()
		return err
	}
}

func getting(t *target) operation {
	all := t.all()
	return func(c *client) error {
		_, err := c.get(drawn(all))
		return err
	}
}

func repeating(t *target) operation {
	all := t.all()
	return func(c *client) error { return c.repeat(drawn(all)) }
}

func drawn(all []acked) acked {
	return all[rand.IntN(len(all))] //nolint:gosec // it need not be hard to guess
}

// lostError: a payment that a service had acknowledged was not found again.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// verify reads every acknowledged payment again. The error is a *lostError if
// one is not there, or not as it was.
func (t *target) verify(ctx context.Context) (checked int, err error) {
	all := t.all()
	_, err = t.drive(ctx, load{connections: 32}, eachOf(all, func(c *client, p acked) error {
		_, err := c.get(p)
		if _, wrong := errors.AsType[*answerError](err); wrong {
			return &lostError{fmt.Errorf("the acknowledged payment %s was not found again: %w", p.id, err)}
		}
		return err
	}))
	return len(all), err
}
