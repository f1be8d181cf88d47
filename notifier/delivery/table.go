package delivery

import (
	"strings"

	"github.com/tidwall/btree"
	bbolt "go.etcd.io/bbolt"
)

// table is one of the file's tables as a transaction sees it: its rows in memory,
// the youngest first, above those in their places. What it answers must not be
// changed, and is valid until the transaction ends.
type table struct {
	name   byte
	bucket *bbolt.Bucket
	above  []*rows
}

// Get answers the value of a row, nil if there is none.
func (t table) Get(key []byte) []byte {
	row := t.row(key)
	for _, r := range t.above {
		if v, ok := r.Get(row); ok {
			return v
		}
	}
	return t.bucket.Get(key)
}

// Put keeps the value, which must not be changed any more. It and Delete are for
// the writer.
func (t table) Put(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t.above[0].Set(t.row(key), value)
}

// Delete deletes a row if there is one.
func (t table) Delete(key []byte) { t.above[0].Set(t.row(key), nil) }

func (t table) row(key []byte) string {
	var room [64]byte
	return string(append(append(room[:0], t.name), key...))
}

// walk goes through a table's rows in the order of their keys.
type walk struct {
	heads []head // where it is at each level, the youngest first
	back  bool
}

// head is where a walk is in the rows of one level.
type head struct {
	key   string
	value []byte // nil: deleted
	step  func() (key string, value []byte, ok bool)
}

// from walks from a key on.
func (t table) from(key []byte) *walk {
	w := new(walk)
	for _, r := range t.above {
		at := r.Iter()
		w.add(t.inMemory(&at, at.Seek(t.row(key)), at.Next))
	}
	c := t.bucket.Cursor()
	k, v := c.Seek(key)
	w.add(inPlace(k, v, c.Next))
	return w
}

// below walks down from the last row before a key.
func (t table) below(key []byte) *walk {
	w := &walk{back: true}
	for _, r := range t.above {
		at := r.Iter()
		ok := at.Seek(t.row(key))
		if ok {
			ok = at.Prev()
		} else {
			ok = at.Last()
		}
		w.add(t.inMemory(&at, ok, at.Prev))
	}
	c := t.bucket.Cursor()
	before := c.Prev
	if k, _ := c.Seek(key); k == nil {
		before = c.Last
	}
	k, v := before()
	w.add(inPlace(k, v, c.Prev))
	return w
}

// inMemory answers the steps through rows in memory, which are those of all
// tables.
func (t table) inMemory(at *btree.MapIter[string, []byte], ok bool, move func() bool) func() (string, []byte, bool) {
	first := true
	return func() (string, []byte, bool) {
		if !first {
			ok = move()
		}
		first = false
		if !ok || at.Key()[0] != t.name {
			return "", nil, false
		}
		return at.Key()[1:], at.Value(), true
	}
}

// inPlace answers the steps through rows in their places.
func inPlace(k, v []byte, move func() ([]byte, []byte)) func() (string, []byte, bool) {
	first := true
	return func() (string, []byte, bool) {
		if !first {
			k, v = move()
		}
		first = false
		if v == nil {
			v = []byte{}
		}
		return string(k), v, k != nil
	}
}

// add begins at the first step.
func (w *walk) add(step func() (string, []byte, bool)) {
	if k, v, ok := step(); ok {
		w.heads = append(w.heads, head{k, v, step})
	}
}

// next answers the next row; a nil key is the end.
func (w *walk) next() (key, value []byte) {
	for len(w.heads) > 0 {
		first := w.heads[0]
		for _, h := range w.heads[1:] {
			if n := strings.Compare(h.key, first.key); n < 0 && !w.back || n > 0 && w.back {
				first = h
			}
		}
		w.pass(first.key)
		if first.value != nil {
			return []byte(first.key), first.value
		}
	}
	return nil, nil
}

// pass steps over a key at all levels.
func (w *walk) pass(key string) {
	left := w.heads[:0]
	for _, h := range w.heads {
		ok := true
		if h.key == key {
			h.key, h.value, ok = h.step()
		}
		if ok {
			left = append(left, h)
		}
	}
	w.heads = left
}
