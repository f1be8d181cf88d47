package projections

import (
	"cmp"
	"context"
	"errors"
	"syscall"
	"time"

	"payledger/eventstore"
	"payledger/projections/table"
)

// flush writes the changed rows, with the position that they reflect, in one synced transaction.
// Reads and folds continue meanwhile. When the disk is full everything stays in memory and flush
// can be called again. After any other error the file may hold the rows or not, so it is deleted
// and the engine stops.
func (e *Engine) flush() error {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if !e.seal() {
		return nil
	}
	err := e.db.Write(e.note(*e.sealed))
	switch {
	case errors.Is(err, table.ErrClosed):
		return ErrClosed
	case diskFull(err):
		return err
	case err != nil:
		return e.readFailed(table.Damage("writing it failed: %v", err))
	}
	e.db.Lock()
	defer e.db.Unlock()
	e.db.Drop(uint64(e.sealed.position))
	e.saved, e.sealed = *e.sealed, nil
	return nil
}

// Scrub leaves nothing in the views' file that events deleted which the store held when it was called:
// it waits until they are folded, writes the file and overwrites unused pages, as
// boltfile.File.Scrub says. On a full disk it fails.
func (e *Engine) Scrub(ctx context.Context) error {
	at, err := e.Fresh(ctx, eventstore.Filter{})
	for err == nil && e.flushed() < at {
		err = e.flush() // the first may only write what an earlier one could not
	}
	if err == nil {
		err = e.db.Scrub(ctx)
	}
	if errors.Is(err, table.ErrClosed) {
		return ErrClosed
	}
	return err
}

// flushed is the last position that the file reflects.
func (e *Engine) flushed() eventstore.Position {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	return e.saved.position
}

// seal seals the changed rows for the next write, unless those of a failed write are still sealed.
// It reports whether there is something to write. The caller holds flushMu.
func (e *Engine) seal() bool {
	if e.sealed != nil {
		return true
	}
	e.db.Lock()
	defer e.db.Unlock()
	last := e.last
	if last == e.saved {
		return false
	}
	e.viewWriter.Apply()
	e.db.Seal()
	e.pending = 0
	e.sealed = &last
	return true
}

// flushEvery flushes until ctx ends or the engine fails.
func (e *Engine) flushEvery(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(e.config.FlushEvery, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.failed:
			return
		case <-tick.C:
		case <-e.full:
		}
		if err := e.flush(); err != nil && !diskFull(err) {
			return
		}
	}
}

// boundMemory asks for a flush when limit rows are in memory and waits for it at twice as many.
// While the disk is full, it waits for space.
func (e *Engine) boundMemory(ctx context.Context) error {
	if e.pendingNow() < e.limit {
		return nil
	}
	select {
	case e.full <- struct{}{}:
	default:
	}
	for e.pendingNow() >= 2*e.limit {
		err := e.flush()
		if err == nil {
			continue
		}
		if !diskFull(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.failed:
			return e.err
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (e *Engine) pendingNow() int {
	e.db.RLock()
	defer e.db.RUnlock()
	return e.pending
}

// diskFull reports whether a flush failed only for lack of space.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
