package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
)

// retryFull is how long a full disk is left alone.
const retryFull = time.Second

// op is a change of the lane file. What apply finds out it leaves in the op.
// An error is the file's and ends everything.
type op interface{ apply(x *tx) error }

// writer is the one goroutine that changes the file: whatever operations wait
// go into one transaction, and none is answered before that is synced. While
// the disk is too full they are refused with eventstore.ErrFull, and the file
// stays as it is.
type writer struct {
	lanes *Lanes
	end   sync.WaitGroup
	full  atomic.Bool // the disk was too full for the last group
	busy  atomic.Bool // the last group had to wait for the writer's rest

	mu       sync.Mutex
	wake     sync.Cond // of mu
	urgent   []*waiting
	starts   []*waiting // of attempts
	patient  []*waiting
	timer    *time.Timer // of the patient ones
	overdue  bool        // their patience is over
	alarm    *time.Timer // ends a rest
	restAt   time.Time   // when the next group may leave
	urgentAt time.Time   // when one with urgent operations may
	closed   bool
	err      error         // what ended it
	failed   chan struct{} // closed with err
}

type waiting struct {
	op   op
	done chan error // has room for the answer
}

func newWriter(l *Lanes) *writer {
	w := &writer{lanes: l, failed: make(chan struct{})}
	w.wake.L = &w.mu
	w.timer = time.AfterFunc(patience, w.ring)
	w.alarm = time.AfterFunc(idle, w.look)
	return w
}

// do carries out an operation and returns once it is durable, or why it was
// not: eventstore.ErrFull, ErrClosed, or what ended the writer.
func (w *writer) do(o op) error { return w.join(&w.urgent, o) }

// insist is do for an operation that has to be: while the disk is too full it
// is tried again, until ctx ends.
func (w *writer) insist(ctx context.Context, o op) error {
	return w.again(ctx, func() error { return w.do(o) })
}

// start is insist for what begins attempts.
func (w *writer) start(ctx context.Context, o *startOp) error {
	return w.again(ctx, func() error { return w.join(&w.starts, o) })
}

// insistPatiently is insist for an operation that nobody is kept waiting by.
func (w *writer) insistPatiently(ctx context.Context, o op) error {
	return w.again(ctx, func() error { return w.join(&w.patient, o) })
}

func (*writer) again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, eventstore.ErrFull) {
			return err
		}
		if !sleep(ctx, retryFull) {
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
			if err = w.commit(group); err != nil {
				w.fail(err)
			}
		}
		w.mu.Lock()
		w.restAt = time.Now().Add(rest)
		if urgent {
			w.urgentAt = w.restAt
		}
		w.mu.Unlock()
		for _, p := range group {
			p.done <- err
		}
	}
}

// room reports whether the disk has room for a change. It is said when that
// changes.
func (w *writer) room() bool {
	full := w.lanes.config.Full()
	switch was := w.full.Swap(full); {
	case full && !was:
		w.lanes.config.Log.Warn().Str("file", w.lanes.config.Path).
			Msg("the disk is nearly full: no webhooks are sent; free some space, they go on by themselves")
	case was && !full:
		w.lanes.config.Log.Info().Msg("the disk has room again: webhooks are sent")
	}
	return !full
}

func (w *writer) commit(group []*waiting) error {
	if err := w.error(); err != nil {
		return err
	}
	var x *tx
	err := w.lanes.db.Update(func(btx *bbolt.Tx) error {
		x = w.lanes.change(btx)
		for _, p := range group {
			if err := p.op.apply(x); err != nil {
				return err
			}
		}
		return x.finish()
	})
	if err != nil {
		return fmt.Errorf("writing the lane file %s: %w", w.lanes.config.Path, damagedBy(err))
	}
	x.publish()
	return nil
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
	w.mu.Unlock()
	w.wake.Signal()
	w.end.Wait()
	w.timer.Stop()
	w.alarm.Stop()
}
