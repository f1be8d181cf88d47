package bolt

import (
	"context"
	"encoding/binary"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// Verify walks the whole log as it is at one moment: checksums, positions
// without gaps, each record's link to the one before in its stream, the heads
// and the index of idempotency keys against the records. bbolt's own check of
// its pages is not run: it crashes on damage that this one survives. The error
// is a *eventstore.CorruptError, the first that is found, ErrClosed or the
// context's. Commits go on meanwhile; the file may grow a little more than
// usual.
func (s *Store) Verify(ctx context.Context) error {
	last, err := s.tail.last()
	if err != nil {
		return err
	}
	v := &verifier{ctx: ctx, claims: make(map[uint64]int)}
	err = s.view(last, func(tx *bbolt.Tx) error {
		v.tx = tx
		v.records, v.heads = tx.Bucket(bucketRecords), tx.Bucket(bucketHeads)
		for _, step := range [...]func() error{v.walkRecords, v.checkHeads, v.checkClaims} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.last < last {
		return missing(v.last + 1)
	}
	return nil
}

type verifier struct {
	ctx            context.Context
	tx             *bbolt.Tx
	records, heads *bbolt.Bucket
	last           eventstore.Position
	newest         domain.ID
	claims         map[uint64]int // epoch -> keys claimed in it
}

func (v *verifier) walkRecords() error {
	kept := claimedEpochs(v.tx)
	forgotten := func(epoch uint64) bool { return len(kept) == epochs && epoch < kept[epochs-1] }
	c := v.records.Cursor()
	for k, b := c.First(); k != nil; k, b = c.Next() {
		at := v.last + 1
		if at%1024 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if len(k) != 8 || eventstore.Position(binary.BigEndian.Uint64(k)) != at {
			return missing(at)
		}
		r, err := decodeRecord(at, b)
		if err != nil {
			return err
		}
		if err := v.checkLink(r); err != nil {
			return err
		}
		if r.Commit.Compare(v.newest) > 0 {
			v.newest = r.Commit
		}
		if epoch := epochOf(v.newest); r.Claim != nil && !forgotten(epoch) {
			v.claims[epoch]++
			b := v.tx.Bucket(claimsBucket(epoch))
			if b == nil || string(b.Get(claimKey(r.Stream.Project, r.Claim.Key))) != string(positionKey(at)) {
				return &eventstore.CorruptError{Position: at, Reason: "its idempotency key is not in the index"}
			}
		}
		v.last = at
	}
	if v.newest != newestID(v.tx) {
		return &eventstore.CorruptError{Position: v.last, Reason: "the newest event id is not that of the records"}
	}
	return nil
}

// checkLink checks the record against the one before it in its stream.
func (v *verifier) checkLink(r eventstore.Stored) error {
	if err := begins(r, r.Stream); err != nil || r.Prev == 0 {
		return err
	}
	b := v.records.Get(positionKey(r.Prev))
	if b == nil {
		return missing(r.Prev)
	}
	before, err := decodeRecord(r.Prev, b)
	if err != nil {
		return err
	}
	return follows(before, r)
}

// checkHeads relies on walkRecords: all links lead back within their stream
// and count down. If then each head is the record that it says, and the heads'
// sequences add up to all records, every record is in exactly one chain.
func (v *verifier) checkHeads() error {
	var sum uint64
	c := v.heads.Cursor()
	for k, b := c.First(); k != nil; k, b = c.Next() {
		h, err := parseHead(k, b)
		if err != nil {
			return err
		}
		b := v.records.Get(positionKey(h.position))
		if b == nil {
			return missing(h.position)
		}
		r, err := decodeRecord(h.position, b)
		if err != nil {
			return err
		}
		if string(headKey(r.Stream)) != string(k) || r.Sequence != h.sequence || r.Commit != h.commit {
			return &eventstore.CorruptError{Position: h.position, Reason: fmt.Sprintf("the head of stream %q leads to it by mistake", k)}
		}
		sum += h.sequence
	}
	if sum != uint64(v.last) {
		return &eventstore.CorruptError{Position: v.last, Reason: fmt.Sprintf(
			"the heads lead to %d of %d records", sum, v.last)}
	}
	return nil
}

// checkClaims makes sure that the index holds nothing but what walkRecords
// found there.
func (v *verifier) checkClaims() error {
	return v.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if len(name) != len(prefixClaims)+8 || string(name[:len(prefixClaims)]) != string(prefixClaims) {
			return nil
		}
		epoch := binary.BigEndian.Uint64(name[len(prefixClaims):])
		if n := b.Stats().KeyN; n != v.claims[epoch] {
			return &eventstore.CorruptError{Position: v.last, Reason: fmt.Sprintf(
				"the index has %d idempotency keys of the 15 days from day %d, the records %d", n, epoch*15, v.claims[epoch])}
		}
		return nil
	})
}
