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

// claimName is what the index knows a project's key by: the first half of the
// SHA-256 of both. Nobody can make two keys of one name.
type claimName [16]byte

func nameOf(project string, key domain.Digest) claimName {
	sum := sha256.Sum256(append(append(make([]byte, 0, 96), key[:]...), project...))
	return claimName(sum[:])
}

// holdsClaim reports an error unless the index led to the right record.
func holdsClaim(r eventstore.Stored, project string, key domain.Digest) error {
	if r.Stream.Project != project || r.Claim == nil || r.Claim.Key != key {
		return &eventstore.CorruptError{Position: r.Position, Reason: "the index of idempotency keys leads to it by mistake"}
	}
	return nil
}
