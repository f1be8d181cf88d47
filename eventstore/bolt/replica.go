package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// applied says which groups of which LOG a file has; zero: it is in no cluster.
type applied struct {
	of     domain.ID // the LOG's id
	number uint64    // of the last group with records
}

func (a applied) value() []byte { return binary.BigEndian.AppendUint64(bytes.Clone(a.of[:]), a.number) }

func appliedOf(meta *bbolt.Bucket) (a applied, ok bool) {
	b := meta.Get(keyGroups)
	if len(b) == 0 {
		return a, true
	}
	if len(b) != len(a.of)+8 {
		return a, false
	}
	a = applied{domain.ID(b), binary.BigEndian.Uint64(b[len(a.of):])}
	return a, !a.of.IsZero()
}

// Replica is how far a file has come.
type Replica struct {
	Log     domain.ID // the id of the LOG that it follows; zero: none
	Heir    domain.ID // the node whose file goes on alone, since LOG has ended; zero: it has not
	Applied uint64    // the last group with records that is in the file
	Last    eventstore.Position
	Sum     [sha256.Size]byte // SHA-256 of the last record as it is stored
}

// Replica is how far the file has come, as it is durable.
func (s *Store) Replica() (r Replica, err error) {
	s.writing.Lock() // no group is under way
	defer s.writing.Unlock()
	if err := s.Err(); err != nil {
		return r, err
	}
	r = Replica{Log: s.applied.of, Applied: s.applied.number, Last: s.tail.Durable()}
	err = s.view(r.Last, func(tx *bbolt.Tx) error {
		r.Sum = recordSum(tx.Bucket(bucketRecords), r.Last)
		copy(r.Heir[:], tx.Bucket(bucketMeta).Get(keyHeir))
		return nil
	})
	return r, err
}

// End is what the next group follows: the position of its first record, and the SHA-256 of
// the record before that.
func (s *Store) End() (first eventstore.Position, before [sha256.Size]byte, err error) {
	last, err := s.tail.Last()
	if err == nil {
		before, err = s.Sum(last)
	}
	return last + 1, before, err
}

// Sum is the SHA-256 of the record at a position of the file; zero for position 0.
func (s *Store) Sum(p eventstore.Position) (sum [sha256.Size]byte, err error) {
	err = s.view(p, func(tx *bbolt.Tx) error {
		sum = recordSum(tx.Bucket(bucketRecords), p)
		return nil
	})
	return sum, err
}

// Join makes the file follow a LOG from the group of this number on; what it holds
// is what LOG's earlier groups made. A file that follows a LOG stays with it.
func (s *Store) Join(log domain.ID, number uint64) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.agree == nil:
		return ErrClustered
	case s.applied.of == log:
		return nil
	case !s.applied.of.IsZero():
		return clustered(s.path, s.applied.of)
	}
	if err := s.unwritable(); err != nil {
		return err
	}
	joined := applied{log, number}
	if err := s.putMeta(keyGroups, joined.value()); err != nil {
		return err
	}
	s.applied = joined
	return nil
}

// putMeta makes a value durable; writing is held.
func (s *Store) putMeta(key, value []byte) error {
	return s.alter(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(key, value) })
}

// alter makes durable what fn writes outside the records' bucket. An error is fatal. writing
// is held.
func (s *Store) alter(fn func(*bbolt.Tx) error) error {
	if err := s.update(fn); err != nil {
		s.fail(s.broke(err))
		return s.Err()
	}
	return nil
}

// Conclude notes that LOG has ended, and which node's file goes on alone.
func (s *Store) Conclude(heir domain.ID) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	return s.putMeta(keyHeir, heir[:])
}

// Leave makes the file follow no LOG any more. It keeps its records and forgets the
// groups that they came in.
func (s *Store) Leave() error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	err := s.alter(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(bucketGroups); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(bucketGroups); err != nil {
			return err
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Delete(keyGroups), meta.Delete(keyHeir))
	})
	if err == nil {
		s.applied = applied{}
	}
	return err
}

// Detach makes a copy of a cluster's file follow no LOG: see Leave.
func Detach(path string) error {
	s, err := Open(path, Options{Replicate: func(*Group) error { return ErrClustered }})
	if err != nil {
		return err
	}
	if !s.applied.of.IsZero() {
		err = s.Leave()
	}
	return errors.Join(err, s.Close())
}
