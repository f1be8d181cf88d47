package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"payledger/cmd/payledger/cli"
)

// Part is a part of a program that was started.
type Part struct {
	Run  func(context.Context) error // in the background, until its context ends; nil: nothing
	Stop func() error                // after Run has returned; nil: nothing
}

// Parts are what runs, in the order of its start. They stop in the reverse order, so that nothing
// is taken away from what still needs it. The error of a part begins with its name, unless it is a
// cli.ExitError, which says itself what it is about. Parts are started and stopped by one goroutine.
type Parts struct {
	failed  context.Context
	fail    context.CancelFunc
	started []startedPart
	current *atomic.Pointer[string] // the part that is being stopped
}

type startedPart struct {
	name string
	stop func() error
}

// NewParts are no parts yet.
func NewParts() *Parts {
	p := &Parts{current: new(atomic.Pointer[string])}
	p.failed, p.fail = context.WithCancel(context.Background())
	return p
}

// Sub are parts that are started and stopped together while p runs.
func (p *Parts) Sub() *Parts {
	sub := NewParts()
	sub.current = p.current
	return sub
}

// Failed ends when a part has ended with an error, which Stop returns.
func (p *Parts) Failed() context.Context { return p.failed }

// Start starts a part. With an error, it answers how to stop what was begun by then.
func (p *Parts) Start(ctx context.Context, name string, start func(context.Context) (Part, error)) error {
	part, err := start(ctx)
	if err != nil {
		part.Run = nil
	}
	p.Add(name, part)
	return named(name, err)
}

// Go starts a part that is no more than its run.
func (p *Parts) Go(name string, run func(context.Context) error) { p.Add(name, Part{Run: run}) }

// Add adds a part, and starts its run.
func (p *Parts) Add(name string, part Part) {
	ended := func() error { return nil }
	if part.Run != nil {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			err := part.Run(ctx)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = nil
			}
			done <- err
			if err != nil {
				p.fail()
			}
		}()
		ended = func() error { cancel(); return <-done }
	}
	p.started = append(p.started, startedPart{name, func() error {
		err := ended()
		if part.Stop != nil {
			err = errors.Join(err, part.Stop())
		}
		return named(name, err)
	}})
}

// Stop stops the parts.
func (p *Parts) Stop() (err error) {
	for _, part := range slices.Backward(p.started) {
		p.current.Store(&part.name)
		err = errors.Join(err, part.stop())
	}
	p.started = nil
	p.fail() // of use to nobody any more
	return err
}

func named(name string, err error) error {
	if err == nil || errors.As(err, new(*cli.ExitError)) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
