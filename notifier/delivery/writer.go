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

	queue  chan *waiting
	failed chan struct{} // closed when err ended it
	err    error
}

type waiting struct {
	op   op
	done chan error // has room for the answer
}

// maxQueued operations wait for the writer to take them.
const maxQueued = 1 << 10

func newWriter(s *sender) *writer {
	return &writer{sender: s, queue: make(chan *waiting, maxQueued), failed: make(chan struct{})}
}

// insist carries out an operation and returns once it is durable, or why it was not. While
// the log accepts nothing it tries again until ctx ends.
func (w *writer) insist(ctx context.Context, o op) error {
	for {
		p := &waiting{op: o, done: make(chan error, 1)}
		w.queue <- p
		if err := <-p.done; !eventstore.Passing(err) {
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
	next := time.Now().Add(minCommitInterval)
	for first := range w.queue {
		for group := []*waiting{first}; len(group) > 0; {
			<-time.After(time.Until(next))
			group = w.more(group)
			n, err := len(group), w.error()
			if err == nil {
				n, err = w.sender.change(group)
				w.note(err)
			}
			if err != nil && !eventstore.Passing(err) && w.error() == nil {
				// Whether what it was about to append is in the log is seen by the next sender.
				w.err = err
				close(w.failed)
			}
			for _, p := range group[:n] {
				p.done <- err
			}
			if next = time.Now(); n == len(group) {
				next = next.Add(minCommitInterval)
			}
			group = group[n:]
		}
	}
}

// more adds what is queued to a group.
func (w *writer) more(group []*waiting) []*waiting {
	for {
		select {
		case p, ok := <-w.queue:
			if !ok {
				return group
			}
			group = append(group, p)
		default:
			return group
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

// error is what has ended the writer.
func (w *writer) error() error {
	select {
	case <-w.failed:
		return w.err
	default:
		return nil
	}
}

// close lets the operations that wait be carried out and ends the goroutine. No more come.
func (w *writer) close() {
	close(w.queue)
	w.end.Wait()
}
