package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// What meta holds.
const (
	keyFormat      = "format"
	keyLog         = "log"          // id of the event log
	keyEpoch       = "epoch"        // drawn at each Open
	keyEpochBefore = "epoch_before" // the one before
	keyBase        = "base"         // the log's last position when the file was made
	keyAfter       = "after"        // how far the fan-out got
	keyEndpoints   = "endpoints"    // the highest number of one
	keyTime        = "time"         // the lanes' clock at the last change
	keyShared      = "shared"       // the place of the last entry, see Share
	keyUnknown     = "unknown"      // 1: see RequestsUnknown; an older program takes no notice of it

	// The format is this and the version that follows. It rises whenever an older
	// program could not read the file. Version 5, which is read too, lacks the
	// endpoints' last failures.
	formatName    = "payledger lanes "
	formatVersion = 6
	oldestVersion = 5
)

// epoch is drawn anew whenever the file is opened or closed, and written into
// the file and then into the mark beside it. A copy of the file that was taken
// earlier knows only older ones.
type epoch [16]byte

func newEpoch() (e epoch) {
	_, _ = rand.Read(e[:]) // never fails
	return e
}

// asideError says why a lane file cannot be used.
type asideError struct{ why string }

func (e *asideError) Error() string { return e.why }

func aside(format string, args ...any) error { return &asideError{fmt.Sprintf(format, args...)} }

const startsAgain = "Notifications start again at the newest event of each payment of the last 30 days; " +
	"earlier outcomes of theirs, which may have been delivered or not, are listed as unconfirmed"

// Options are those of Open.
type Options struct {
	Path  string    // of the file; it is made when it is not there
	Mark  string    // of the file beside it that tells it from older copies
	LogID domain.ID // of the event log
	Store eventstore.Store
	Now   func() time.Time
	Log   zerolog.Logger
}

// ErrDamaged means that the file does not hold what was written to it. None of it
// can be trusted any more.
var ErrDamaged = errors.New("the lane file is damaged")

// File is the open lane file. Update is for one goroutine, View for any.
type File struct {
	db    *boltfile.File
	mark  string
	share Share // nil: there is one node
}

// Open opens the lane file, or moves it aside and makes a fresh one.
func Open(ctx context.Context, o Options) (*File, error) {
	last, err := o.Store.Last(ctx)
	if err != nil {
		return nil, err
	}
	mark, err := readMark(o.Mark)
	if err != nil {
		return nil, err
	}
	db, err := openKnown(o, mark, last)
	if unfit := (*asideError)(nil); errors.As(err, &unfit) {
		name, err := moveAside(o.Path, o.Now())
		if err != nil {
			return nil, err
		}
		o.Log.Warn().Str("file", o.Path).Str("kept_as", name).Str("why", unfit.why).
			Msg("the lane file was moved aside. " + startsAgain)
	} else if err != nil || db != nil {
		return &File{db: db, mark: o.Mark}, err
	} else if mark != (epoch{}) {
		o.Log.Warn().Str("file", o.Path).Msg("the lane file is missing. " + startsAgain)
	}
	db, err = makeFile(ctx, o, mark, last)
	return &File{db: db, mark: o.Mark}, err
}

// explain distinguishes damage to the file from other errors.
func (*File) explain(err error) error {
	if boltfile.Damaged(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Distrust makes sure that the file is moved aside at the next Open, if err is
// ErrDamaged. It answers err.
func (f *File) Distrust(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	if e := writeMark(f.mark, newEpoch()); e != nil {
		return fmt.Errorf("%w; remove it before the next start: %w", err, e)
	}
	return fmt.Errorf("%w; at the next start it is moved aside", err)
}

// Close closes the file, at an instant as that of Update. It gets another epoch,
// which distinguishes it from earlier copies of it.
func (f *File) Close(now domain.Instant) error {
	next := newEpoch()
	f.share = nil // an epoch is this file's alone
	err := f.Update(now, func(x *Tx) error { return putEpochs(x.meta, next, epochIn(x.meta, keyEpoch)) })
	if err != nil {
		err = fmt.Errorf("closing the lane file: %w", err)
	} else {
		err = writeMark(f.mark, next)
	}
	return errors.Join(err, f.Abandon())
}

// Abandon closes the file and leaves it as it is, for one that failed.
func (f *File) Abandon() error { return f.db.Close() }

// WriteTo writes a copy of the file, as it is at one instant, for Adopt.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	err = f.View(func(t Tables) error {
		n, err = t.Bolt().WriteTo(w)
		return err
	})
	return n, err
}

// Adopt puts a copy of another node's file in the place of the own one, which is not
// open. The copy is on the same disk and synced.
func Adopt(o Options, copied string) error {
	db, err := openBolt(copied)
	if err != nil {
		return fmt.Errorf("the copy of another node's lane file: %w", err)
	}
	var e epoch
	err = db.View(func(btx *bbolt.Tx) error {
		meta := btx.Bucket([]byte(bucketMeta))
		if meta == nil || !bytes.Equal(meta.Get([]byte(keyLog)), o.LogID[:]) {
			return errors.New("the copy of another node's lane file is not of this event log")
		}
		e = epochIn(meta, keyEpoch)
		return checkFormat(copied, string(meta.Get([]byte(keyFormat))))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	// After a crash in between, the own file does not fit the mark and counts for nothing.
	if err := writeMark(o.Mark, e); err != nil {
		return err
	}
	if err := os.Rename(copied, o.Path); err != nil {
		return err
	}
	return boltfile.SyncDir(filepath.Dir(o.Path))
}

// openKnown opens the file if there is one; nil: there is none.
func openKnown(o Options, mark epoch, last eventstore.Position) (_ *boltfile.File, err error) {
	info, err := os.Lstat(o.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the lane file %s is not a regular file: move it away", o.Path)
	}
	db, err := openBolt(o.Path)
	if err != nil {
		return nil, err
	}
	if err := renew(db, o, mark, last); err != nil {
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
	case err != nil: // an error of the system says nothing about the file
		return nil, fmt.Errorf("opening the lane file: %w", err)
	}
	return f, nil
}

// renew checks that an opened file is the one that belongs here, by its format,
// its log and its epochs, and draws a new epoch. It is written to the file before
// the mark; after a crash in between the file's epoch before is the mark's.
func renew(db *boltfile.File, o Options, mark epoch, last eventstore.Position) error {
	next := newEpoch()
	err := db.Update(func(btx *bbolt.Tx) error {
		meta := btx.Bucket([]byte(bucketMeta))
		if meta == nil {
			return aside("it is no lane file")
		}
		if err := checkFormat(o.Path, string(meta.Get([]byte(keyFormat)))); err != nil {
			return err
		}
		for _, name := range buckets() {
			if btx.Bucket([]byte(name)) == nil {
				return aside("it is damaged: it has no %s", name)
			}
		}
		now, before := epochIn(meta, keyEpoch), epochIn(meta, keyEpochBefore)
		switch {
		case !bytes.Equal(meta.Get([]byte(keyLog)), o.LogID[:]):
			return aside("it belongs to another event log")
		case mark != now && mark != before:
			return aside("it is not the one this directory was last used with, but an older copy, or %s was replaced", filepath.Base(o.Mark))
		case positionIn(meta, keyAfter) > last || positionIn(meta, keyBase) > last:
			return aside("it knows of position %d, and the event log ends at %d", positionIn(meta, keyAfter), last)
		}
		if err := meta.Put([]byte(keyFormat), []byte(formatName+strconv.Itoa(formatVersion))); err != nil {
			return err
		}
		return putEpochs(meta, next, mark)
	})
	if boltfile.Damaged(err) {
		return aside("it is damaged: %v", err)
	}
	if err != nil {
		return err
	}
	return writeMark(o.Mark, next)
}

// checkFormat refuses files of other versions: they are sound, and nothing else
// says what was delivered.
func checkFormat(path, format string) error {
	text, ok := strings.CutPrefix(format, formatName)
	version, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil:
		return aside("it is no lane file: its format is %q", format)
	case version > formatVersion:
		return fmt.Errorf("the lane file %s was written by a newer payledger (format %d; this one knows %d): start that one, or move the file away. %s",
			path, version, formatVersion, startsAgain)
	case version < oldestVersion:
		return fmt.Errorf("the lane file %s was written by an older payledger (format %d; this one knows %d): let that one deliver what is pending, then move the file away. %s",
			path, version, formatVersion, startsAgain)
	}
	return nil
}

// makeFile makes a fresh file. It gets its name when it is complete. Events older
// than deliveries are kept are left alone: they may have been settled and
// forgotten long ago.
func makeFile(ctx context.Context, o Options, mark epoch, last eventstore.Position) (*boltfile.File, error) {
	if mark == (epoch{}) {
		mark = newEpoch()
		if err := writeMark(o.Mark, mark); err != nil {
			return nil, err
		}
	}
	after, err := PositionBefore(ctx, o.Store, domain.InstantOf(o.Now()).Add(-domain.KeepDeliveries))
	if err != nil {
		return nil, err
	}
	next := newEpoch()
	tmp := o.Path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := writeFresh(tmp, o.LogID, next, mark, after, last); err != nil {
		return nil, fmt.Errorf("making the lane file %s: %w", o.Path, err)
	}
	if err := os.Rename(tmp, o.Path); err != nil {
		return nil, err
	}
	if err := boltfile.SyncDir(filepath.Dir(o.Path)); err != nil {
		return nil, err
	}
	if err := writeMark(o.Mark, next); err != nil {
		return nil, err
	}
	return openBolt(o.Path)
}

func writeFresh(path string, log domain.ID, now, before epoch, after, last eventstore.Position) error {
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
			meta.Put([]byte(keyFormat), []byte(formatName+strconv.Itoa(formatVersion))), meta.Put([]byte(keyLog), log[:]),
			putEpochs(meta, now, before), putNumber(meta, keyAfter, uint64(after)), putNumber(meta, keyBase, uint64(last)),
		)
	})
	return errors.Join(err, db.Close())
}

func epochIn(meta *bbolt.Bucket, name string) (e epoch) {
	copy(e[:], meta.Get([]byte(name)))
	return e
}

func putEpochs(meta *bbolt.Bucket, now, before epoch) error {
	return errors.Join(meta.Put([]byte(keyEpoch), now[:]), meta.Put([]byte(keyEpochBefore), before[:]))
}

// moveAside renames a file that cannot be used.
func moveAside(path string, now time.Time) (string, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.aside-%s-%d", path, now.UTC().Format("20060102T150405Z"), n)
		if _, err := os.Lstat(name); err == nil {
			continue
		}
		if err := os.Rename(path, name); err != nil {
			return "", fmt.Errorf("moving the lane file aside: %w", err)
		}
		return name, boltfile.SyncDir(filepath.Dir(path))
	}
}

func putNumber(b *bbolt.Bucket, name string, n uint64) error {
	return b.Put([]byte(name), binary.BigEndian.AppendUint64(nil, n))
}

// PositionBefore finds a position in the log after which everything since an
// instant comes. Times in the log rise, except among events that were under way
// at the same moment.
func PositionBefore(ctx context.Context, log eventstore.Store, since domain.Instant) (eventstore.Position, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return 0, err
	}
	const underWay = 1 << 13 // more events than a log accepts at once
	n := sort.Search(int(last), func(i int) bool {
		for r, scanErr := range log.Scan(ctx, eventstore.Position(i), eventstore.Filter{}) {
			if scanErr != nil {
				err = scanErr
				return true
			}
			return domain.IDTime(r.Commit) >= since
		}
		return true
	})
	return eventstore.Position(max(n-underWay, 0)), err
}
