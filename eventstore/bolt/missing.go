package bolt

import (
	"context"
	"encoding/binary"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
)

const (
	missingSize = 16
	// maxMissing bounds the notes. Beyond it, the newest replaces the one before
	// it.
	maxMissing = 32
)

// NoteMissingCheckpoint records permanently that the log, with the records that it has now, was
// opened without the checkpoint that had been signed for it. It is called before the first Append.
func (s *Store) NoteMissingCheckpoint(at time.Time) error {
	if s.readOnly {
		return ErrReadOnly
	}
	last, err := s.tail.last()
	switch {
	case err != nil:
		return err
	case !s.awaitSound():
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	err = s.update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		noted := append([]byte(nil), meta.Get(keyMissing)...)
		if n := len(noted) - missingSize; n >= 0 && (len(noted) >= maxMissing*missingSize || parseMissing(noted[n:]).Size == last) {
			noted = noted[:n]
		}
		return meta.Put(keyMissing, appendMissing(noted, last, at))
	})
	if err != nil {
		s.fail(s.broke(err))
		return s.Err()
	}
	return nil
}

// MissingCheckpoints returns what NoteMissingCheckpoint has noted, oldest first.
func (s *Store) MissingCheckpoints(ctx context.Context) (all []eventstore.MissingCheckpoint, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.view(0, func(tx *bbolt.Tx) error {
		for noted := tx.Bucket(bucketMeta).Get(keyMissing); len(noted) >= missingSize; noted = noted[missingSize:] {
			all = append(all, parseMissing(noted))
		}
		return nil
	})
	return all, err
}

func appendMissing(b []byte, size eventstore.Position, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(size)), uint64(at.UnixMilli()))
}

func parseMissing(b []byte) eventstore.MissingCheckpoint {
	return eventstore.MissingCheckpoint{
		Size: eventstore.Position(binary.BigEndian.Uint64(b)),
		At:   time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))).UTC(),
	}
}
