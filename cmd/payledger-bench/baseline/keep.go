package baseline

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	bbolt "go.etcd.io/bbolt"
)

// entry is what one request stores.
type entry struct {
	id      [26]byte
	event   []byte // payment.created
	key     string // the idempotency key
	request []byte
	done    chan error
}

// keeper stores payments. get returns nil for an unknown one.
type keeper struct {
	keep    func(*entry) error
	get     func(id string) []byte
	backlog func() int // what is still to do for answered requests
	close   func() error
}

func idle() int { return 0 }

// open makes the keeper of a baseline.
func open(ctx context.Context, o Options) (keeper, error) {
	switch o.Name {
	case Map:
		return inMap(), nil
	case Bolt:
		return inBolt(o.Dir)
	case Ceiling:
		return inFile(o.Dir, func([]*entry) {})
	case CeilingNATS:
		return inFileAndJetStream(ctx, o.Dir)
	case Replicated:
		return inThree(ctx, o.Dir)
	case Postgres:
		return inPostgres(ctx, o.Postgres)
	}
	return keeper{
		keep: func(*entry) error { return nil }, get: func(string) []byte { return nil },
		backlog: idle, close: func() error { return nil },
	}, nil
}

// inMap stores payments in memory.
func inMap() keeper {
	var mu sync.RWMutex
	m := make(map[string][]byte)
	return keeper{
		keep: func(e *entry) error {
			mu.Lock()
			defer mu.Unlock()
			m[string(e.id[:])] = shown(e)
			return nil
		},
		get: func(id string) []byte {
			mu.RLock()
			defer mu.RUnlock()
			return m[id]
		},
		backlog: idle, close: func() error { return nil },
	}
}

// inBolt stores payments in a bbolt file.
func inBolt(dir string) (keeper, error) {
	db, err := bbolt.Open(filepath.Join(dir, "payments.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return keeper{}, err
	}
	name := []byte("payments")
	keep, end := group(func(all []*entry) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			for _, e := range all {
				if err := b.Put(e.id[:], shown(e)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return keeper{
		keep: keep, backlog: idle,
		get: func(id string) (found []byte) {
			_ = db.View(func(tx *bbolt.Tx) error {
				if b := tx.Bucket(name); b != nil {
					found = append(found, b.Get([]byte(id))...)
				}
				return nil
			})
			return found
		},
		close: func() error {
			end()
			return db.Close()
		},
	}, nil
}

// inFile appends events to a file; after is called with each group once it is synced.
func inFile(dir string, after func([]*entry)) (keeper, error) {
	f, err := os.OpenFile(filepath.Join(dir, "events"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return keeper{}, err
	}
	var lines []byte
	keep, end := group(func(all []*entry) error {
		lines = lines[:0]
		for _, e := range all {
			lines = append(append(lines, e.event...), '\n')
		}
		if _, err := f.Write(lines); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		after(all)
		return nil
	})
	return keeper{
		keep: keep, backlog: idle, get: func(string) []byte { return nil },
		close: func() error {
			end()
			return f.Close()
		},
	}, nil
}

// group commits together what waits together: the least that durable answers to
// many cost. keep returns when its entry is committed; end may be called once no
// keep is under way.
func group(commit func([]*entry) error) (keep func(*entry) error, end func()) {
	waiting := make(chan *entry, 4096)
	var running sync.WaitGroup
	running.Go(func() {
		for first := range waiting {
			all := []*entry{first}
			// Clients that were just answered are about to send again; a group without them costs one more
			// sync.
			for before := 0; before < len(all); runtime.Gosched() {
				before = len(all)
				for range len(waiting) {
					all = append(all, <-waiting)
				}
			}
			err := commit(all)
			for _, e := range all {
				e.done <- err
			}
		}
	})
	keep = func(e *entry) error {
		e.done = make(chan error, 1)
		waiting <- e
		return <-e.done
	}
	return keep, func() {
		close(waiting)
		running.Wait()
	}
}
