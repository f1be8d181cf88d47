package projections

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/projections/table"
)

// Open opens the views' file, or rebuilds it when it is missing, damaged, another log's, ahead of
// this log or of another format, older or newer, and folds what the log holds beyond it. Then the
// views reflect everything the store held when Open began, or more. Opening a current file takes the
// same time for every log.
//
// An event that cannot be decoded is a *eventstore.CorruptError. When ctx ends a rebuild, the next
// Open begins it again.
func Open(ctx context.Context, c Config) (*Engine, error) {
	e := newEngine(c)
	err := e.openCurrent(ctx)
	if err == nil {
		if err = e.catchUp(ctx, c.Progress, false); err == nil {
			return e, nil
		}
		_ = e.Close()
	}
	var unusable *table.DamagedError
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

// openCurrent opens a file that exists. The error is as load says.
func (e *Engine) openCurrent(ctx context.Context) error {
	if _, err := os.Stat(e.config.Path); errors.Is(err, os.ErrNotExist) {
		return table.Damage("missing")
	}
	if err := e.db.Open(e.config.Path); err != nil {
		return err
	}
	err := e.load(ctx)
	if err != nil {
		_ = e.db.Close()
	}
	return err
}

// rebuild folds the whole log into a new file, which gets its name only when it
// is complete, and none if it is for once.
func (e *Engine) rebuild(ctx context.Context, progress func(done, total eventstore.Position)) (err error) {
	part := e.config.Path + ".rebuild"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleting an unfinished rebuild of the views: %w", err)
	}
	if err := e.db.Open(part); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	e.db.DeferSync() // after a crash the unfinished file is thrown away
	defer func() {
		if err != nil {
			_ = e.Close()
			_ = os.Remove(part)
		}
	}()
	if err := e.db.Create(e.note(checkpointAt{})); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	if err := e.catchUp(ctx, progress, true); err != nil {
		return err
	}
	if err := e.flush(); err != nil {
		return err
	}
	if e.config.StateOnly {
		return nil
	}
	if err := e.db.Sync(); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	if err := os.Rename(part, e.config.Path); err != nil {
		return fmt.Errorf("rebuilding the views: %w", err)
	}
	return boltfile.SyncDir(filepath.Dir(e.config.Path))
}
