package projections

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Open opens the views' file, or rebuilds it when it is missing, damaged,
// another log's, ahead of this log or of other views, and folds what the log
// holds beyond it. The views stand for everything the store held when Open
// began or more. A current file costs nothing that grows with the log.
//
// An event that cannot be decoded is a *eventstore.CorruptError. When ctx ends
// a rebuild, the next Open begins it anew.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := newEngine(c)
	err := e.openCurrent(ctx)
	if err == nil {
		if err = e.catchUp(ctx, c.Progress, false); err == nil {
			return e, nil
		}
		_ = e.Close()
	}
	var unusable *damage
	var damaged *DamagedError
	if !errors.As(err, &unusable) && !errors.As(err, &damaged) {
		return nil, fmt.Errorf("opening the views: %w", err)
	}
	if err := os.Remove(c.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("deleting an unusable file of views: %w", err)
	}
	e = newEngine(c)
	if err := e.rebuild(ctx, c.Progress); err != nil {
		return nil, err
	}
	return e, nil
}

// openCurrent opens the file if it belongs to this log and these views. The
// error is a *damage when it has to be rebuilt.
func (e *Engine) openCurrent(ctx context.Context) error {
	if _, err := os.Stat(e.path); errors.Is(err, os.ErrNotExist) {
		return &damage{Reason: "missing"}
	}
	var err error
	if e.db, err = openFile(e.path); err != nil {
		return err
	}
	e.update = e.db.Update
	var c checkpoint
	err = e.db.View(func(tx *bolt.Tx) error {
		if c, err = readCheckpoint(tx); err != nil {
			return err
		}
		if c.Log != e.log || c.Views != shapes(e.all) {
			return &damage{Reason: "of another log or other views"}
		}
		for _, v := range e.all {
			if tx.Bucket([]byte(v.bucket())) == nil {
				return &damage{Reason: "view " + v.bucket() + " is missing"}
			}
		}
		for _, v := range e.all {
			if l, ok := v.(loadedView); ok {
				if err := l.load(tx); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = e.checkEvent(ctx, c)
	}
	if err != nil {
		_ = e.db.Close()
		return err
	}
	e.saved = checkpointAt{c.Position, c.Event}
	e.last = e.saved
	e.written.Store(uint64(c.Position))
	e.position.Store(uint64(c.Position))
	return nil
}

// checkEvent makes sure that the log holds the event the file ends with: a log
// restored from a backup may be shorter, or have gone on differently.
func (e *Engine) checkEvent(ctx context.Context, c checkpoint) error {
	if c.Position == 0 {
		return nil
	}
	last, err := e.store.Last(ctx)
	if err != nil {
		return err
	}
	if c.Position > last {
		return &damage{Reason: "ahead of the log"}
	}
	for r, err := range e.store.Scan(ctx, c.Position-1, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		if r.Commit != c.Event {
			return &damage{Reason: "of another course of the log"}
		}
		break
	}
	return nil
}

// rebuild folds the whole log into a new file, which takes its name only when
// it is complete.
func (e *Engine) rebuild(ctx context.Context, progress func(done, total eventstore.Position)) (err error) {
	part := e.path + ".rebuild"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleting an unfinished rebuild of the views: %w", err)
	}
	if e.db, err = openFile(part); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	e.update = e.db.Update
	// A crash leaves a part that is thrown away, so nothing has to be synced
	// before the whole is.
	e.db.DB().NoSync, e.db.DB().NoGrowSync = true, true
	defer func() {
		if err != nil {
			_ = e.Close()
			_ = os.Remove(part)
		}
	}()
	err = e.db.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucket([]byte(metaBucket)); err != nil {
			return err
		}
		for _, v := range e.all {
			if _, err := tx.CreateBucket([]byte(v.bucket())); err != nil {
				return err
			}
		}
		e.frozen = &checkpointAt{}
		defer func() { e.frozen = nil }()
		return e.write(tx)
	})
	if err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	if err := e.catchUp(ctx, progress, true); err != nil {
		return err
	}
	if err := e.flush(); err != nil {
		return err
	}
	if err := e.db.DB().Sync(); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	e.db.DB().NoSync, e.db.DB().NoGrowSync = false, false
	if err := os.Rename(part, e.path); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	return boltfile.SyncDir(filepath.Dir(e.path))
}
