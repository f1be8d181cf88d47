package bolt

import (
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

// span is a period of 15 days in which keys were claimed.
type span struct {
	number uint64              // days since the Unix epoch divided by 15
	first  eventstore.Position // of the first record that claimed a key
}

// spans are the periods whose keys are remembered, oldest first.
type spans []span

// claim notes that the record at a position claims a key; newest is the
// greatest event id so far. The first key of a span begins it, and of more than
// three spans the oldest is forgotten. Time alone forgets nothing: otherwise a
// clock that was a year ahead for a moment would make all keys free again.
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
