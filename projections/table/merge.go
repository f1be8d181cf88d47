package table

import (
	"strings"

	bolt "go.etcd.io/bbolt"
)

// merge reads a range of a table in order: two layers of memory over the file.
// The first layer to show a key hides the others. Deleted keys are answered
// too, marked as such.
type merge[V any] struct {
	t          *Table[V]
	descending bool
	layers     [2][]change[V] // newest first, each in reading order

	r          Range
	cursor     *bolt.Cursor
	key, value []byte // of the file's next row; valid until the cursor moves
}

func (m *merge[V]) start(tx *bolt.Tx, r Range) {
	m.r, m.cursor = r, tx.Bucket([]byte(m.t.name)).Cursor()
	switch {
	case !m.descending:
		m.key, m.value = m.cursor.Seek([]byte(r.Lo))
	case r.Hi == "":
		m.key, m.value = m.cursor.Last()
	default:
		if k, _ := m.cursor.Seek([]byte(r.Hi)); k == nil {
			m.key, m.value = m.cursor.Last()
		} else {
			m.key, m.value = m.cursor.Prev()
		}
	}
}

func (m *merge[V]) step() {
	if m.descending {
		m.key, m.value = m.cursor.Prev()
	} else {
		m.key, m.value = m.cursor.Next()
	}
}

// before orders keys in reading order.
func (m *merge[V]) before(a, b string) bool {
	if m.descending {
		a, b = b, a
	}
	return strings.Compare(a, b) < 0
}

// next returns the range's next change.
func (m *merge[V]) next() (c change[V], ok bool, err error) {
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
		return c, false, nil
	}
	if best == file {
		c.key = stored
		if c.value, err = m.t.open(m.key, m.value); err != nil {
			return c, false, err
		}
		m.step()
		return c, true, nil
	}
	c = m.layers[best][0]
	for i, l := range m.layers {
		if len(l) > 0 && l[0].key == bestKey {
			m.layers[i] = l[1:]
		}
	}
	if m.key != nil && stored == bestKey {
		m.step()
	}
	return c, true, nil
}
