package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore/boltfile"
)

// DamagedError says that a file is not what this program wrote, and where.
type DamagedError = boltfile.DamagedError

// Damage is a *DamagedError with this reason.
func Damage(format string, args ...any) error {
	return &DamagedError{Reason: fmt.Sprintf(format, args...)}
}

// ErrClosed is what a read answers after Close.
var ErrClosed = boltfile.ErrClosed

// DB is a set of tables in one file. Its lock guards the rows in memory of every table; other state
// that must change together with them may be guarded by it too. Reads, Check, View and one Write at
// a time are safe for concurrent use.
type DB struct {
	sync.RWMutex

	// OnError, if set, is called with each error of a read, which then answers
	// OnError's error instead. It is set before the file is opened.
	OnError func(error) error
	// Update runs a transaction that writes, and returns once it is synced. Open
	// sets it; tests make writes fail with it.
	Update func(func(*bolt.Tx) error) error

	file    *boltfile.File
	tables  []layers
	written atomic.Uint64 // stamp of the last Drop: the file holds all changes up to it
}

// Open opens the file, which is made if it is missing. The error is a
// *DamagedError when the file can only be deleted, any other when the reason may
// pass. Of its pages only the path to the newest rows is checked: see Check.
func (db *DB) Open(path string) error {
	return db.open(path, boltfile.Options{Create: true, Check: boltfile.Check{Edges: true}, AtOnce: boltfile.AtOnce})
}

// OpenForReading opens a file that exists and is not changed. All of its
// structure is checked first.
func (db *DB) OpenForReading(path string) error {
	return db.open(path, boltfile.Options{ReadOnly: true, AtOnce: math.MaxUint64})
}

func (db *DB) open(path string, o boltfile.Options) error {
	f, err := boltfile.Open(path, o)
	switch {
	case err == nil:
		f.DB().AllocSize = 1 << 20
		db.file, db.Update = f, f.Update
		return nil
	case errors.Is(err, boltfile.ErrLocked):
		return fmt.Errorf("the file %s is in use by another process", path)
	}
	return err
}

// Close closes the file when all reads and writes have ended. Rows that were not
// written are lost.
func (db *DB) Close() error { return db.file.Close() }

// DeferSync leaves it to Sync to sync the file: until then a crash may spoil it.
func (db *DB) DeferSync() { db.file.DB().NoSync, db.file.DB().NoGrowSync = true, true }

// Sync syncs the file, and from now on every Write syncs it.
func (db *DB) Sync() error {
	db.file.DB().NoSync, db.file.DB().NoGrowSync = false, false
	return db.file.DB().Sync()
}

// Check checks the structure of the whole file, while it is in use; pace is called between pages,
// and its error ends the check. What is wrong is a
// *DamagedError. Values have checksums, which are checked when they are read.
func (db *DB) Check(pace func() error) error {
	return db.file.Check(boltfile.Check{Pace: pace})
}

// Scrub leaves no byte in the file that a Write deleted before the call: see boltfile.File.Scrub.
func (db *DB) Scrub(ctx context.Context) error { return db.file.Scrub(ctx) }

// View runs fn in a transaction that reads only the file.
func (db *DB) View(fn func(*bolt.Tx) error) error { return db.file.View(fn) }

// Names lists the tables, each with a bucket of this name.
func (db *DB) Names() []string {
	names := make([]string, len(db.tables))
	for i, t := range db.tables {
		names[i] = t.bucket()
	}
	return names
}

// Failed turns an error of a read into the one that the read answers: see OnError.
func (db *DB) Failed(err error) error {
	if err == nil || db.OnError == nil {
		return err
	}
	return db.OnError(err)
}
