package projections

import (
	"strings"

	bolt "go.etcd.io/bbolt"
)

// endAfter and endBefore cut a range that is read in one direction: behind a
// key, or just before it. The range only ever shrinks.
func (r keyRange) endAfter(key string, falling bool) keyRange {
	if falling {
		return keyRange{max(r.lo, key), r.hi}
	}
	return r.endBefore(key+"\x00", false)
}

func (r keyRange) endBefore(key string, falling bool) keyRange {
	switch {
	case falling:
		return keyRange{max(r.lo, key+"\x00"), r.hi}
	case r.hi == "" || key < r.hi:
		return keyRange{r.lo, key}
	}
	return r
}

// restOf is what of the whole range lies beyond r, nil when nothing does.
func (r keyRange) restOf(whole keyRange, falling bool) *keyRange {
	switch {
	case falling && r.lo != whole.lo:
		return &keyRange{whole.lo, r.lo}
	case !falling && r.hi != whole.hi:
		return &keyRange{r.hi, whole.hi}
	}
	return nil
}

func (r keyRange) has(key string) bool { return r.lo <= key && (r.hi == "" || key < r.hi) }

// merge reads a range of a table in order: two layers of memory over the file,
// the first to show a key hiding the others. Removed keys are answered too,
// marked gone.
type merge[V any] struct {
	t       *table[V]
	falling bool
	layers  [2][]entry[V] // in reading order

	r          keyRange
	cursor     *bolt.Cursor
	key, value []byte // of the file's next entry, which is valid until then
}

func (m *merge[V]) start(tx *bolt.Tx, r keyRange) {
	m.r, m.cursor = r, tx.Bucket([]byte(m.t.name)).Cursor()
	switch {
	case !m.falling:
		m.key, m.value = m.cursor.Seek([]byte(r.lo))
	case r.hi == "":
		m.key, m.value = m.cursor.Last()
	default:
		if k, _ := m.cursor.Seek([]byte(r.hi)); k == nil {
			m.key, m.value = m.cursor.Last()
		} else {
			m.key, m.value = m.cursor.Prev()
		}
	}
}

func (m *merge[V]) step() {
	if m.falling {
		m.key, m.value = m.cursor.Prev()
	} else {
		m.key, m.value = m.cursor.Next()
	}
}

// before orders keys in reading order.
func (m *merge[V]) before(a, b string) bool {
	if m.falling {
		a, b = b, a
	}
	return strings.Compare(a, b) < 0
}

// next answers the range's next entry.
func (m *merge[V]) next() (e entry[V], ok bool, err error) {
	const file = len(m.layers)
	best, bestKey := -1, ""
	for i, l := range m.layers {
		if len(l) > 0 && (best < 0 || m.before(l[0].key, bestKey)) {
			best, bestKey = i, l[0].key
		}
	}
	stored := ""
	if m.key != nil {
		stored = string(m.key)
		if best < 0 || m.before(stored, bestKey) {
			best, bestKey = file, stored
		}
	}
	if best < 0 || !m.r.has(bestKey) {
		return e, false, nil
	}
	if best == file {
		v, err := m.t.open(m.key, m.value)
		if err != nil {
			return e, false, err
		}
		m.step()
		return entry[V]{key: stored, value: v}, true, nil
	}
	e = m.layers[best][0]
	for i, l := range m.layers {
		if len(l) > 0 && l[0].key == bestKey {
			m.layers[i] = l[1:]
		}
	}
	if m.key != nil && stored == bestKey {
		m.step()
	}
	return e, true, nil
}
