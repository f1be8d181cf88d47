package bolt

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"

	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
)

// appendFill is how much of a page is filled before it is split.
const appendFill = 0.9

// The names in the file. They are constants in all but type.
var (
	bucketMeta    = []byte("meta")
	bucketRecords = []byte("records")
	bucketHeads   = []byte("heads")

	keyFormat = []byte("format")
	keyLog    = []byte("log")
	keyNewest = []byte("newest")

	keyMissing = []byte("missing checkpoints")
)

// Init makes an empty log with the id at path. The file appears there complete
// or not at all: it is made under another name, synced, and then linked to its
// own. An existing file is left alone: the error is ErrExists.
func Init(path string, logID domain.ID) error {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(path); err == nil {
		return exists(path)
	}
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".init-*")
	if err != nil {
		return &OpenError{Path: path, Err: err, Advice: "check that the directory exists and can be written to"}
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err := tmp.Close(); err != nil {
		return &OpenError{Path: path, Err: err}
	}
	if err := writeEmpty(tmp.Name(), logID); err != nil {
		return &OpenError{Path: path, Err: err}
	}
	// Unlike a rename, a link never replaces a file that another process made.
	if err := os.Link(tmp.Name(), path); errors.Is(err, os.ErrExist) {
		return exists(path)
	} else if err != nil {
		return &OpenError{Path: path, Err: err}
	}
	return boltfile.SyncDir(dir)
}

func exists(path string) error {
	return &OpenError{Path: path, Err: ErrExists, Advice: "an event log is never overwritten; choose another directory"}
}

func writeEmpty(path string, logID domain.ID) error {
	db, err := boltfile.OpenNew(path)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketHeads} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		return errors.Join(
			meta.Put(keyFormat, []byte(formatOf(FormatVersion))),
			meta.Put(keyLog, logID[:]),
			meta.Put(keyNewest, make([]byte, len(domain.ID{}))),
		)
	})
	return errors.Join(err, db.Sync(), db.Close())
}

// Open opens the log for reading and writing and takes its lock without
// waiting. What is wrong is an *OpenError: ErrMissing, ErrLocked, ErrForeign,
// ErrVersion, ErrDamaged or the system's error. The file is never repaired.
//
// It takes no longer for a large log than for one of 256 MiB: the rest is checked
// while the store is used, and commits wait until the free pages have been
// determined. Damage that is found then suspends commits.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, false, boltfile.AtOnce)
	if err != nil {
		return nil, err
	}
	s.options = o
	s.begin()
	return s, nil
}

// OpenReadOnly opens a log that no process writes to, such as that of a
// stopped server or a backup. Several may read it at once. Append answers
// ErrReadOnly. Errors are those of Open.
func OpenReadOnly(path string) (*Store, error) { return open(path, true, math.MaxUint64) }

func open(path string, readOnly bool, atOnce uint64) (_ *Store, err error) {
	s := &Store{
		path: path, readOnly: readOnly, queue: newQueue(),
		fatal: make(chan struct{}), closing: make(chan struct{}), sound: make(chan struct{}),
	}
	if s.file, err = openFile(path, readOnly, atOnce); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.file.Close()
		}
	}()
	newest := s.file.Opened()
	s.transaction = newest.Transaction
	if !readOnly && newest.Pages <= atOnce {
		close(s.sound)
	}
	var last eventstore.Position
	err = s.file.View(func(tx *bbolt.Tx) error {
		last, err = s.readMeta(tx)
		return err
	})
	switch {
	case boltfile.Damaged(err):
		return nil, damaged(path, err.Error())
	case err != nil:
		return nil, err
	}
	s.tail = newTail(last)
	if !readOnly {
		err = s.openClaims()
	}
	return s, err
}

// readMeta checks that the file is a log of ours and returns its last position.
func (s *Store) readMeta(tx *bbolt.Tx) (last eventstore.Position, err error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return 0, foreign(s.path, "a bbolt file without our name in it")
	}
	if err := checkFormat(s.path, meta.Get(keyFormat)); err != nil {
		return 0, err
	}
	id, newest := meta.Get(keyLog), meta.Get(keyNewest)
	records := tx.Bucket(bucketRecords)
	if len(id) != len(s.logID) || len(newest) != len(s.logID) || records == nil || tx.Bucket(bucketHeads) == nil {
		return 0, damaged(s.path, "the log's id or an index is missing")
	}
	s.logID = domain.ID(id)
	k, v := records.Cursor().Last()
	switch len(k) {
	case 0:
		return 0, nil
	case 8:
		last = eventstore.Position(binary.BigEndian.Uint64(k))
	default:
		return 0, damaged(s.path, "the last record has no position")
	}
	// Nothing may be written after a damaged record. A store for reading can still read the others.
	if _, err := record.Decode(last, v); err != nil && !s.readOnly {
		return 0, damaged(s.path, err.Error())
	}
	return last, nil
}

// openFile opens the log's file. Before bbolt opens it, everything is checked that
// the next commits will touch: the branches of the trees, the list of free pages,
// and the leaves of all buckets except the records, of which only the last leaf
// changes. Of a file with more than atOnce pages only the edges are checked.
func openFile(path string, readOnly bool, atOnce uint64) (*boltfile.File, error) {
	f, err := boltfile.Open(path, boltfile.Options{
		ReadOnly: readOnly, AtOnce: atOnce, Check: boltfile.Check{Leaves: notRecords},
	})
	if err != nil {
		return nil, whyClosed(path, err)
	}
	return f, nil
}

// whyClosed explains an error of boltfile.
func whyClosed(path string, err error) error {
	var damage *boltfile.DamagedError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &OpenError{
			Path: path, Err: ErrMissing,
			Advice: "check the path of the data directory, or make a new one with payledger init",
		}
	case errors.Is(err, unix.EISDIR):
		return foreign(path, "a directory")
	case errors.Is(err, boltfile.ErrLocked):
		return &OpenError{Path: path, Err: ErrLocked, Advice: "stop the payledger that runs on this data directory first"}
	case errors.Is(err, boltfile.ErrMoved):
		return &OpenError{Path: path, Err: ErrLocked, Detail: "it is being replaced", Advice: "try again"}
	case errors.As(err, &damage) && damage.Foreign:
		return foreign(path, err.Error())
	case damage != nil:
		return damaged(path, err.Error())
	}
	return &OpenError{Path: path, Err: err}
}

func notRecords(bucket string) bool { return bucket != string(bucketRecords) }

// Hold takes the lock of the log's file without reading it, so that no process can open it before
// release. Errors are ErrMissing, ErrLocked and the system's.
func Hold(path string) (release func() error, err error) {
	if release, err = boltfile.Hold(path); err != nil {
		return nil, whyClosed(path, err)
	}
	return release, nil
}
