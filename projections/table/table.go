package table

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore/values"
)

// Table is an ordered map from keys to values of one type, kept in a bucket of
// its DB's file and in memory. A value must not be modified once it was set or
// read.
//
// Insert, Replace and Delete are called with the DB locked, by one goroutine.
// The caller knows whether the table holds the key. So a key that is inserted
// and deleted between two writes of the file never reaches it.
type Table[V any] struct {
	// FillPercent is how full bbolt makes a page before it splits it: 0.9 unless
	// set, for keys that rise with time.
	FillPercent float64

	db     *DB
	name   string
	sums   checksums
	append func([]byte, V) []byte  // appends the value's bytes
	parse  func([]byte) (V, error) // keeps nothing of its argument

	active *memtable[V]
	sealed *memtable[V] // being written to the file; nil: nothing is
	cache  *rowCache[V]
}

// New adds a table to the DB, which must not be open yet.
func New[V any](db *DB, name string, appendTo func([]byte, V) []byte, parse func([]byte) (V, error)) *Table[V] {
	t := &Table[V]{
		FillPercent: 0.9, db: db, name: name, sums: checksumsOf(name), append: appendTo, parse: parse, active: new(memtable[V]),
	}
	db.tables = append(db.tables, t)
	return t
}

// OfStructs is New for values in the form of values.Structs.
func OfStructs[T any](db *DB, name string) *Table[*T] {
	return New(
		db, name,
		func(b []byte, v *T) []byte { return new(values.Structs).Append(b, v) },
		func(b []byte) (*T, error) {
			v := new(T)
			return v, new(values.Structs).Parse(b, v)
		},
	)
}

// OfValues is OfStructs for small values, which are no pointers.
func OfValues[T any](db *DB, name string) *Table[T] {
	return New(
		db, name,
		func(b []byte, v T) []byte { return new(values.Structs).Append(b, &v) },
		func(b []byte) (v T, err error) {
			err = new(values.Structs).Parse(b, &v)
			return v, err
		},
	)
}

// Cache keeps up to n decoded values in memory, where Get and GetAll find them
// without the lock. It is called before the DB is opened.
func (t *Table[V]) Cache(n int) { t.cache = newRowCache[V](n) }

// Insert sets a key that the table does not hold.
func (t *Table[V]) Insert(key string, v V) {
	t.cache.set(cached[V]{key: key, value: v})
	c := &cell[V]{value: v, own: true}
	if before, ok := t.active.cells.Set(key, c); ok {
		c.own = before.own
	}
}

// Replace sets a key that the table holds.
func (t *Table[V]) Replace(key string, v V) {
	t.cache.set(cached[V]{key: key, value: v})
	c := &cell[V]{value: v}
	if before, ok := t.active.cells.Set(key, c); ok {
		c.own = before.own
	}
}

// Delete takes out a key that the table holds.
func (t *Table[V]) Delete(key string) {
	t.cache.set(cached[V]{key: key, gone: true})
	c := t.active.at(key)
	switch {
	case c == nil:
		t.active.cells.Set(key, &cell[V]{deleted: true})
	case c.own:
		t.active.cells.Delete(key)
	default:
		var none V
		c.value, c.deleted = none, true
	}
}

// recall looks a key up in memory; known reports that the file need not be read. The DB is locked.
func (t *Table[V]) recall(key string) (v V, ok, known bool) {
	c := t.active.at(key)
	if c == nil {
		c = t.sealed.at(key)
	}
	if c == nil {
		return v, false, false
	}
	return c.value, !c.deleted, true
}

// fetch looks a key up in the file only.
func (t *Table[V]) fetch(tx *bolt.Tx, key string) (v V, ok bool, err error) {
	raw := tx.Bucket([]byte(t.name)).Get([]byte(key))
	if raw == nil {
		return v, false, nil
	}
	v, err = t.open([]byte(key), raw)
	return v, err == nil, err
}

// open checks and parses a stored value.
func (t *Table[V]) open(key, raw []byte) (v V, err error) {
	body, err := t.sums.open(t.name, key, raw)
	if err != nil {
		return v, err
	}
	if v, err = t.parse(body); err != nil {
		return v, Damage("table %s, key %x: %v", t.name, key, err)
	}
	return v, nil
}

// layers is a table of any type of value, as its DB sees it.
type layers interface {
	bucket() string
	pending() int
	seal()
	write(*bolt.Tx) error
	drop()
}

func (t *Table[V]) bucket() string { return t.name }

func (t *Table[V]) pending() int { return t.active.size() }

func (t *Table[V]) seal() { t.sealed, t.active = t.active, new(memtable[V]) }

func (t *Table[V]) drop() { t.sealed = nil }

// blockSize is the size of one allocation for values.
const blockSize = 64 << 10

// write stores the sealed rows. It may be repeated.
func (t *Table[V]) write(tx *bolt.Tx) error {
	b := tx.Bucket([]byte(t.name))
	b.FillPercent = t.FillPercent
	// bbolt keeps the value's slice until the transaction ends, but not the key's.
	var block, buf []byte
	return t.sealed.each(func(key string, c *cell[V]) error {
		buf = append(buf[:0], key...)
		if c.deleted {
			return b.Delete(buf)
		}
		if cap(block)-len(block) < blockSize/8 {
			block = make([]byte, 0, blockSize)
		}
		start := len(block)
		block = t.append(block, c.value)
		block = binary.BigEndian.AppendUint32(block, t.sums.of(buf, block[start:]))
		return b.Put(buf, block[start:len(block):len(block)])
	})
}
