package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/bolt/record"
)

// indexes find the records that claimed keys: idempotency keys, which are
// forgotten after a time, and keys that are claimed permanently.
type indexes struct{ keys, forever *claims.Index }

func (x *indexes) of(c *eventstore.Claim) *claims.Index {
	if c.Forever {
		return x.forever
	}
	return x.keys
}

func (x *indexes) both() [2]*claims.Index { return [...]*claims.Index{x.keys, x.forever} }

// find returns the position of the record that holds a claim's key, 0 if none
// does. The record may not be durable yet.
func (x *indexes) find(n claims.Name, c *eventstore.Claim) (eventstore.Position, error) {
	at, err := x.of(c).Find(n)
	if errors.Is(err, claims.ErrClosed) {
		err = eventstore.ErrClosed
	}
	return eventstore.Position(at), err
}

// durable says that all records up to the last one are durable.
func (x *indexes) durable(last *eventstore.Stored) {
	for _, one := range x.both() {
		if at := uint64(last.Position); one.Full(at) {
			one.Seal(at, last.Commit)
		}
	}
}

func (x *indexes) close() {
	for _, one := range x.both() {
		one.Close()
	}
}

// nameOf is the name of a claim's key in its index. A permanent claim belongs to
// no project.
func nameOf(project string, c *eventstore.Claim) claims.Name {
	if c.Forever {
		project = ""
	}
	return claims.NameOf(project, c.Key)
}

// holdsClaim returns an error unless the index led to the right record.
func holdsClaim(r eventstore.Stored, project string, c *eventstore.Claim) error {
	if r.Claim == nil || r.Claim.Key != c.Key || r.Claim.Forever != c.Forever || (!c.Forever && r.Stream.Project != project) {
		return &eventstore.CorruptError{Position: r.Position, Reason: "the index of claims leads to it by mistake"}
	}
	return nil
}

// claimsDir is the directory with the indexes of the log at path.
func claimsDir(path string) string { return strings.TrimSuffix(path, ".db") + ".claims" }

// foreverDir is, within claimsDir, the directory of the permanent claims.
const foreverDir = "forever"

// openClaims opens the indexes of claims and adds the records that they do not
// cover.
func (s *Store) openClaims() error {
	x := &indexes{}
	err := s.view(s.tail.durable, func(tx *bbolt.Tx) error {
		var ok bool
		if s.staging.spans, ok = spansOf(tx); !ok {
			return damaged(s.path, "its list of the idempotency keys that are remembered makes no sense")
		}
		log := tx.Bucket(bucketRecords)
		c := claims.Config{
			Dir: claimsDir(s.path), Log: s.logID, First: uint64(s.staging.spans.first()), Damaged: s.fail,
			Holds: func(at uint64, event [16]byte) bool {
				r, err := recordAt(log, eventstore.Position(at))
				return err == nil && r.Commit == domain.ID(event)
			},
		}
		var err error
		if x.keys, err = claims.Open(c); err != nil {
			return err
		}
		c.Dir, c.Forever, c.First = filepath.Join(c.Dir, foreverDir), true, 1
		x.forever, err = claims.Open(c)
		return err
	})
	for at := eventstore.Position(0); err == nil && at <= s.tail.durable; {
		at = max(at, eventstore.Position(min(x.keys.Next(), x.forever.Next())))
		at, err = s.rebuildClaims(x, at)
	}
	switch {
	case err == nil:
	case errors.As(err, new(*OpenError)):
		return err
	case errors.As(err, new(*eventstore.CorruptError)):
		return damaged(s.path, err.Error())
	default:
		return &OpenError{
			Path: claimsDir(s.path), Err: fmt.Errorf("the index of claims: %w", err),
			Advice: "check that the directory can be written to; it can be deleted and is then rebuilt",
		}
	}
	for _, one := range x.both() {
		one.Start()
	}
	s.claims, s.staging.index = x, x
	return nil
}

// rebuildClaims adds a number of records to the indexes and returns the position
// after them. A record that cannot be read may have claimed any key: the indexes
// are then incomplete.
func (s *Store) rebuildClaims(x *indexes, from eventstore.Position) (next eventstore.Position, err error) {
	const atOnce = 1 << 14
	next = min(from+atOnce, s.tail.durable+1)
	d := record.Decoder{Bodiless: true}
	err = s.view(from, func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketRecords).Cursor()
		k, v := c.Seek(positionKey(from))
		for at := from; at < next; at++ {
			r, err := eventstore.Stored{}, missing(at)
			if string(k) == string(positionKey(at)) {
				r, err = d.Decode(at, v)
				k, v = c.Next()
			}
			if err := x.rebuild(at, &r, err); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.As(err, new(*eventstore.CorruptError)) {
		for _, one := range x.both() {
			one.Unreadable(uint64(next-1), err)
		}
		err = nil
	}
	return next, err
}

// rebuild adds the record at a position, or notes the error why it cannot be
// read.
func (x *indexes) rebuild(at eventstore.Position, r *eventstore.Stored, unreadable error) error {
	for _, one := range x.both() {
		if unreadable != nil {
			one.Unreadable(uint64(at), unreadable)
			continue
		}
		var name *claims.Name
		if r.Claim != nil && x.of(r.Claim) == one {
			n := nameOf(r.Stream.Project, r.Claim)
			name = &n
		}
		if err := one.Rebuild(uint64(at), r.Commit, name); err != nil {
			return err
		}
	}
	return nil
}

const (
	spanMillis = 15 * 24 * 60 * 60 * 1000
	spansKept  = 3
	spanSize   = 16 // bytes of one in the file
)

// span is a period of 15 days in which keys were claimed.
type span struct {
	number uint64              // days since the Unix epoch divided by 15
	first  eventstore.Position // of the first record that claimed a key
}

// spans are the periods whose keys are remembered, oldest first.
type spans []span

// claim notes that the record at a position claims a key; newest is the greatest event id so far.
// The first key of a span begins it, and of more than three spans the oldest is forgotten. Time
// alone forgets nothing: else a clock that was a year ahead for a moment would free all keys.
func (s spans) claim(newest domain.ID, at eventstore.Position) (_ spans, begun bool) {
	number := newest.Time() / spanMillis
	if n := len(s); n > 0 && s[n-1].number == number {
		return s, false
	}
	s = append(slices.Clip(s), span{number, at})
	return s[max(0, len(s)-spansKept):], true
}

// first is the position from which on the keys of records are remembered.
func (s spans) first() eventstore.Position {
	if len(s) == 0 {
		return 1
	}
	return s[0].first
}

func (s spans) value() []byte {
	b := make([]byte, 0, spansKept*spanSize)
	for _, e := range s {
		b = binary.BigEndian.AppendUint64(b, e.number)
		b = binary.BigEndian.AppendUint64(b, uint64(e.first))
	}
	return b
}

// spansOf reads the spans; ok is false if they are not valid.
func spansOf(tx *bbolt.Tx) (s spans, ok bool) {
	b := tx.Bucket(bucketMeta).Get(keySpans)
	if len(b)%spanSize != 0 || len(b) > spansKept*spanSize {
		return nil, false
	}
	for ; len(b) > 0; b = b[spanSize:] {
		e := span{binary.BigEndian.Uint64(b), eventstore.Position(binary.BigEndian.Uint64(b[8:]))}
		if n := len(s); e.first == 0 || (n > 0 && (e.first <= s[n-1].first || e.number <= s[n-1].number)) {
			return nil, false
		}
		s = append(s, e)
	}
	return s, true
}
