package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	formatName = "payledger event log "
	format     = formatName + "1"

	appendFill = 0.9 // of a page's space before it is split

	// Address space is reserved for 64 GiB, on 32-bit systems for 1 MiB, so
	// that growing seldom has to move the mapping.
	mapSize = 1 << (strconv.IntSize/2 + 4)
)

// The names in the file. They are constants in all but type.
var (
	bucketMeta    = []byte("meta")
	bucketRecords = []byte("records")
	bucketHeads   = []byte("heads")
	prefixClaims  = []byte("claims")

	keyFormat = []byte("format")
	keyLog    = []byte("log")
	keyNewest = []byte("newest")
)

// Init makes an empty log with the id at path. The file appears there complete
// or not at all: it is made under another name, synced, and then given its
// own. A file that is there already is left alone: the error is ErrExists.
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
	// Unlike a rename, a link never replaces what another process put there.
	if err := os.Link(tmp.Name(), path); errors.Is(err, os.ErrExist) {
		return exists(path)
	} else if err != nil {
		return &OpenError{Path: path, Err: err}
	}
	return syncDir(dir)
}

func exists(path string) error {
	return &OpenError{Path: path, Err: ErrExists, Advice: "an event log is never overwritten; choose another directory"}
}

func writeEmpty(path string, logID domain.ID) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 1, FreelistType: bbolt.FreelistMapType})
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
			meta.Put(keyFormat, []byte(format)),
			meta.Put(keyLog, logID[:]),
			meta.Put(keyNewest, make([]byte, len(domain.ID{}))),
		)
	})
	return errors.Join(err, db.Sync(), db.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open opens the log for reading and writing and takes its lock without
// waiting. What is wrong is an *OpenError: ErrMissing, ErrLocked, ErrForeign,
// ErrVersion, ErrDamaged or the system's error. The file is never repaired.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, false)
	if err != nil {
		return nil, err
	}
	s.space = &space{path: filepath.Dir(path), min: o.MinFree, now: o.Now, free: freeSpace}
	if s.space.min == 0 {
		s.space.min = DefaultMinFree
	}
	if s.space.now == nil {
		s.space.now = time.Now
	}
	s.committer.Go(s.commitAll)
	return s, nil
}

// OpenReadOnly opens a log that no process writes to, such as that of a
// stopped server or a backup. Several may read it at once. Append answers
// ErrReadOnly. Errors are those of Open.
func OpenReadOnly(path string) (*Store, error) { return open(path, true) }

func open(path string, readOnly bool) (_ *Store, err error) {
	s := &Store{
		path: path, readOnly: readOnly, queue: newQueue(),
		fatal: make(chan struct{}), closing: make(chan struct{}),
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// bbolt panics on pages that make no sense. It has then lost track of
		// its own file, so the lock is given back here.
		if p := recover(); p != nil {
			err = damaged(path, fmt.Sprint(p))
		}
		if err != nil && s.file != nil {
			_ = release(s.file)
		}
	}()
	s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: 1, ReadOnly: readOnly, PreLoadFreelist: true,
		FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapSize,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			s.file, err = openLocked(path, flag&^os.O_CREATE, mode, readOnly)
			return s.file, err
		},
	})
	if err != nil {
		if _, ok := errors.AsType[*OpenError](err); !ok {
			err = damaged(path, err.Error())
		}
		return nil, err
	}
	last, err := s.readMeta()
	if err != nil {
		_ = s.db.Close()
		return nil, err
	}
	s.tail = newTail(last)
	return s, nil
}

// readMeta checks that the file is a log of ours and answers its last
// position.
func (s *Store) readMeta() (last eventstore.Position, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return foreign(s.path, "a bbolt file without our name in it")
		}
		switch name := string(meta.Get(keyFormat)); {
		case name == format:
		case len(name) > len(formatName) && name[:len(formatName)] == formatName:
			return &OpenError{
				Path: s.path, Err: ErrVersion, Detail: strconv.Quote(name),
				Advice: "use the program that wrote it, or a newer one",
			}
		default:
			return foreign(s.path, "a bbolt file without our name in it")
		}
		id, newest := meta.Get(keyLog), meta.Get(keyNewest)
		records := tx.Bucket(bucketRecords)
		if len(id) != len(s.logID) || len(newest) != len(s.logID) || records == nil || tx.Bucket(bucketHeads) == nil {
			return damaged(s.path, "the log's id or an index is missing")
		}
		s.logID = domain.ID(id)
		k, v := records.Cursor().Last()
		switch len(k) {
		case 0:
			return nil
		case 8:
			last = eventstore.Position(binary.BigEndian.Uint64(k))
		default:
			return damaged(s.path, "the last record has no position")
		}
		// Nothing may be written after a record that is not what it was. Who
		// only reads can read all the others.
		if _, err := decodeRecord(last, v); err != nil && !s.readOnly {
			return damaged(s.path, err.Error())
		}
		return nil
	})
	return last, err
}
