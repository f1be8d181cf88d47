package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/eventstore"
)

// Backoff is a pause that doubles at each Wait, from First to Max, until Reset.
type Backoff struct {
	First, Max time.Duration
	Next       time.Duration
}

// Reset lets the next pause be First.
func (b *Backoff) Reset() { b.Next = 0 }

// Wait pauses, and reports false when ctx ended first.
func (b *Backoff) Wait(ctx context.Context) bool {
	b.Next = min(max(2*b.Next, b.First), b.Max)
	return Pause(ctx, b.Next)
}

// Pause waits, and reports false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// StorePause is how long a command waits before a busy or full store is asked
// again.
func StorePause() Backoff { return Backoff{First: 10 * time.Millisecond, Max: time.Second} }

// Persist runs a command until the store has decided it: errors that pass are
// tried again after a pause. The error is the context's with the store's, a refusal,
// or one that does not pass.
func Persist(ctx context.Context, command func() error) error {
	b := StorePause()
	for {
		err := command()
		if ctx.Err() != nil || !Passes(err) {
			return err
		}
		if !b.Wait(ctx) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// Passes reports whether a command that met the error is worth trying again. If it was
// recorded after all, it is decided on that.
func Passes(err error) bool {
	return eventstore.Passing(err) || errors.Is(err, eventstore.ErrUnconfirmed)
}

// Ends reports whether the store takes no more commands, so that the caller has
// to stop. A damaged record ends only the work on its own stream.
func Ends(err error) bool {
	return errors.As(err, new(*eventstore.FatalError)) || errors.Is(err, eventstore.ErrClosed)
}
