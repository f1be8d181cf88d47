package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	spanMillis = 15 * 24 * 60 * 60 * 1000
	spansKept  = 3
	spanSize   = 16 // bytes of one in the file
)

// span is 15 days in which keys were claimed.
type span struct {
	number uint64              // days since the Unix epoch divided by 15
	first  eventstore.Position // of the first record that claimed a key
}

// spans are those whose keys are remembered, oldest first.
type spans []span

// claim notes that the record at a position claims a key; newest is the
// greatest event id so far. The first key of a span begins it, and the oldest
// of more than three is forgotten. Time alone forgets nothing: a clock that
// was a year ahead for a moment would have all keys claimed again.
func (s spans) claim(newest domain.ID, at eventstore.Position) (_ spans, begun bool) {
	number := newest.Time() / spanMillis
	if n := len(s); n > 0 && s[n-1].number == number {
		return s, false
	}
	s = append(slices.Clip(s), span{number, at})
	return s[max(0, len(s)-spansKept):], true
}

// floor is where the records begin whose keys are remembered.
func (s spans) floor() eventstore.Position {
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

// spansOf reads the spans; ok is false when they make no sense.
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

// indexes are those of the claims: for a time and for ever.
type indexes struct{ keys, forever *claimIndex }

// of is the index of a claim.
func (x *indexes) of(c *eventstore.Claim) *claimIndex {
	if c.Forever {
		return x.forever
	}
	return x.keys
}

func (x *indexes) both() [2]*claimIndex { return [...]*claimIndex{x.keys, x.forever} }

// settled tells that all up to the last record is durable.
func (x *indexes) settled(last eventstore.Stored) {
	for _, one := range x.both() {
		one.settled(last)
	}
}

// end waits for what is under way in both.
func (x *indexes) end() {
	for _, one := range x.both() {
		one.end()
	}
}

// claimName is what an index knows a key by: the first half of the SHA-256 of
// it and of its project. Nobody can make two keys of one name.
type claimName [16]byte

// nameFor is the name of a claim's key. One for ever is of no project.
func nameFor(project string, c *eventstore.Claim) claimName {
	if c.Forever {
		project = ""
	}
	return nameOf(project, c.Key)
}

func nameOf(project string, key domain.Digest) claimName {
	sum := sha256.Sum256(append(append(make([]byte, 0, 96), key[:]...), project...))
	return claimName(sum[:])
}

// holdsClaim reports an error unless the index led to the right record.
func holdsClaim(r eventstore.Stored, project string, c *eventstore.Claim) error {
	if r.Claim == nil || r.Claim.Key != c.Key || r.Claim.Forever != c.Forever || (!c.Forever && r.Stream.Project != project) {
		return &eventstore.CorruptError{Position: r.Position, Reason: "the index of claims leads to it by mistake"}
	}
	return nil
}
