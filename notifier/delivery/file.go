package delivery

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// What meta holds.
const (
	keyFormat    = "format"
	keyLog       = "log"       // id of the event log
	keyEpoch     = "epoch"     // drawn at each Open
	keyEpochWas  = "epoch_was" // the one before
	keyBase      = "base"      // the log's last position when the file was made
	keyAfter     = "after"     // how far the fan-out got
	keyEndpoints = "endpoints" // the highest number of one
	keyTime      = "time"      // the lanes' clock at the last change

	fileFormat = "payledger lanes 5"
)

// epoch is drawn anew whenever the file is opened or closed, and written into
// the file and then into the mark beside it. A copy of the file that was taken
// earlier knows only older ones.
type epoch [16]byte

func newEpoch() (e epoch) {
	_, _ = rand.Read(e[:]) // never fails
	return e
}

// asideError says why a lane file cannot be gone on with.
type asideError struct{ why string }

func (e *asideError) Error() string { return e.why }

func aside(format string, args ...any) error { return &asideError{fmt.Sprintf(format, args...)} }

const startsAgain = "Notifications start again at the newest event of each payment of the last 30 days; " +
	"earlier outcomes of theirs, which may have been delivered or not, are listed as unconfirmed"

// openFile opens the lane file, or puts it aside and makes a fresh one.
func openFile(ctx context.Context, c Config) (*boltfile.File, error) {
	last, err := c.Ledger.Store.Last(ctx)
	if err != nil {
		return nil, err
	}
	mark, err := readMark(c.Mark)
	if err != nil {
		return nil, err
	}
	db, err := openKnown(c, mark, last)
	if unfit := (*asideError)(nil); errors.As(err, &unfit) {
		name, err := putAside(c.Path, c.Now())
		if err != nil {
			return nil, err
		}
		c.Log.Warn().Str("file", c.Path).Str("kept_as", name).Str("why", unfit.why).
			Msg("the lane file was put aside. " + startsAgain)
	} else if err != nil || db != nil {
		return db, err
	} else if mark != (epoch{}) {
		c.Log.Warn().Str("file", c.Path).Msg("the lane file is missing. " + startsAgain)
	}
	return makeFile(ctx, c, mark, last)
}

// openKnown opens the file that is there; nil: there is none.
func openKnown(c Config, mark epoch, last eventstore.Position) (_ *boltfile.File, err error) {
	info, err := os.Lstat(c.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the lane file %s is not a regular file: move it away", c.Path)
	}
	db, err := openBolt(c.Path)
	if err != nil {
		return nil, err
	}
	if err := renew(db, c, mark, last); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// openBolt opens a file that exists. One that bbolt could not use is an
// *asideError.
func openBolt(path string) (*boltfile.File, error) {
	f, err := boltfile.Open(path, boltfile.Options{AtOnce: boltfile.AtOnce})
	switch {
	case errors.Is(err, boltfile.ErrLocked):
		return nil, fmt.Errorf("the lane file %s is in use: stop the payledger that runs on this data directory first", path)
	case boltfile.Damaged(err):
		return nil, aside("it is damaged: %v", err)
	case err != nil: // the system's refusal says nothing of the file
		return nil, fmt.Errorf("opening the lane file: %w", err)
	}
	return f, nil
}

// renew judges an opened file by its epochs and draws a new one. The file
// learns it before the mark does; a crash in between leaves a file whose epoch
// before is the mark's.
func renew(db *boltfile.File, c Config, mark epoch, last eventstore.Position) error {
	next := newEpoch()
	err := db.Update(func(btx *bbolt.Tx) error {
		for _, name := range buckets() {
			if btx.Bucket([]byte(name)) == nil {
				return aside("it is no lane file of this version: it has no %s", name)
			}
		}
		meta := btx.Bucket([]byte(bucketMeta))
		is, was := epochIn(meta, keyEpoch), epochIn(meta, keyEpochWas)
		switch {
		case string(meta.Get([]byte(keyFormat))) != fileFormat:
			return aside("it is of another version: %q", meta.Get([]byte(keyFormat)))
		case !bytes.Equal(meta.Get([]byte(keyLog)), c.LogID[:]):
			return aside("it belongs to another event log")
		case mark != is && mark != was:
			return aside("it is not the one this directory was last used with, but an older copy, or %s was replaced", filepath.Base(c.Mark))
		case positionIn(meta, keyAfter) > last || positionIn(meta, keyBase) > last:
			return aside("it knows of position %d, and the event log ends at %d", positionIn(meta, keyAfter), last)
		}
		return putEpochs(meta, next, mark)
	})
	if boltfile.Damaged(err) {
		return aside("it is damaged: %v", err)
	}
	if err != nil {
		return err
	}
	return writeMark(c.Mark, next)
}

// makeFile makes a fresh file. It gets its name when it is complete. What is
// older than what is kept of deliveries is left alone: it may have been settled
// and forgotten long ago.
func makeFile(ctx context.Context, c Config, mark epoch, last eventstore.Position) (*boltfile.File, error) {
	if mark == (epoch{}) {
		mark = newEpoch()
		if err := writeMark(c.Mark, mark); err != nil {
			return nil, err
		}
	}
	after, err := positionBefore(ctx, c.Ledger.Store, domain.InstantOf(c.Now()).Add(-domain.KeepDeliveries))
	if err != nil {
		return nil, err
	}
	next := newEpoch()
	tmp := c.Path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := writeFresh(tmp, c.LogID, next, mark, after, last); err != nil {
		return nil, fmt.Errorf("making the lane file %s: %w", c.Path, err)
	}
	if err := os.Rename(tmp, c.Path); err != nil {
		return nil, err
	}
	if err := boltfile.SyncDir(filepath.Dir(c.Path)); err != nil {
		return nil, err
	}
	if err := writeMark(c.Mark, next); err != nil {
		return nil, err
	}
	return openBolt(c.Path)
}

func writeFresh(path string, log domain.ID, is, was epoch, after, last eventstore.Position) error {
	db, err := boltfile.Open(path, boltfile.Options{Create: true})
	if err != nil {
		return err
	}
	err = db.Update(func(btx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := btx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := btx.Bucket([]byte(bucketMeta))
		return errors.Join(
			meta.Put([]byte(keyFormat), []byte(fileFormat)), meta.Put([]byte(keyLog), log[:]),
			putEpochs(meta, is, was), putNumber(meta, keyAfter, uint64(after)), putNumber(meta, keyBase, uint64(last)),
		)
	})
	return errors.Join(err, db.Close())
}

func epochIn(meta *bbolt.Bucket, name string) (e epoch) {
	copy(e[:], meta.Get([]byte(name)))
	return e
}

func putEpochs(meta *bbolt.Bucket, is, was epoch) error {
	return errors.Join(meta.Put([]byte(keyEpoch), is[:]), meta.Put([]byte(keyEpochWas), was[:]))
}

// putAside renames a file that cannot be gone on with.
func putAside(path string, now time.Time) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.aside-%s-%d", path, now.UTC().Format("20060102T150405Z"), n)
		if _, err := os.Lstat(name); err == nil {
			continue
		}
		if err := os.Rename(path, name); err != nil {
			return "", fmt.Errorf("putting the lane file aside: %w", err)
		}
		return name, boltfile.SyncDir(filepath.Dir(path))
	}
}
