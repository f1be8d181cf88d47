package bolt

import (
	"errors"
	"fmt"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// errNothing ends a transaction in which every commit was refused.
var errNothing = errors.New("nothing to write")

// commitAll is the committer: it commits group after group until the queue is
// closed and empty.
func (s *Store) commitAll() {
	var p groupPolicy
	for {
		g := s.queue.take(p)
		if g == nil {
			return
		}
		began := time.Now()
		durable := s.commit(g)
		p = groupPolicy{took: time.Since(began), awaited: g.awaited}
		if durable > 0 && s.options.Committed != nil {
			s.options.Committed(durable, p.took)
		}
	}
}

// commit commits a group and gives each commit its result. durable is how many of
// its commits were written.
func (s *Store) commit(g *group) (durable int) {
	if !s.awaitSound() {
		refuse(g.commits, eventstore.ErrClosed)
		g.answer()
		return 0
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	for rest := g.commits; len(rest) > 0; {
		part := rest[:s.fits(rest)]
		bytes := 0
		for _, p := range part {
			bytes += len(p.commit.Record.Body) + len(p.commit.Record.Details)
		}
		n, err := s.write(pagesOf(len(part), bytes), func() error {
			for _, p := range part {
				if err := s.staging.add(p); err != nil {
					return err
				}
			}
			return s.publishStaged()
		})
		if durable += n; err == nil && s.options.Published != nil {
			s.options.Published()
		}
		if err != nil {
			refuse(rest, err)
			break
		}
		rest = rest[len(part):]
	}
	// A crash from here on loses nothing: a caller that got no answer sends the
	// commit again and gets the same one.
	g.answer()
	return durable
}

// pagesOf is an upper bound of what a transaction adds to the file, in bytes: each commit changes a
// few pages of records and heads, which are copied on write.
func pagesOf(commits, bytes int) int64 {
	return 256<<10 + int64(commits)*(16<<10) + int64(bytes)
}

// write is the whole commit protocol: it makes what stage stages durable, which needs at most this
// many bytes of pages. Before it returns, no caller has an answer and no read shows anything of it,
// so until then a crash may leave the log with it or without it. After an error nothing of it is
// durable, or, if it is an *eventstore.FatalError, that is unknown. The caller holds s.writing.
func (s *Store) write(pages int64, stage func() error) (durable int, err error) {
	if err := s.unwritable(); err != nil {
		return 0, err
	}
	if err := s.file.Reserve(pages); err != nil {
		return 0, eventstore.ErrFull
	}
	staged := &s.staging
	err = s.update(func(tx *bbolt.Tx) error {
		// Each commit is checked against the log and against those of the group
		// before it, and written into the transaction, which is in memory. Only
		// this function moves durable, so it reads it without a lock. A crash here
		// leaves the file as it was.
		staged.begin(tx, s.tail.durable)
		if err := stage(); err != nil {
			return err
		}
		if len(staged.records) == 0 {
			return errNothing
		}
		s.slowDown()
		return errors.Join(renewFormat(staged.meta), staged.meta.Put(keyNewest, staged.newest[:]))
		// Then bbolt writes the group to pages that are free, and syncs. After a
		// crash here, the meta page still leads to the pages before the group, and
		// none of these was written over.
		//
		// Last it writes the other meta page, and syncs. After a crash here, the
		// next open finds the group or does not. A caller without an answer
		// sends the commit again: it is recognised by its id or its key, or it is new.
	})

	var undone *undoneError
	switch {
	case err == nil:
		// The group is durable: reads show it from here on, also before the answers.
		s.slowDown()
		// The indexes of claims write durable records only to their files; what a crash takes of these is
		// rebuilt.
		s.tail.publish(staged.records, staged.erased)
		staged.durableNow()
		if s.options.Newest != nil {
			s.options.Newest(staged.newest)
		}
		if len(staged.erased) > 0 && s.options.Erased != nil {
			s.options.Erased()
		}
		return len(staged.records), nil
	case errors.Is(err, errNothing):
		// All commits were refused, on the basis of durable records.
		return 0, nil
	case errors.As(err, &undone):
		// The transaction was rolled back, and so is what is in memory.
		staged.undo()
		return 0, undone.err
	}
	// What is on disk is unknown, and bbolt may show either state. The process
	// must end, and the next open decides.
	s.fail(s.broke(err))
	return 0, s.Err()
}

// unwritable says why nothing can be written now, nil if it can.
func (s *Store) unwritable() error {
	if _, err := s.tail.last(); err != nil { // it was closed
		return err
	}
	if err := s.checkPlace(); err != nil {
		return err
	}
	if s.isLow() {
		return eventstore.ErrFull
	}
	return nil
}

// awaitSound waits until it is known which pages are free; false: the store was
// closed before.
func (s *Store) awaitSound() bool {
	select {
	case <-s.sound:
		return true
	default:
	}
	select {
	case <-s.sound:
		return true
	case <-s.closing:
		return false
	}
}

// update runs fn in a write transaction, which has to be the one after the last of this store. A
// panic of bbolt and a fault in its mapped file are errors. The caller holds s.writing.
func (s *Store) update(fn func(*bbolt.Tx) error) error {
	err := s.file.Update(func(tx *bbolt.Tx) error {
		if id := uint64(tx.ID()); id != s.transaction+1 {
			return &boltfile.DamagedError{Reason: fmt.Sprintf("it was written over while it was open: its last transaction is %d, not %d", id-1, s.transaction)}
		}
		return fn(tx)
	})
	if err == nil {
		s.transaction++
	}
	return err
}

// slowDown sleeps for what the two syncs of a group, of its pages and of the meta page, take longer
// on the disk of Options.SyncDelay.
func (s *Store) slowDown() {
	if s.options.SyncDelay > 0 {
		<-time.After(s.options.SyncDelay)
	}
}
