package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

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
func (s *Store) Verify(ctx context.Context) error { return s.verify(ctx, lately, false) }

// VerifyStructure is Verify for a log that nobody writes to and that is scanned
// besides, which reads every body in the file: they are left out here. Each
// record's checksum, which goes over its body as it is stored, is not.
func (s *Store) VerifyStructure(ctx context.Context) error { return s.verify(ctx, lately, true) }

// lately is how many records are at hand for those that follow them: most do
// so soon.
const lately = 1 << 12

func (s *Store) verify(ctx context.Context, atHand int, bodiless bool) error {
	last, err := s.tail.last()
	if err != nil {
		return err
	}
	v := &verifier{
		ctx: ctx, index: s.claims, walk: decoder{bodiless: bodiless}, links: decoder{bodiless: true},
		lately: make([]eventstore.Stored, atHand),
	}
	err = s.view(last, func(tx *bbolt.Tx) error {
		v.tx = tx
		v.records, v.heads = tx.Bucket(bucketRecords), tx.Bucket(bucketHeads)
		for _, step := range [...]func() error{v.walkRecords, v.checkHeads} {
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
	index          *indexes // nil: not opened
	spans          spans
	walk           decoder             // of every record
	links          decoder             // of records that others lead to; walkRecords reads their bodies
	lately         []eventstore.Stored // at position modulo its length, without body
}

func (v *verifier) walkRecords() error {
	kept, ok := spansOf(v.tx)
	if !ok {
		return &eventstore.CorruptError{Reason: "it does not tell whose idempotency keys are remembered"}
	}
	c, d := v.records.Cursor(), &v.walk
	for k, b := c.First(); k != nil; k, b = c.Next() {
		at := v.last + 1
		if at%1024 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if len(k) != 8 || eventstore.Position(binary.BigEndian.Uint64(k)) != at {
			return missing(at)
		}
		d.block = d.block[:0] // no body is kept
		r, err := d.record(at, b)
		if err != nil {
			return err
		}
		if err := v.checkLink(r); err != nil {
			return err
		}
		if r.Commit.Compare(v.newest) > 0 {
			v.newest = r.Commit
		}
		if r.Claim != nil {
			if !r.Claim.Forever {
				v.spans, _ = v.spans.claim(v.newest, at)
			}
			if err := v.checkClaim(r, kept.floor()); err != nil {
				return err
			}
		}
		v.last = at
		r.Body, r.Claim = nil, nil
		v.lately[int(at)%len(v.lately)] = r
	}
	if v.newest != newestID(v.tx) {
		return &eventstore.CorruptError{Position: v.last, Reason: "the newest event id is not that of the records"}
	}
	if !slices.Equal(v.spans, kept) {
		return &eventstore.CorruptError{Position: v.last, Reason: "it tells wrongly whose idempotency keys are remembered"}
	}
	return nil
}

// checkClaim makes sure that the index finds the record by its claim. An entry
// too many would do no harm: what it leads to is looked at.
func (v *verifier) checkClaim(r eventstore.Stored, floor eventstore.Position) error {
	if v.index == nil || (!r.Claim.Forever && r.Position < floor) {
		return nil
	}
	index := v.index.of(r.Claim)
	at, err := index.find(nameFor(r.Stream.Project, r.Claim), 0)
	if err == nil && at != r.Position && r.Position >= index.floor() {
		err = &eventstore.CorruptError{Position: r.Position, Reason: "the index of claims does not lead to it"}
	}
	return err
}

// checkLink checks the record against the one before it in its stream.
func (v *verifier) checkLink(r eventstore.Stored) error {
	if err := begins(r, r.Stream); err != nil || r.Prev == 0 {
		return err
	}
	if before := v.lately[int(r.Prev)%len(v.lately)]; before.Position == r.Prev {
		return follows(before, r)
	}
	b := v.records.Get(positionKey(r.Prev))
	if b == nil {
		return missing(r.Prev)
	}
	before, err := v.links.record(r.Prev, b)
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
		r, err := v.links.record(h.position, b)
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
