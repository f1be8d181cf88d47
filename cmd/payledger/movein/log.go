package movein

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// Log is the log of a directory that is alone, for what may outlive that. After Leave it
// answers eventstore.ErrBusy, but for Scan, Follow and Recent: a request that is still
// under way then has to come again, because what it reads here may be old, and what it
// appends must go through the cluster.
type Log struct {
	*bolt.Store

	appends eventstore.Store // the store, or what it is appended to through
	mu      sync.RWMutex     // read-locked while something is appended
	left    atomic.Bool
}

// NewLog makes the log of a store.
func NewLog(s *bolt.Store, appends eventstore.Store) *Log { return &Log{Store: s, appends: appends} }

// Leave waits for the Appends under way and lets no others begin.
func (l *Log) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left.Store(true)
}

func (l *Log) err() error {
	if l.left.Load() {
		return eventstore.ErrBusy
	}
	return nil
}

// Append implements eventstore.Store.
func (l *Log) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.left.Load() {
		return l.appends.Append(ctx, commits...)
	}
	refused := make([]eventstore.Appended, len(commits))
	for i := range refused {
		refused[i].Err = eventstore.ErrBusy
	}
	return refused
}

// Load implements eventstore.Store.
func (l *Log) Load(ctx context.Context, s eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return l.LoadAfter(ctx, s, 0)
}

// LoadAfter implements eventstore.Store.
func (l *Log) LoadAfter(ctx context.Context, s eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		if err := l.err(); err != nil {
			yield(eventstore.Stored{}, err)
			return
		}
		l.Store.LoadAfter(ctx, s, after)(yield)
	}
}

// Claimed implements eventstore.Store.
func (l *Log) Claimed(ctx context.Context, project string, key domain.Digest) (eventstore.Stored, bool, error) {
	if err := l.err(); err != nil {
		return eventstore.Stored{}, false, err
	}
	return l.Store.Claimed(ctx, project, key)
}

// Last implements eventstore.Store.
func (l *Log) Last(ctx context.Context) (eventstore.Position, error) {
	if err := l.err(); err != nil {
		return 0, err
	}
	return l.Store.Last(ctx)
}

// LastOf implements eventstore.Store.
func (l *Log) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if err := l.err(); err != nil {
		return 0, err
	}
	return l.Store.LastOf(ctx, f)
}
