package table

import "github.com/tidwall/btree"

// cell is a key's newest change in a memtable.
type cell[V any] struct {
	value   V
	deleted bool // hides the key in the layers below
	own     bool // no layer below shows the key: deleting it leaves no trace
}

// memtable holds the newest changes of a table in the order of their keys. A
// nil *memtable is empty and can be read.
type memtable[V any] struct{ cells btree.Map[string, *cell[V]] }

func (m *memtable[V]) size() int {
	if m == nil {
		return 0
	}
	return m.cells.Len()
}

// at is the cell of a key, nil if there is none.
func (m *memtable[V]) at(key string) *cell[V] {
	if m == nil {
		return nil
	}
	c, _ := m.cells.Get(key)
	return c
}

// each calls fn for every cell in order until it returns an error.
func (m *memtable[V]) each(fn func(key string, c *cell[V]) error) (err error) {
	if m == nil {
		return nil
	}
	m.cells.Scan(func(key string, c *cell[V]) bool {
		err = fn(key, c)
		return err == nil
	})
	return err
}

// change is a copy of a cell with its key.
type change[V any] struct {
	key string
	cell[V]
}

// copyRange copies the first n changes of a range, or the last n in descending
// order; cut reports that there are more.
func (m *memtable[V]) copyRange(r Range, descending bool, n int) (out []change[V], cut bool) {
	if m.size() == 0 {
		return nil, false
	}
	take := func(key string, c *cell[V]) bool {
		switch {
		case descending && key == r.Hi: // the bound itself is where the descent begins
			return true
		case !r.has(key):
			return false
		case len(out) == n:
			cut = true
			return false
		}
		out = append(out, change[V]{key, *c})
		return true
	}
	switch {
	case !descending:
		m.cells.Ascend(r.Lo, take)
	case r.Hi == "":
		m.cells.Reverse(take)
	default:
		m.cells.Descend(r.Hi, take)
	}
	return out, cut
}
