package delivery

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"payledger/eventstore"
	"payledger/notifier/health"
)

// minCommitInterval is how long after an event of the sender the next one is made at the
// earliest: what comes meanwhile shares it, and a busy or dead endpoint cannot multiply
// syncs.
const minCommitInterval = 10 * time.Millisecond

// retryFull is how long an operation waits when the log accepts nothing.
const retryFull = time.Second

// op decides what the next event records. An error ends the writer.
type op func(x *tx) error

// writer is the one goroutine that appends what is sent. Waiting operations share an
// event, and none is answered, and no attempt is made, before that is durable. While the
// log accepts nothing they are refused with its error.
type writer struct {
	sender *sender
	end    sync.WaitGroup
	full   atomic.Bool // the disk was too full for the last event

	mu     sync.Mutex
	wake   chan struct{} // the queue has changed
	queue  []*waiting
	next   time.Time // when the next event may be made
	closed bool
	err    error         // what ended it
	failed chan struct{} // closed with err
}

type waiting struct {
	op   op
	done chan error // has room for the answer
}

// do carries out an operation and returns once it is durable, or why it was not.
func (w *writer) do(o op) error {
	p := &waiting{op: o, done: make(chan error, 1)}
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	w.queue = append(w.queue, p)
	wake(w.wake)
	w.mu.Unlock()
	return <-p.done
}

// insist is do, but while the log accepts nothing it tries again until ctx ends.
func (w *writer) insist(ctx context.Context, o op) error {
	for {
		err := w.do(o)
		if !eventstore.Passing(err) {
			return err
		}
		if !health.Pause(ctx, retryFull) {
			return ctx.Err()
		}
	}
}

// run makes event after event until the writer is closed; after it has failed it answers
// with its error.
func (w *writer) run() {
	for {
		group := w.take()
		if len(group) == 0 {
			return
		}
		n, err := len(group), w.error()
		if err == nil {
			n, err = w.sender.change(group)
			w.note(err)
		}
		if err != nil && !eventstore.Passing(err) {
			w.fail(err)
		}
		for _, p := range group[:n] {
			p.done <- err
		}
		w.mu.Lock()
		w.queue = append(group[n:], w.queue...)
		if w.next = time.Now(); n == len(group) {
			w.next = w.next.Add(minCommitInterval)
		}
		w.mu.Unlock()
	}
}

// take waits until an event is to be made, for all that waits; none: closed.
func (w *writer) take() (group []*waiting) {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		wait := forever
		w.mu.Lock()
		if len(w.queue) > 0 {
			wait = time.Until(w.next)
		}
		if wait <= 0 || w.closed {
			group, w.queue = w.queue, nil
			w.mu.Unlock()
			return group
		}
		w.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// note logs when the disk gets too full, and when it has room again.
func (w *writer) note(err error) {
	full := errors.Is(err, eventstore.ErrFull)
	switch before := w.full.Swap(full); {
	case full && !before:
		w.sender.config.Log.Warn().Msg("the disk is nearly full: no webhooks are sent; free some space, they go on by themselves")
	case before && !full:
		w.sender.config.Log.Info().Msg("the disk has room again: webhooks are sent")
	}
}

// fail ends the writer. Whether what it was about to append is in the log is seen by the
// next sender.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.failed)
	}
}

func (w *writer) error() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// close lets the operations that wait be carried out and ends the goroutine.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	wake(w.wake)
	w.mu.Unlock()
	w.end.Wait()
}

// wake wakes the reader of a channel that holds one element, or leaves the one
// that it has not taken yet.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
