package bolt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// Tip is the end of an event log: the position of its last record, and the SHA-256 of
// that record as it is stored, without details. Of an empty log it is zero.
type Tip struct {
	Last eventstore.Position
	Sum  [sha256.Size]byte
}

func (t Tip) String() string { return fmt.Sprintf("%d-%s", t.Last, hex.EncodeToString(t.Sum[:4])) }

// Batch is records as they are stored, without details, which follow each other and the log that ends
// at After. It may have none.
type Batch struct {
	After   Tip
	Records [][]byte
	Details [][]byte // of the records in their order, nil for one without; it may end early
}

// DetailsOf are the details of record i of the batch.
func (b Batch) DetailsOf(i int) []byte {
	if i < len(b.Details) {
		return b.Details[i]
	}
	return nil
}

// End is the end of a log that has the batch.
func (b Batch) End() Tip {
	if len(b.Records) == 0 {
		return b.After
	}
	return Tip{b.After.Last + eventstore.Position(len(b.Records)), sha256.Sum256(b.Records[len(b.Records)-1])}
}

// GapError: the log ends at Last, before the first record of a batch, which
// therefore was not added.
type GapError struct{ Last, After eventstore.Position }

func (e *GapError) Error() string {
	return fmt.Sprintf("the records after position %d cannot be added to this event log, which ends at position %d", e.After, e.Last)
}

// DivergedError: a batch has other records than the log, or follows from others: this one is of
// another history, or damaged, as Reason says. At is the first position that differs, as far as is known.
type DivergedError struct {
	At     eventstore.Position
	Reason string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("this event log and the other nodes' differ at position %d: %s", e.At, e.Reason)
}

// The bounds of a group that is published. One commit alone always fits.
const (
	MaxGroupCommits = 256
	MaxGroupBytes   = 384 << 10 // of bodies and details
)

// undoneError takes a staged group back.
type undoneError struct{ err error }

func (e *undoneError) Error() string { return e.err.Error() }

// fits is how many of the first commits one transaction takes: all, unless they are
// published.
func (s *Store) fits(commits []*pending) int {
	if s.options.Publish == nil {
		return len(commits)
	}
	n, size := 0, 0
	for n < len(commits) && n < MaxGroupCommits {
		if size += len(commits[n].commit.Record.Body) + len(commits[n].commit.Record.Details); n > 0 && size > MaxGroupBytes {
			break
		}
		n++
	}
	return n
}

// publishStaged asks Options.Publish for what is staged, also when all commits were
// refused: a refusal is right only if this is the newest state of the log.
func (s *Store) publishStaged() error {
	if s.options.Publish == nil {
		return nil
	}
	last := s.tail.durable
	if err := s.options.Publish(Batch{Tip{last, recordSum(s.staging.log, last)}, s.staging.values, s.staging.details}); err != nil {
		return &undoneError{err}
	}
	return nil
}

// Extend adds the records of a batch which the log does not have and makes them durable;
// those that it has must be equal. It answers where the log then ends. Nothing is
// changed by an error: a *GapError, a *DivergedError, or one of Append's. If damage to earlier
// records keeps details from being found that a new one erases, it is added all the same, and the
// damage is reported.
//
// Whether a key may be claimed was judged where the record was first appended: before version 9 of
// the format it could be claimed again after some time. Then it leads to the newer record.
func (s *Store) Extend(b Batch) (Tip, error) {
	if !s.awaitSound() {
		return Tip{}, eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	size := 0
	for _, r := range b.Records {
		size += len(r)
	}
	n, err := s.write(pagesOf(len(b.Records), size), func() error { return s.extend(b) })
	if n > 0 && s.options.Committed != nil {
		s.options.Committed(n, 0)
	}
	if err != nil {
		return Tip{}, err
	}
	return s.tipLocked()
}

// extend stages the records of the batch that are new.
func (s *Store) extend(b Batch) error {
	staged := &s.staging
	diverged := func(at eventstore.Position, format string, args ...any) error {
		return &undoneError{&DivergedError{at, fmt.Sprintf(format, args...)}}
	}
	differs := func(at eventstore.Position) error {
		if _, err := recordAt(staged.log, at); err != nil && at > 0 {
			return diverged(at, "%v", err)
		}
		return diverged(at, "the record there is another one")
	}
	switch last := b.After.Last; {
	case last > staged.durable:
		return &undoneError{&GapError{staged.durable, last}}
	case recordSum(staged.log, last) != b.After.Sum:
		return differs(last)
	}
	var d record.Decoder
	for i, value := range b.Records {
		at := b.After.Last + eventstore.Position(i) + 1
		if at <= staged.durable {
			if has, _ := record.Split(staged.log.Get(positionKey(at))); !bytes.Equal(has, value) {
				return differs(at)
			}
			continue
		}
		switch value = bytes.Clone(value); {
		case record.HasDetails(value):
			value = record.AppendDetails(value, at, b.DetailsOf(i))
		case b.DetailsOf(i) != nil:
			return diverged(at, "the record has no details, and some came with it")
		}
		r, err := d.Decode(at, value)
		if err != nil {
			return diverged(at, "%v", err)
		}
		key, before, err := staged.follows(&r)
		switch {
		case errors.As(err, new(*eventstore.CorruptError)):
			return &undoneError{err}
		case err != nil:
			return diverged(at, "%v", err)
		case r.Prev != before.position:
			return diverged(at, "the record does not follow the one before it in its stream")
		}
		erased, err := staged.erases(&r)
		if err != nil {
			// The other nodes have erased them: without this record the log would stay behind theirs.
			s.damaged.Store(true)
			s.report(fmt.Errorf("%w; the details that the record at position %d erases may stay in this file", err, at))
		}
		if err := staged.putValue(&r, value, key, erased); err != nil {
			return err
		}
		staged.stage(&r, nameOf(r.Stream.Project, r.Claim))
	}
	return nil
}

// Tip is where the log ends. It waits for a group that is under way.
func (s *Store) Tip() (Tip, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.tipLocked()
}

func (s *Store) tipLocked() (t Tip, err error) {
	if t.Last, err = s.tail.last(); err == nil {
		err = s.view(t.Last, func(tx *bbolt.Tx) error {
			t.Sum = recordSum(tx.Bucket(bucketRecords), t.Last)
			return nil
		})
	}
	return t, err
}

// recordSum is the SHA-256 of a record as it is stored, without details, zero if there is none.
func recordSum(log *bbolt.Bucket, at eventstore.Position) (sum [sha256.Size]byte) {
	if v := log.Get(positionKey(at)); v != nil {
		v, _ = record.Split(v)
		sum = sha256.Sum256(v)
	}
	return sum
}

// BatchAfter are durable records from behind a position on, as many as the bounds of a
// group allow: none if the log ends there.
func (s *Store) BatchAfter(ctx context.Context, after eventstore.Position) (b Batch, err error) {
	durable, err := s.Last(ctx)
	if err != nil {
		return b, err
	}
	err = s.view(after+1, func(tx *bbolt.Tx) error {
		log, size := tx.Bucket(bucketRecords), 0
		if _, err := recordAt(log, after); after > 0 && err != nil {
			return err
		}
		b.After = Tip{after, recordSum(log, after)}
		for at := after + 1; at <= durable && len(b.Records) < MaxGroupCommits && size < MaxGroupBytes; at++ {
			r, err := recordAt(log, at)
			if err != nil {
				return err
			}
			value, _ := record.Split(log.Get(positionKey(at)))
			b.Records, b.Details = append(b.Records, bytes.Clone(value)), append(b.Details, r.Details)
			size += len(value) + len(r.Details)
		}
		return nil
	})
	return b, err
}
