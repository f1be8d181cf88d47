package bolt

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
)

// DefaultMinFree is the free space below which commits are refused.
const DefaultMinFree = 256 << 20

// Options are the settings of Open. The zero value is the default.
type Options struct {
	// Now is the clock that paces the look at the free space; nil is
	// time.Now.
	Now func() time.Time
	// MinFree is the free space, in bytes, on the log's file system below
	// which commits answer eventstore.ErrFull; 0 is DefaultMinFree. It must
	// leave room for what is written in a second.
	MinFree uint64
	// SyncDelay is added to each sync of the file, of which a group takes two,
	// to see what a slower disk would do.
	SyncDelay time.Duration
}

// Store is an event log in a file. It is safe for concurrent use and holds
// the file's lock until Close.
type Store struct {
	path     string
	file     *os.File // db's
	db       *bbolt.DB
	readOnly bool
	logID    domain.ID
	space    *Space
	slower   time.Duration // Options.SyncDelay
	tail     *tail
	queue    *queue
	claims   *indexes  // nil if readOnly
	room     groupRoom // the committer's

	committer sync.WaitGroup
	walking   sync.WaitGroup // through the branches of a large file
	fatal     chan struct{}
	failure   atomic.Pointer[eventstore.FatalError]
	broken    bool // set by the committer: bbolt panicked, its locks may be held

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, c eventstore.Commit) (eventstore.Stored, error) {
	if err := s.refuses(ctx, c); err != nil {
		return eventstore.Stored{}, err
	}
	p := s.queue.pending(ctx, c)
	if err := s.queue.add(p); err != nil {
		return eventstore.Stored{}, err
	}
	if !p.wait() {
		return eventstore.Stored{}, ctx.Err()
	}
	defer s.queue.free(p)
	return p.stored, p.err
}

// AppendAll implements eventstore.Store.
func (s *Store) AppendAll(ctx context.Context, all []eventstore.Commit) []eventstore.Appended {
	done, waiting := make([]eventstore.Appended, len(all)), make([]*pending, len(all))
	for i, c := range all {
		if done[i].Err = s.refuses(ctx, c); done[i].Err == nil {
			waiting[i] = s.queue.pending(ctx, c)
		}
	}
	s.queue.addAll(waiting, done)
	for i, p := range waiting {
		switch {
		case done[i].Err != nil:
		case p.wait():
			done[i] = eventstore.Appended{Position: p.stored.Position, Err: p.err}
			s.queue.free(p)
		default:
			done[i].Err = ctx.Err()
		}
	}
	return done
}

// refuses tells why a commit is not even queued.
func (s *Store) refuses(ctx context.Context, c eventstore.Commit) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Validate()
}

// LogID is the id that Init gave this log. A copy of the file keeps it.
func (s *Store) LogID() domain.ID { return s.logID }

// Fatal is closed when a commit failed fatally: the process must end. Reads
// go on until Close.
func (s *Store) Fatal() <-chan struct{} { return s.fatal }

// Err is the *eventstore.FatalError behind Fatal, or nil.
func (s *Store) Err() error {
	if f := s.failure.Load(); f != nil {
		return f
	}
	return nil
}

func (s *Store) fail(err error) {
	if s.failure.CompareAndSwap(nil, &eventstore.FatalError{Err: err}) {
		close(s.fatal)
	}
}

// Close implements eventstore.Store. Closing again answers the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.queue.close()
		s.committer.Wait()
		s.tail.close()
		if s.claims != nil {
			s.claims.end()
		}
		if s.broken {
			s.closeErr = release(s.file)
			return
		}
		s.walking.Wait()
		s.closeErr = s.closeFile()
	})
	return s.closeErr
}

func (s *Store) closeFile() (err error) {
	if s.readOnly { // bbolt gives back only the lock of a writer
		err = unix.Flock(int(s.file.Fd()), unix.LOCK_UN)
	}
	return errors.Join(err, s.db.Close())
}

func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed.Store(true)
}
