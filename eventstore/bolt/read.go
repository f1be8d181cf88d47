package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
)

// The bounds of what one read transaction reads for Scan and Follow.
const (
	chunkRecords  = 256     // matching records
	chunkExamined = 4096    // records looked at
	chunkBytes    = 1 << 20 // of matching bodies
)

// view runs fn in a read transaction. A panic of bbolt, or a fault in its
// mapped file, means that the file is damaged near the position.
func (s *Store) view(near eventstore.Position, fn func(*bbolt.Tx) error) error {
	err := s.file.View(fn)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, boltfile.ErrClosed):
		return eventstore.ErrClosed
	case boltfile.Damaged(err):
		if broken := s.file.Err(); broken != nil {
			s.fail(s.broke(broken))
		}
		return &eventstore.CorruptError{Position: near, Reason: fmt.Sprintf("the file cannot be read there: %v", err)}
	}
	return err
}

// recordAt reads the record at the position.
func recordAt(records *bbolt.Bucket, at eventstore.Position) (eventstore.Stored, error) {
	return decodeAt(records, new(record.Decoder), at)
}

func decodeAt(records *bbolt.Bucket, d *record.Decoder, at eventstore.Position) (eventstore.Stored, error) {
	v := records.Get(positionKey(at))
	if v == nil {
		return eventstore.Stored{}, missing(at)
	}
	return d.Decode(at, v)
}

func missing(at eventstore.Position) error {
	return &eventstore.CorruptError{Position: at, Reason: "it is not where it was written"}
}

// Load implements eventstore.Store. It holds the stream's records in memory.
func (s *Store) Load(ctx context.Context, st eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return s.LoadAfter(ctx, st, 0)
}

// LoadAfter implements eventstore.Store. It holds the records in memory.
func (s *Store) LoadAfter(ctx context.Context, st eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		records, err := s.stream(ctx, st, after)
		if err != nil {
			yield(eventstore.Stored{}, err)
			return
		}
		for _, r := range slices.Backward(records) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// stream reads a stream's durable records after a position, newest first.
func (s *Store) stream(ctx context.Context, st eventstore.Stream, after eventstore.Position) ([]eventstore.Stored, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records, next, durable, known, err := s.tail.stream(st, after)
	if err != nil || (known && next <= after) {
		return records, err
	}
	err = s.view(next, func(tx *bbolt.Tx) error {
		log := tx.Bucket(bucketRecords)
		if !known {
			h, err := headOf(tx.Bucket(bucketHeads), headKey(st))
			if err != nil {
				return err
			}
			next = h.position
		}
		for next > after {
			r, err := recordAt(log, next)
			if err != nil {
				return err
			}
			if n := len(records); n > 0 {
				err = follows(r, records[n-1])
			} else {
				err = begins(r, st)
			}
			if err != nil {
				return err
			}
			next = r.Prev
			// The transaction may show a group that is not durable yet.
			if r.Position <= durable {
				records = append(records, r)
			}
		}
		return nil
	})
	return records, err
}

// begins returns an error unless r belongs to the stream.
func begins(r eventstore.Stored, st eventstore.Stream) error {
	if r.Stream != st || r.Prev >= r.Position || (r.Prev == 0) != (r.Sequence == 1) {
		return &eventstore.CorruptError{Position: r.Position, Reason: "it does not belong to the stream that leads to it"}
	}
	return nil
}

// follows returns an error unless r is the record before next in its stream.
func follows(r, next eventstore.Stored) error {
	if r.Sequence+1 != next.Sequence {
		return &eventstore.CorruptError{Position: r.Position, Reason: fmt.Sprintf(
			"its sequence is %d, the record after it has %d", r.Sequence, next.Sequence)}
	}
	return begins(r, next.Stream)
}

// Claimed implements eventstore.Store. The index of claims is not opened for reading only: then the
// error is ErrReadOnly.
func (s *Store) Claimed(ctx context.Context, project string, key domain.Digest) (r eventstore.Stored, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, false, err
	}
	durable, err := s.tail.last()
	if err != nil {
		return r, false, err
	}
	if s.readOnly {
		return r, false, ErrReadOnly
	}
	claim := eventstore.Claim{Key: key}
	at, err := claimed(s.claims, nameOf(project, &claim))
	if err != nil || at == 0 || at > durable {
		return r, false, err
	}
	if r, ok = s.tail.record(at); !ok {
		err = s.view(at, func(tx *bbolt.Tx) error {
			r, err = recordAt(tx.Bucket(bucketRecords), at)
			return err
		})
	}
	if err == nil {
		err = holdsClaim(r, project, &claim)
	}
	return r, err == nil, err
}

// Last implements eventstore.Store.
func (s *Store) Last(ctx context.Context) (eventstore.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.tail.last()
}

// LastOf implements eventstore.Store.
func (s *Store) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.tail.lastOf(f)
}

// LastID is the greatest event id in the log, zero for an empty log. New ids have
// to be greater than it.
func (s *Store) LastID(ctx context.Context) (id domain.ID, err error) {
	if err := ctx.Err(); err != nil {
		return id, err
	}
	last, err := s.tail.last()
	if err != nil {
		return id, err
	}
	err = s.view(last, func(tx *bbolt.Tx) error {
		id = newestID(tx)
		return nil
	})
	return id, err
}

func newestID(tx *bbolt.Tx) domain.ID {
	var id domain.ID
	copy(id[:], tx.Bucket(bucketMeta).Get(keyNewest))
	return id
}

// Scan implements eventstore.Store.
func (s *Store) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return eventstore.ScanChunks(ctx, s.chunk, after, f)
}

// Follow implements eventstore.Store.
func (s *Store) Follow(ctx context.Context, after eventstore.Position, f eventstore.Filter, fn func(eventstore.Stored) error) error {
	return eventstore.FollowChunks(ctx, s.chunk, s.wait, after, f, fn)
}

// chunk is an eventstore.Chunk.
func (s *Store) chunk(ctx context.Context, dst []eventstore.Stored, after eventstore.Position, f eventstore.Filter) (_ []eventstore.Stored, reached eventstore.Position, _ error) {
	if err := ctx.Err(); err != nil {
		return dst, after, err
	}
	dst, reached, durable, ok, err := s.tail.after(dst, after, f, chunkRecords)
	if ok || err != nil {
		return dst, reached, err
	}
	err = s.view(after+1, func(tx *bbolt.Tx) error {
		size := 0
		var d record.Decoder
		c := tx.Bucket(bucketRecords).Cursor()
		k, v := c.Seek(positionKey(after + 1))
		for n := 0; reached < durable && n < chunkExamined && len(dst) < chunkRecords && size < chunkBytes; n++ {
			at := reached + 1
			if len(k) != 8 || eventstore.Position(binary.BigEndian.Uint64(k)) != at {
				return missing(at)
			}
			r, err := d.Decode(at, v)
			if err != nil {
				return err
			}
			if f.Matches(r.Stream) {
				size += len(r.Body)
				dst = append(dst, r)
			}
			reached = at
			k, v = c.Next()
		}
		return nil
	})
	return dst, reached, err
}
