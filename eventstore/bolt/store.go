package bolt

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/boltfile"
)

// Options are the settings of Open. The zero value is the default.
type Options struct {
	// MinFree is the free space, in bytes, on the log's file system below
	// which commits fail with eventstore.ErrFull; 0 is DefaultFloor.
	MinFree uint64
	// SyncDelay is added to each of a group's two syncs, to measure what a slower
	// disk would do.
	SyncDelay time.Duration
	// Publish is called with each group once it is staged, before anything of it is
	// written to the file: its commits are to become those of all nodes. An error takes the
	// group back, and is what its commits are answered with; the store goes on. The records
	// are valid until it returns. nil: the store is on its own.
	Publish func(Batch) error
	// Published is called when the group that Publish took last is durable, or had no
	// records, before its commits are answered.
	Published func()
	// Newest is called with the greatest id in the log after each group that became
	// durable, the store's own or another node's. nil: it is not called.
	Newest func(domain.ID)
	// Committed is called after each group of commits that became durable, with how
	// many they were and how long their transaction took. The committer waits for it.
	Committed func(commits int, took time.Duration)
	// Erased is called after each group that removed details became durable, the store's own or another
	// node's. The committer waits for it.
	Erased func()
	// Report is called with errors that do not end the store, or not yet: an
	// *eventstore.CorruptError that a check in the background found, an
	// *eventstore.SuspendedError. It may be called from any goroutine.
	Report func(error)
}

// Store is an event log in a file. It is safe for concurrent use and holds
// the file's lock until Close.
type Store struct {
	path     string
	file     *boltfile.File
	readOnly bool
	options  Options
	logID    domain.ID
	tail     *tail
	queue    *queue
	claims   *claims.Index // nil if readOnly
	staging  staging       // guarded by writing

	background sync.WaitGroup // the goroutines other than the committer
	committer  sync.WaitGroup
	fatal      chan struct{}
	failure    atomic.Pointer[eventstore.FatalError]

	sound       chan struct{} // closed once it is known which pages are free
	damaged     atomic.Bool
	suspended   atomic.Pointer[eventstore.SuspendedError]
	writing     sync.Mutex // held while a group is under way; guards transaction
	transaction uint64     // of the last commit

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Append implements eventstore.Store. All commits of a call are in one group.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	waiting, results := make([]pending, len(commits)), make([]eventstore.Appended, len(commits))
	for i, c := range commits {
		waiting[i] = pending{ctx: ctx, commit: c}
		if results[i].Err = s.refuses(ctx, c); results[i].Err == nil && c.Claim != nil {
			waiting[i].name = nameOf(c.Record.Stream.Project, c.Claim)
		}
	}
	answered := s.queue.add(waiting, results)
	if answered == nil {
		return results
	}
	select {
	case <-answered:
		for i := range results {
			if results[i].Err == nil {
				results[i] = waiting[i].result
			}
		}
	case <-ctx.Done():
		for i := range results {
			results[i].Err = cmp.Or(results[i].Err, ctx.Err())
		}
	}
	return results
}

// refuses returns why a commit is not even queued.
func (s *Store) refuses(ctx context.Context, c eventstore.Commit) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.stopped(); err != nil {
		return err
	}
	return c.Validate()
}

// LogID is the id that Init gave this log. A copy of the file keeps it.
func (s *Store) LogID() domain.ID { return s.logID }

// Fatal is closed when a commit failed fatally: the process must end. Reads work
// until Close.
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

func (s *Store) report(err error) {
	if s.options.Report != nil {
		s.options.Report(err)
	}
}

// Suspended says why no commits are made although the store is open: the file is
// damaged or not at its place, and they could be lost. It is nil while commits are made.
func (s *Store) Suspended() error {
	if e := s.suspended.Load(); e != nil {
		return e
	}
	return nil
}

// Refuses says why commits would fail now, nil if they would not: the log was stopped, or its disk
// is full. It asks the file system.
func (s *Store) Refuses() error {
	if err := s.stopped(); err != nil {
		return err
	}
	if s.isLow() {
		return eventstore.ErrFull
	}
	return nil
}

// Damaged reports whether damage was found since the log was opened.
func (s *Store) Damaged() bool { return s.damaged.Load() }

// stopped says why no commit can be made any more.
func (s *Store) stopped() error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.Suspended()
}

// begin starts the goroutines of a store for writing.
func (s *Store) begin() {
	s.committer.Go(s.commitAll)
	s.background.Go(s.checkInBackground)
	s.background.Go(s.watch)
}

// Close implements eventstore.Store. A second call returns the same error: a *ReplacedError if
// the file lost its name, and its content with it.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.queue.close()
		s.committer.Wait()
		s.writing.Lock() // for an Extend that is under way
		s.tail.close()
		if s.claims != nil {
			s.claims.Close()
		}
		s.writing.Unlock()
		s.background.Wait()
		if known := s.stopped(); !s.readOnly {
			if err := s.checkPlace(); known == nil || errors.As(err, new(*ReplacedError)) {
				s.closeErr = err
			}
		}
		s.closeErr = errors.Join(s.closeErr, s.file.Close())
	})
	return s.closeErr
}
