package bolt

import (
	"bytes"
	"context"
	"errors"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt/recent"
	"payledger/eventstore/bolt/record"
)

// readRecent reads the ids of the newest records before the first group. It waits until the
// branches of the file are known to be sound, because bbolt follows a cycle of them forever. A
// record that cannot be read is skipped: its commit is recognised as long as it is its stream's
// last.
func (s *Store) readRecent() error {
	if s.staging.idsRead {
		return nil
	}
	var ids recent.IDs
	err := s.view(s.tail.Durable(), func(tx *bbolt.Tx) error {
		ids = recent.NewIDs(newestID(tx))
		d := record.Decoder{Bodiless: true}
		c := tx.Bucket(bucketRecords).Cursor()
		at := s.tail.Durable()
		for k, v := c.Last(); at > 0 && bytes.Equal(k, positionKey(at)); k, v = c.Prev() {
			if r, err := d.Decode(at, v); err == nil {
				if !ids.Needs(r.Commit) {
					break
				}
				ids.Add(r.Commit, at)
			}
			at--
		}
		return nil
	})
	if errors.As(err, new(*eventstore.CorruptError)) {
		err = nil
	}
	if err == nil {
		s.staging.ids, s.staging.idsRead = ids, true
	}
	return err
}

// wait returns nil once a record after the position is durable.
func (s *Store) wait(ctx context.Context, after eventstore.Position) error {
	durable := s.tail.Wait(after)
	if durable == nil {
		return nil
	}
	select {
	case <-durable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return eventstore.ErrClosed
	case <-s.fatal:
		return s.Err()
	}
}
