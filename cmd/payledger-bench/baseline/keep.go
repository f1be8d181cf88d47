package baseline

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	bbolt "go.etcd.io/bbolt"
)

// keeper keeps payments. Get answers nil for what it does not have.
type keeper struct {
	keep    func(*entry) error
	get     func(id string) []byte
	backlog func() int // what is still to do for answered requests
	close   func() error
}

func idle() int { return 0 }

// inMap keeps payments in memory.
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

// inBolt keeps payments in a bbolt file.
func inBolt(dir string) (keeper, error) {
	db, err := bbolt.Open(filepath.Join(dir, "payments.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return keeper{}, err
	}
	name := []byte("payments")
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(name)
		return err
	})
	if err != nil {
		return keeper{}, err
	}
	g := newGroup()
	var running sync.WaitGroup
	running.Go(func() {
		g.run(func(all []*entry) error {
			return db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket(name)
				for _, e := range all {
					if err := b.Put(e.id[:], shown(e)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
	return keeper{
		keep: g.keep,
		get: func(id string) (found []byte) {
			_ = db.View(func(tx *bbolt.Tx) error {
				found = append(found, tx.Bucket(name).Get([]byte(id))...)
				return nil
			})
			return found
		},
		backlog: idle,
		close: func() error {
			g.close()
			running.Wait()
			return db.Close()
		},
	}, nil
}

// inFile appends events to a file; behind hears of each group once it is
// synced.
func inFile(dir string, syncDelay time.Duration, behind func([]*entry)) (keeper, error) {
	f, err := os.OpenFile(filepath.Join(dir, "events"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return keeper{}, err
	}
	g := newGroup()
	var running sync.WaitGroup
	running.Go(func() {
		var lines []byte
		g.run(func(all []*entry) error {
			lines = lines[:0]
			for _, e := range all {
				lines = append(append(lines, e.body...), '\n')
			}
			if _, err := f.Write(lines); err != nil {
				return err
			}
			if err := dataSync(f); err != nil {
				return err
			}
			if syncDelay > 0 {
				<-time.After(syncDelay)
			}
			if behind != nil {
				behind(all)
			}
			return nil
		})
	})
	return keeper{
		keep: g.keep, backlog: idle, get: func(string) []byte { return nil },
		close: func() error {
			g.close()
			running.Wait()
			return f.Close()
		},
	}, nil
}

// open makes the keeper of a baseline; nil keeps nothing.
func open(ctx context.Context, o Options) (*keeper, error) {
	var k keeper
	var err error
	switch o.Name {
	case Bare, Sink:
		return nil, nil
	case Map:
		k = inMap()
	case Bolt:
		k, err = inBolt(o.Dir)
	case Ceiling:
		k, err = inFile(o.Dir, o.SyncDelay, nil)
	case CeilingNATS:
		k, err = inFileAndJetStream(ctx, o)
	}
	return &k, err
}
