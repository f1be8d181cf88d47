package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
)

// scrubTime is how long a backup waits for readers before it.
const scrubTime = time.Second

// Backup copies the log as it is at one moment: the copy is a log with the same
// id, ends at a durable position and can be opened once it is complete. begin is
// called once with that position and the number of bytes, and returns the writer
// that they go to.
//
// The copy has the pages that are in no use, too, so what was deleted from the log is overwritten
// there first. While another copy is being read that may be impossible: after a second the copy is
// made all the same.
//
// Appends continue meanwhile. Until the copy is done no page that it needs is overwritten, so the
// file grows by what is appended: a slow writer needs a time limit.
func (s *Store) Backup(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error {
	if _, err := s.tail.last(); err != nil {
		return err
	}
	scrubbing, cancel := context.WithTimeout(ctx, scrubTime)
	_ = s.Scrub(scrubbing) // a log that is only read, or refuses commits, is copied as it is
	cancel()
	return s.view(0, func(tx *bbolt.Tx) error {
		var last eventstore.Position
		if k, _ := tx.Bucket(bucketRecords).Cursor().Last(); len(k) == 8 {
			last = eventstore.Position(binary.BigEndian.Uint64(k))
		}
		// The transaction may show a group that is not durable yet. If a power cut then removed it from
		// the log, the copy would have another history.
		if last > 0 {
			if err := s.wait(ctx, last-1); err != nil {
				return err
			}
		}
		w, err := begin(last, tx.Size())
		if err != nil {
			return err
		}
		to := &sink{ctx: ctx, w: w}
		if _, err := tx.WriteTo(to); err != nil {
			return cmp.Or(to.err, err)
		}
		return nil
	})
}

// sink is a writer that fails once ctx has ended. It keeps the error, because
// bbolt passes on only its text.
type sink struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (n int, err error) {
	if s.err = s.ctx.Err(); s.err == nil {
		n, s.err = s.w.Write(b)
	}
	return n, s.err
}
