// Package store keeps what the account needs from one request to the next: sessions,
// which forms were sent, secrets that wait to be shown, and when each API key was used
// last. File does so for a server that is alone.
package store

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

	"payledger/domain"
	"payledger/eventstore/boltfile"
)

// File keeps what is worth having after a restart and is no truth: sessions,
// and when each API key was used last. Losing it signs everybody out and
// forgets those times, so a damaged one is deleted and made anew, also while it
// is used.
//
// It is a bolt file. The bucket "used" holds project, 0, key id → the time as
// 8 bytes, milliseconds since 1970, big-endian.
type File struct {
	path string
	log  zerolog.Logger
	used sync.Map // of usedKey to *usedAt
	reveals
	anew atomic.Bool // no time of use is in the file

	mu sync.RWMutex // guards db, which is replaced when it is damaged
	db *boltfile.File
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

// Open opens or makes the file. The caller holds the lock of the directory
// it is in.
func Open(path string, log zerolog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	var err error
	if f.db, err = openBolt(path); err == nil {
		if err = f.db.Update(f.load); err != nil {
			_ = f.db.Close()
		}
	}
	if boltfile.Damaged(err) {
		f.used.Clear()
		err = f.renew(err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the file of sessions %s: %w", path, err)
	}
	return f, nil
}

func openBolt(path string) (*boltfile.File, error) {
	return boltfile.Open(path, boltfile.Options{Create: true, AtOnce: boltfile.AtOnce})
}

// renew deletes a damaged file, which is closed, and makes another.
func (f *File) renew(why error) error {
	f.log.Warn().Err(why).Str("file", f.path).Msg("the file of sessions is damaged and made anew: everybody has to sign in again")
	if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleting the damaged file of sessions: %w", err)
	}
	db, err := openBolt(f.path)
	if err != nil {
		return err
	}
	f.db = db
	f.anew.Store(true)
	return nil
}

// mended is renew while the file is used, of the one that turned out damaged.
func (f *File) mended(was *boltfile.File, why error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db != was {
		return nil
	}
	if err := f.db.Close(); err != nil {
		f.log.Warn().Err(err).Msg("closing the damaged file of sessions")
	}
	return f.renew(why)
}

func (f *File) view(fn func(*bolt.Tx) error) error { return f.do((*boltfile.File).View, fn) }

func (f *File) update(fn func(*bolt.Tx) error) error { return f.do((*boltfile.File).Update, fn) }

// do runs a transaction, and once more on a new file if this one is damaged.
func (f *File) do(run func(*boltfile.File, func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
	db, err := f.try(run, fn)
	if boltfile.Damaged(err) {
		if err = f.mended(db, err); err == nil {
			_, err = f.try(run, fn)
		}
	}
	return err
}

func (f *File) try(run func(*boltfile.File, func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) (*boltfile.File, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.db, run(f.db, fn)
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
	all := f.anew.Swap(false)
	f.used.Range(func(k, v any) bool {
		if u := v.(*usedAt); all || u.at.Load() != u.saved {
			changed[k.(usedKey)] = u
		}
		return true
	})
	if len(changed) == 0 {
		return nil
	}
	written := make(map[*usedAt]int64, len(changed))
	err := f.update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(usedBucket))
		if err != nil {
			return err
		}
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
		if all {
			f.anew.Store(true)
		}
		return err
	}
	for u, at := range written {
		u.saved = at
	}
	return nil
}

// Close writes what is new and closes the file. Run must have ended.
func (f *File) Close() error {
	err := f.flush()
	f.mu.RLock()
	defer f.mu.RUnlock()
	return errors.Join(err, f.db.Close())
}
