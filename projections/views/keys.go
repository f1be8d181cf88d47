package views

import (
	"encoding/binary"
	"strings"

	"payledger/domain"
	"payledger/projections/table"
)

const idSize = len(domain.ID{})

// listKey joins the parts of a list's key, each ended by a zero byte, which
// streams' names and statuses cannot hold. The id that follows orders the list
// by time.
func listKey(parts ...string) string {
	key := listKeyOf(domain.ID{}, parts...)
	return key[:len(key)-idSize]
}

// listKeyOf is the key of an id in a list.
func listKeyOf(id domain.ID, parts ...string) string {
	n := idSize
	for _, p := range parts {
		n += len(p) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for _, p := range parts {
		b.WriteString(p)
		b.WriteByte(0)
	}
	b.Write(id[:])
	return b.String()
}

// idOf is the id at a list key's end.
func idOf(key string) (id domain.ID) {
	copy(id[:], key[len(key)-idSize:])
	return id
}

// idRange is the ids from lo up to, and without, hi.
type idRange struct{ lo, hi domain.ID }

// under is the range of these ids in the list with this prefix.
func (r idRange) under(prefix string) table.Range {
	return table.Range{Lo: prefix + string(r.lo[:]), Hi: prefix + string(r.hi[:])}
}

func (r idRange) has(id domain.ID) bool { return r.lo.Compare(id) <= 0 && id.Compare(r.hi) < 0 }

// idsBetween bounds ids by their time and by a cursor. An object's id and its
// created_at name the same instant, so a range of one is a range of the other.
func idsBetween(from, to domain.Instant, before domain.ID) idRange {
	r := idRange{hi: before}
	if before.IsZero() {
		for i := range r.hi {
			r.hi[i] = 0xff
		}
	}
	if from > 0 {
		r.lo = firstID(from)
	}
	if to > 0 {
		if first := firstID(to); first.Compare(r.hi) < 0 {
			r.hi = first
		}
	}
	return r
}

// firstID is the lowest id of an instant.
func firstID(at domain.Instant) (id domain.ID) {
	const maxTime = 1<<48 - 1
	ms := min(uint64(max(at, 0)), maxTime)
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	return id
}

func uint64Key(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// newTextTable is a table of texts.
func newTextTable[T ~string](db *table.DB, name string) *table.Table[T] {
	return table.New(
		db, name,
		func(b []byte, v T) []byte { return append(b, v...) },
		func(b []byte) (T, error) { return T(b), nil },
	)
}

func idKey(id domain.ID) string { return string(id[:]) }
