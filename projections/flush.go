package projections

import (
	"context"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"
)

// flush writes what was folded, with the position it stands for, in one synced
// transaction. Reads and folds go on meanwhile. When it fails for want of room
// everything stays in memory and flush can be called again; any other failure
// leaves the file in doubt, so it is deleted and the engine stops.
func (e *Engine) flush() error {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if !e.freeze() {
		return nil
	}
	err := closed(e.update(e.write))
	switch {
	case errors.Is(err, ErrClosed), err != nil && diskFull(err):
		return err
	case err != nil:
		return e.damaged(&damage{Reason: "writing it failed: " + err.Error()})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.all {
		v.thaw()
	}
	e.saved, e.frozen = *e.frozen, nil
	e.written.Store(uint64(e.saved.position))
	return nil
}

// freeze hands what was folded to the next write, unless what the last one left
// is still there; it reports whether there is something to write. flushMu is
// held.
func (e *Engine) freeze() bool {
	if e.frozen != nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last
	if last == e.saved {
		return false
	}
	e.settle()
	for _, v := range e.all {
		v.freeze()
	}
	e.pending = 0
	e.frozen = &last
	return true
}

func (e *Engine) write(tx *bolt.Tx) error {
	for _, v := range e.all {
		if err := v.write(tx); err != nil {
			return err
		}
	}
	return writeCheckpoint(tx, checkpoint{
		Log: e.log, Views: shapes(e.all), Position: e.frozen.position, Event: e.frozen.event,
	})
}

// flushNowAndThen flushes until ctx ends or the engine fails.
func (e *Engine) flushNowAndThen(ctx context.Context) {
	every := e.every
	if every <= 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
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

// relieve keeps the memory bounded: it asks for a flush when much has been
// folded since the last one, and waits for it when twice as much has. While
// the disk is full, it waits for room.
func (e *Engine) relieve(ctx context.Context) error {
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
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.pending
}
