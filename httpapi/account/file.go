package account

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"payledger/domain"
)

// File keeps what is worth having after a restart and is no truth: sessions,
// and when each API key was used last. Losing it signs everybody out and
// forgets those times, so a damaged one is deleted and made anew.
//
// It is a bolt file. The bucket "used" holds project, 0, key id → the time as
// 8 bytes, milliseconds since 1970, big-endian.
type File struct {
	db   *bolt.DB
	log  zerolog.Logger
	used sync.Map // of usedKey to *usedAt
}

type usedKey struct{ project, key string }

// usedAt is a time in milliseconds, and the one in the file.
type usedAt struct {
	at    atomic.Int64
	saved int64 // touched by one flush at a time
}

const usedBucket = "used"

// flushEvery is how often times of use are written.
const flushEvery = time.Minute

// OpenFile opens or makes the file. The caller holds the lock of the directory
// it is in.
func OpenFile(path string, log zerolog.Logger) (*File, error) {
	f, err := openFile(path, log)
	if _, damaged := errors.AsType[*damagedError](err); damaged {
		log.Warn().Err(err).Msg("the file of sessions is damaged: everybody has to sign in again")
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("deleting the damaged file of sessions: %w", err)
		}
		f, err = openFile(path, log)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the file of sessions %s: %w", path, err)
	}
	return f, nil
}

type damagedError struct{ reason any }

func (e *damagedError) Error() string { return fmt.Sprintf("damaged: %v", e.reason) }

func openFile(path string, log zerolog.Logger) (f *File, err error) {
	f = &File{log: log}
	defer func() { // bolt panics at some damage
		if v := recover(); v != nil {
			f, err = nil, &damagedError{v}
		}
	}()
	f.db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	switch {
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, &damagedError{err}
	case err != nil:
		return nil, err
	}
	if err := f.db.Update(f.load); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

func (f *File) load(tx *bolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists([]byte(usedBucket))
	if err != nil {
		return err
	}
	return b.ForEach(func(k, v []byte) error {
		for i, c := range k {
			if c == 0 && len(v) == 8 {
				u := &usedAt{saved: int64(binary.BigEndian.Uint64(v))}
				u.at.Store(u.saved)
				f.used.Store(usedKey{string(k[:i]), string(k[i+1:])}, u)
			}
		}
		return nil
	})
}

// Use notes that a key was used. It is called for every request, waits for
// nothing and is exact to a second.
func (f *File) Use(project, key string, at time.Time) {
	k := usedKey{project, key}
	v, ok := f.used.Load(k)
	if !ok {
		v, _ = f.used.LoadOrStore(k, new(usedAt))
	}
	u, ms := v.(*usedAt), at.UnixMilli()
	if was := u.at.Load(); ms-was >= 1000 {
		u.at.CompareAndSwap(was, ms)
	}
}

// LastUse is when a key was used last; false when that is not known to have
// happened. A crash forgets the last minute.
func (f *File) LastUse(project, key string) (domain.Instant, bool) {
	v, ok := f.used.Load(usedKey{project, key})
	if !ok {
		return 0, false
	}
	return domain.Instant(v.(*usedAt).at.Load()), true
}

// Run writes times of use to the file about once a minute until ctx ends.
func (f *File) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := f.flush(); err != nil {
				f.log.Warn().Err(err).Msg("when API keys were used could not be written; it is tried again")
			}
		}
	}
}

// flush writes the times that changed.
func (f *File) flush() error {
	changed := make(map[usedKey]*usedAt)
	f.used.Range(func(k, v any) bool {
		if u := v.(*usedAt); u.at.Load() != u.saved {
			changed[k.(usedKey)] = u
		}
		return true
	})
	if len(changed) == 0 {
		return nil
	}
	written := make(map[*usedAt]int64, len(changed))
	err := f.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(usedBucket))
		for k, u := range changed {
			at := u.at.Load()
			written[u] = at
			if err := b.Put([]byte(k.project+"\x00"+k.key), binary.BigEndian.AppendUint64(nil, uint64(at))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for u, at := range written {
		u.saved = at
	}
	return nil
}

// Close writes what is new and closes the file. Run must have ended.
func (f *File) Close() error {
	return errors.Join(f.flush(), f.db.Close())
}
