package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
)

// Verify checks the whole log: the structure of the file, checksums, positions without gaps, each
// record's link to the one before it in its stream, the heads and the index of claims against the
// records. Every record and every head is searched for as reads do. Whether details are those that
// an event commits to, its decoder says. The error is an *eventstore.CorruptError, the first that is
// found, ErrClosed or the context's. Commits continue meanwhile; the file may grow a little more than
// usual.
func (s *Store) Verify(ctx context.Context) error { return s.verify(ctx, rowCache, false) }

// VerifyStructure is Verify without decoding the bodies, for a caller that scans
// the log besides. Each record's checksums, which cover its body and details as they are
// stored, are verified.
func (s *Store) VerifyStructure(ctx context.Context) error { return s.verify(ctx, rowCache, true) }

// rowCache is the number of records kept for those that follow them in their
// streams: most do so soon.
const rowCache = 1 << 12

// verifyAtOnce is how many records or heads one transaction checks.
const verifyAtOnce = 1 << 12

func (s *Store) verify(ctx context.Context, cached int, bodiless bool) error {
	if _, err := s.tail.last(); err != nil {
		return err
	}
	switch err := s.file.Check(boltfile.Check{Pace: ctx.Err}); {
	case errors.Is(err, boltfile.ErrClosed):
		return eventstore.ErrClosed
	case boltfile.Damaged(err):
		return &eventstore.CorruptError{Reason: err.Error()}
	case err != nil:
		return err
	}
	return s.newVerifier(cached, bodiless, ctx.Err).run(s)
}

func (s *Store) newVerifier(cached int, bodiless bool, pace func() error) *verifier {
	return &verifier{
		pace: pace, index: s.claims, walk: record.Decoder{Bodiless: bodiless}, links: record.Decoder{Bodiless: true},
		cache: make([]eventstore.Stored, cached),
	}
}

type verifier struct {
	pace           func() error // may pause; its error ends the work
	tx             *bbolt.Tx
	records, heads *bbolt.Bucket
	last           eventstore.Position
	newest         domain.ID
	index          *claims.Index       // nil: not opened
	walk           record.Decoder      // of all records in order
	links          record.Decoder      // of records that others lead to, without bodies
	cache          []eventstore.Stored // without bodies; each at its position modulo the length

	after []byte // key of the head that was looked at last
	sum   uint64 // of sequences at or before last
}

// run works in short transactions, so that no page is kept from reuse for long. Between them
// records do not change, and heads change to records after those that were seen.
func (v *verifier) run(s *Store) error {
	last, err := s.tail.last()
	if err != nil {
		return err
	}
	for _, step := range [...]func() (bool, error){v.walkRecords, v.checkHeads} {
		for done := false; !done; {
			if err := v.pace(); err != nil {
				return err
			}
			err := s.view(v.last+1, func(tx *bbolt.Tx) (err error) {
				v.tx, v.records, v.heads = tx, tx.Bucket(bucketRecords), tx.Bucket(bucketHeads)
				done, err = step()
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	switch {
	case v.last < last:
		return missing(v.last + 1)
	case v.sum != uint64(v.last):
		return &eventstore.CorruptError{Position: v.last, Reason: fmt.Sprintf("the heads lead to %d of %d records", v.sum, v.last)}
	}
	return nil
}

// walkRecords checks the next records; done is true after the last one.
func (v *verifier) walkRecords() (done bool, err error) {
	c, seeker, d := v.records.Cursor(), v.records.Cursor(), &v.walk
	k, b := c.First()
	if v.last > 0 {
		if k, _ = c.Seek(positionKey(v.last)); len(k) != 8 || eventstore.Position(binary.BigEndian.Uint64(k)) != v.last {
			return false, missing(v.last)
		}
		k, b = c.Next()
	}
	for n := 0; k != nil; k, b = c.Next() {
		if n++; n > verifyAtOnce {
			return false, nil
		}
		at := v.last + 1
		if len(k) != 8 || eventstore.Position(binary.BigEndian.Uint64(k)) != at {
			return false, missing(at)
		}
		if _, sought := seeker.Seek(k); len(b) == 0 || len(sought) != len(b) || &sought[0] != &b[0] {
			return false, missing(at)
		}
		d.Reuse() // no body is kept
		r, err := d.Decode(at, b)
		if err != nil {
			return false, err
		}
		if err := v.checkLink(r); err != nil {
			return false, err
		}
		if r.Commit.Compare(v.newest) > 0 {
			v.newest = r.Commit
		}
		if r.Claim != nil && v.index != nil {
			if err := v.checkClaim(r); err != nil {
				return false, err
			}
		}
		v.last = at
		r.Body, r.Claim = nil, nil
		v.cache[int(at)%len(v.cache)] = r
	}
	if v.newest != newestID(v.tx) {
		return false, &eventstore.CorruptError{Position: v.last, Reason: "the newest event id is not that of the records"}
	}
	return true, nil
}

// checkClaim checks that the index finds the record by its claim. A superfluous
// entry does no harm: the record that it leads to is read.
func (v *verifier) checkClaim(r eventstore.Stored) error {
	at, err := claimed(v.index, nameOf(r.Stream.Project, r.Claim))
	if err == nil && at > r.Position {
		// Before version 9 of the format a key was forgotten after some time, and could be claimed again.
		if again, err := v.linked(at); err == nil && holdsClaim(again, r.Stream.Project, r.Claim) == nil {
			return nil
		}
	}
	if err == nil && at != r.Position {
		err = &eventstore.CorruptError{Position: r.Position, Reason: "the index of claims does not lead to it"}
	}
	return err
}

// checkLink checks the record against the one before it in its stream.
func (v *verifier) checkLink(r eventstore.Stored) error {
	if err := begins(r, r.Stream); err != nil || r.Prev == 0 {
		return err
	}
	if before := v.cache[int(r.Prev)%len(v.cache)]; before.Position == r.Prev {
		return follows(before, r)
	}
	before, err := v.linked(r.Prev)
	if err != nil {
		return err
	}
	return follows(before, r)
}

// checkHeads checks the next heads; done is true after the last one. walkRecords
// has shown that all links lead back within their stream and count down. If then
// each head is the record that it names, and the heads' sequences add up to the
// number of records, every record is in exactly one chain.
func (v *verifier) checkHeads() (done bool, err error) {
	c, seeker := v.heads.Cursor(), v.heads.Cursor()
	k, b := c.First()
	if v.after != nil {
		if k, _ = c.Seek(v.after); !bytes.Equal(k, v.after) {
			return false, lostHead(v.after)
		}
		k, b = c.Next()
	}
	for n := 0; k != nil; k, b = c.Next() {
		if n++; n > verifyAtOnce {
			return false, nil
		}
		if found, sought := seeker.Seek(k); !bytes.Equal(found, k) || !bytes.Equal(sought, b) {
			return false, lostHead(k)
		}
		h, err := parseHead(k, b)
		if err != nil {
			return false, err
		}
		r, err := v.linked(h.position)
		if err != nil {
			return false, err
		}
		if string(headKey(r.Stream)) != string(k) || r.Sequence != h.sequence || r.Commit != h.commit {
			return false, &eventstore.CorruptError{Position: h.position, Reason: fmt.Sprintf("the head of stream %q leads to it by mistake", k)}
		}
		// Records that were appended meanwhile do not count.
		for r.Position > v.last && r.Prev != 0 {
			if r, err = v.linked(r.Prev); err != nil {
				return false, err
			}
		}
		if r.Position <= v.last {
			v.sum += r.Sequence
		}
		v.after = append(v.after[:0], k...)
	}
	return true, nil
}

// linked reads a record that another leads to, without its body.
func (v *verifier) linked(at eventstore.Position) (eventstore.Stored, error) {
	return decodeAt(v.records, &v.links, at)
}

func lostHead(key []byte) error {
	return &eventstore.CorruptError{Reason: fmt.Sprintf("the entry of stream %q is not found among the heads", key)}
}
