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

// minCommitInterval is how long after a commit the next one begins at the
// earliest: so a busy or dead endpoint cannot multiply syncs, and what comes
// meanwhile shares a transaction, which costs about as much as ten operations.
// The interval between commits with urgent operations is counted by itself:
// other commits do not delay them.
const minCommitInterval = 10 * time.Millisecond

// Operations that no caller waits for are committed with the next urgent one, or
// after this time: the beginning of attempts whose endpoint had no room before,
// and the ends of attempts.
const (
	maxBeginDelay  = minCommitInterval
	maxSettleDelay = 2 * minCommitInterval
)

// maxGroup bounds the operations of one transaction.
const maxGroup = 4096

// retryFull is how long the writer waits when the disk is full.
const retryFull = time.Second

// op is a change of the lane file. An error means that the file failed, and ends the
// writer.
type op func(x *tx) error

// writer is the one goroutine that changes the file. All waiting operations go
// into one transaction, and none is answered, and no attempt is made, before
// that is synced. While the disk is too full they are refused with
// eventstore.ErrFull, and the file stays as it is.
type writer struct {
	lanes *Lanes
	end   sync.WaitGroup
	full  atomic.Bool // the disk was too full for the last group
	busy  atomic.Bool // operations had to wait for the interval to pass

	mu         sync.Mutex
	wake       chan struct{} // the queue has changed
	queue      []*waiting
	commitBy   time.Time // when the queue is to be committed
	urgent     bool      // it holds an urgent operation
	next       time.Time // when the next commit may begin
	nextUrgent time.Time // when the next one with urgent operations may
	closed     bool
	err        error         // what ended it
	failed     chan struct{} // closed with err
}

type waiting struct {
	op   op
	done chan error // has room for the answer
}

// do carries out an urgent operation and returns once it is durable, or why it
// was not: eventstore.ErrFull, ErrClosed, or what ended the writer.
func (w *writer) do(o op) error { return w.doWithin(o, 0) }

// doWithin is do for an operation that may wait for so long to go with others.
func (w *writer) doWithin(o op, maxDelay time.Duration) error {
	p := &waiting{op: o, done: make(chan error, 1)}
	if err := w.join(p, maxDelay); err != nil {
		return err
	}
	return <-p.done
}

func (w *writer) join(p *waiting, maxDelay time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return ErrClosed
	}
	by := time.Now().Add(maxDelay)
	if len(w.queue) == 0 || by.Before(w.commitBy) {
		w.commitBy = by
	}
	w.urgent = w.urgent || maxDelay == 0
	w.queue = append(w.queue, p)
	poke(w.wake)
	return nil
}

// insist is doWithin, but while the disk is too full it tries again until ctx
// ends.
func (w *writer) insist(ctx context.Context, o op, maxDelay time.Duration) error {
	for {
		err := w.doWithin(o, maxDelay)
		if !errors.Is(err, eventstore.ErrFull) {
			return err
		}
		if !health.Pause(ctx, retryFull) {
			return ctx.Err()
		}
	}
}

// run commits group after group until the writer is closed or fails.
func (w *writer) run() {
	for {
		group, urgent := w.take()
		if len(group) == 0 {
			return
		}
		err := eventstore.ErrFull
		if w.room() {
			if err = w.error(); err == nil {
				err = w.lanes.change(group)
			}
			if err != nil {
				w.fail(err)
			}
		}
		w.mu.Lock()
		w.next = time.Now().Add(minCommitInterval)
		if urgent {
			w.nextUrgent = w.next
		}
		w.mu.Unlock()
		for _, p := range group {
			p.done <- err
		}
	}
}

// take waits until a group is to be committed; none: closed, and nothing waits.
func (w *writer) take() (group []*waiting, urgent bool) {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	w.busy.Store(false)
	for {
		w.mu.Lock()
		wait := w.wait()
		if wait <= 0 {
			n := min(len(w.queue), maxGroup)
			group, urgent = w.queue[:n:n], w.urgent
			w.queue = w.queue[n:]
			w.urgent = urgent && len(w.queue) > 0
			w.mu.Unlock()
			return group, urgent
		}
		w.busy.Store(len(w.queue) > 0 && (w.urgent || time.Until(w.commitBy) <= 0))
		w.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// wait is how long it is until the queue is to be committed. w.mu is held.
func (w *writer) wait() time.Duration {
	switch {
	case w.closed:
		return 0
	case len(w.queue) == 0:
		return forever
	case w.urgent:
		return time.Until(w.nextUrgent)
	}
	return max(time.Until(w.next), time.Until(w.commitBy))
}

// ready waits until an urgent operation would be committed at once. What comes
// for it until then can be handed over together.
func (w *writer) ready(ctx context.Context) {
	w.mu.Lock()
	wait := time.Until(w.nextUrgent)
	w.mu.Unlock()
	health.Pause(ctx, wait)
}

// room reports whether the disk has room for a change, and logs when that
// changes.
func (w *writer) room() bool {
	full := w.lanes.config.Full() || w.lanes.file.Full()
	switch before := w.full.Swap(full); {
	case full && !before:
		w.lanes.config.Log.Warn().Str("file", w.lanes.config.Path).
			Msg("the disk is nearly full: no webhooks are sent; free some space, they go on by themselves")
	case before && !full:
		w.lanes.config.Log.Info().Msg("the disk has room again: webhooks are sent")
	}
	return !full
}

// fail ends the writer. Whether what it was about to write is in the file is
// seen at the next Open.
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
	poke(w.wake)
	w.mu.Unlock()
	w.end.Wait()
}

// poke wakes the reader of a channel that holds one element, or leaves the poke
// that it has not taken yet.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
