package notifier

import (
	"context"
	"errors"
	"time"

	"payledger/eventstore"
)

// backoff counts pauses that grow from first to most and start over when
// reset.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

func (b *backoff) reset() { b.next = 0 }

// wait pauses and reports whether ctx is still alive.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(2*b.next, b.first), b.most)
	return pause(ctx, b.next)
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// storePause is how long a command waits before a busy or full store is asked
// again.
func storePause() backoff { return backoff{first: 10 * time.Millisecond, most: time.Second} }

// persist runs a command on the store until it is decided. Errors that pass
// are tried again; the error is the context's, a refusal, or one that stands.
func persist(ctx context.Context, command func() error) error {
	b := storePause()
	for {
		err := command()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !passes(err) {
			return err
		}
		if !b.wait(ctx) {
			return ctx.Err()
		}
	}
}

// passes reports whether a command is to be tried again after a pause.
func passes(err error) bool { return eventstore.Passing(err) }

// ends reports whether the store is at its end, so that whoever met err has
// to stop. A damaged record ends only work on its own stream.
func ends(err error) bool {
	return errors.As(err, new(*eventstore.FatalError)) || errors.Is(err, eventstore.ErrClosed)
}
