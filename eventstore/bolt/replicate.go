package bolt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// The bounds of a replicated group. One commit alone always fits.
const (
	MaxGroupCommits = 256
	MaxGroupBytes   = 384 << 10 // of bodies

	// KeptGroups is how many of the newest groups a file can make again.
	KeptGroups = 1 << 16
)

// Nonce names the exact bytes of a group.
type Nonce [16]byte

// Group is the commits of one transaction as all nodes of a cluster have them. Staging
// sets First, Before and Records; Replicate sets the rest before it returns nil.
type Group struct {
	Number uint64 // the group's place in LOG
	Nonce  Nonce
	Writer domain.ID // the node that staged it
	At     int64     // when, in Unix ms

	First   eventstore.Position // of the first record
	Before  [sha256.Size]byte   // SHA-256 of the record before First as it is stored; zero for none
	Records [][]byte            // as they are stored; valid until Replicate returns. None: all commits were refused

	// End: this is LOG's last group. From here on its writer's file goes on alone.
	End bool
}

// MismatchError: a group does not follow from this file. The file and the group are
// of different histories, and nothing may be written.
type MismatchError struct {
	Number uint64
	Reason string
	From   eventstore.Position // of this file's first record that LOG does not have; 0: not known
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("group %d of LOG does not follow from this event log: %s", e.Number, e.Reason)
}

// undoneError takes a staged group back.
type undoneError struct{ err error }

func (e *undoneError) Error() string { return e.err.Error() }

// fits is how many of the first commits one transaction takes: all, unless the
// group is replicated.
func (s *Store) fits(commits []*pending) int {
	if s.agree == nil && s.publish == nil {
		return len(commits)
	}
	n, size := 0, 0
	for n < len(commits) && n < MaxGroupCommits {
		if size += len(commits[n].commit.Record.Body); n > 0 && size > MaxGroupBytes {
			break
		}
		n++
	}
	return n
}

// replicate asks the other nodes for what is staged, also for refusals alone: they
// are based on this file, which others may have left behind.
func (s *Store) replicate() error {
	if s.publish != nil {
		return s.publishStaged()
	}
	if s.agree == nil {
		return nil
	}
	g := &Group{First: s.tail.Durable() + 1, Records: s.staging.values}
	g.Before = recordSum(s.staging.log, s.tail.Durable())
	if err := s.agree(g); err != nil {
		return &undoneError{err}
	}
	if len(g.Records) == 0 {
		return nil
	}
	return s.note(g)
}

// note writes the numbers of a group into the transaction with its records.
func (s *Store) note(g *Group) error {
	if err := s.staging.groups.Put(slot(g.Number), groupValue(g)); err != nil {
		return err
	}
	s.applied.number = g.Number // an error from here on ends the store
	return s.staging.meta.Put(keyGroups, s.applied.value())
}

// Apply makes a group of another node durable. It must follow from this file, else
// the error is a *MismatchError and nothing is changed. Other errors are those of
// Append. It must not be called while Replicate is.
func (s *Store) Apply(g *Group) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.agree == nil {
		return ErrClustered
	}
	n, err := s.write(pagesOf(MaxGroupCommits, MaxGroupBytes), func() error {
		if err := s.stageGroup(g); err != nil {
			return err
		}
		return s.note(g)
	})
	s.saveReplaced()
	if n > 0 {
		s.counted(n, 0)
	}
	return err
}

// Check is Apply without making anything durable.
func (s *Store) Check(g *Group) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.write(0, func() error { return cmp.Or(s.stageGroup(g), error(&undoneError{})) })
	return err
}

// mismatch takes the staged group back.
func (g *Group) mismatch(format string, args ...any) error {
	return &undoneError{&MismatchError{Number: g.Number, Reason: fmt.Sprintf(format, args...)}}
}

// stageGroup stages a group of LOG.
func (s *Store) stageGroup(g *Group) error {
	mismatch, staged := g.mismatch, &s.staging
	switch {
	case s.applied.of.IsZero():
		return mismatch("this log is in no cluster")
	case g.Number <= s.applied.number:
		return mismatch("group %d was the last one", s.applied.number)
	case g.First != staged.durable+1:
		return mismatch("it begins at position %d, this log ends at %d", g.First, staged.durable)
	case g.Before != recordSum(staged.log, staged.durable):
		return mismatch("it follows another record at position %d", staged.durable)
	}
	d := record.Decoder{}
	for i, value := range g.Records {
		r, err := d.Decode(g.First+eventstore.Position(i), value)
		if err != nil {
			return mismatch("%v", err)
		}
		if staged.readable != nil {
			if err := staged.readable(&r); err != nil {
				return &undoneError{err}
			}
		}
		key, head, err := staged.head(r.Stream)
		if err != nil {
			return &undoneError{err}
		}
		if r.Prev != head.position || r.Sequence != head.sequence+1 {
			return mismatch("the record at position %d does not follow the one before it in its stream", r.Position)
		}
		c := eventstore.Commit{ID: r.Commit, Record: eventstore.Record{Stream: r.Stream, Body: r.Body}, Claim: r.Claim}
		if err := c.Validate(); err != nil {
			return mismatch("%v", err)
		}
		p := pending{}
		if r.Claim != nil {
			p.name = nameOf(r.Stream.Project, r.Claim)
			switch at, err := staged.index.find(p.name, r.Claim); {
			case err != nil:
				return &undoneError{err}
			case at != 0:
				return mismatch("the claim of the record at position %d was made at position %d", r.Position, at)
			}
		}
		if err := staged.putValue(&r, bytes.Clone(value), key); err != nil {
			return err
		}
		if err := staged.stage(&r, p.name); err != nil {
			return err
		}
	}
	return nil
}

// Compare checks that a group is the one of its number in the file, if the file still
// knows that one: else the error is a *MismatchError.
func (s *Store) Compare(g *Group) error {
	return s.view(0, func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketGroups).Get(slot(g.Number))
		own, _, ok := parseGroup(v)
		switch {
		case v != nil && !ok:
			return unreadable(g.Number)
		case v != nil && own.Number > g.Number: // a newer one is in its slot
		case v != nil && own.Number == g.Number:
			if own.Nonce != g.Nonce {
				return &MismatchError{g.Number, fmt.Sprintf("from position %d on it has another group of that number", own.First), own.First}
			}
		case len(g.Records) > 0:
			return &MismatchError{g.Number, fmt.Sprintf("it begins at position %d, and this log has no records of that number", g.First), g.First}
		case g.First > 0 && g.Before != recordSum(tx.Bucket(bucketRecords), g.First-1):
			return &MismatchError{g.Number, fmt.Sprintf("it follows another record at position %d", g.First-1), g.First - 1}
		case g.First > 0 && endBefore(tx.Bucket(bucketGroups), g) != g.First:
			return &MismatchError{g.Number, fmt.Sprintf("it follows position %d, and this log had others by then", g.First-1), g.First}
		}
		return nil
	})
}

// endBefore is the position behind the groups before this one, by the file or, if it has
// forgotten them, by the group itself.
func endBefore(groups *bbolt.Bucket, g *Group) eventstore.Position {
	c := groups.Cursor()
	c.Seek(slot(g.Number))
	k, v := c.Prev()
	if k == nil { // the slots are a ring
		_, v = c.Last()
	}
	own, commits, ok := parseGroup(v)
	if !ok || own.Number >= g.Number {
		return g.First
	}
	return own.First + eventstore.Position(commits)
}

func unreadable(number uint64) error {
	return &eventstore.CorruptError{Reason: fmt.Sprintf("its entry of group %d makes no sense", number)}
}
