package projections

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// table is one view's ordered keys in three layers: what was folded since the
// last flush, what a flush is writing, and the bucket of the file. Engine.mu
// guards the two layers in memory; a value, once set, is never changed. Some
// tables also keep the newest values that were used lately at hand.
//
// Folds change a table through insert, put and remove, which say what is
// there before: that way a key that comes and goes between two flushes never
// reaches the file.
type table[V any] struct {
	name   string
	sums   checksums
	append func([]byte, V) ([]byte, error) // appends the value's bytes
	parse  func([]byte) (V, error)         // keeps nothing of its argument
	fill   float64                         // of a page's space before it is split

	dirty    *sorted[V]
	flushing *sorted[V]
	lately   *lately[V] // nil: nothing is kept
}

// newTable is a table whose keys rise with time, as most do.
func newTable[V any](name string, appendTo func([]byte, V) ([]byte, error), parse func([]byte) (V, error)) table[V] {
	return table[V]{name: name, sums: checksumsOf(name), append: appendTo, parse: parse, fill: 0.9, dirty: new(sorted[V])}
}

// insert sets a key that the table does not hold.
func (t *table[V]) insert(key string, v V) {
	e, made := t.dirty.place(key)
	e.value, e.gone, e.fresh = v, false, e.fresh || made
	t.lately.set(entry[V]{key: key, value: v})
}

// put replaces the value of a key that the table holds.
func (t *table[V]) put(key string, v V) {
	e, _ := t.dirty.place(key)
	e.value = v
	t.lately.set(entry[V]{key: key, value: v})
}

// remove takes out a key that the table holds.
func (t *table[V]) remove(key string) {
	t.lately.set(entry[V]{key: key, gone: true})
	e, _ := t.dirty.place(key)
	if e.fresh {
		t.dirty.drop(key)
		return
	}
	var none V
	e.value, e.gone = none, true
}

// recall looks a key up in the layers in memory; known reports that the file
// need not be asked.
func (t *table[V]) recall(key string) (v V, ok, known bool) {
	e := t.dirty.at(key)
	if e == nil {
		e = t.flushing.at(key)
	}
	if e == nil {
		return v, false, false
	}
	return e.value, !e.gone, true
}

// fetch looks a key up in the file.
func (t *table[V]) fetch(tx *bolt.Tx, key string) (v V, ok bool, err error) {
	raw := tx.Bucket([]byte(t.name)).Get([]byte(key))
	if raw == nil {
		return v, false, nil
	}
	v, err = t.open([]byte(key), raw)
	return v, err == nil, err
}

// open checks and parses a stored value.
func (t *table[V]) open(key, raw []byte) (v V, err error) {
	body, err := t.sums.unseal(t.name, key, raw)
	if err != nil {
		return v, err
	}
	if v, err = t.parse(body); err != nil {
		return v, &damage{Reason: fmt.Sprintf("view %s, key %x: %v", t.name, key, err)}
	}
	return v, nil
}

// tableLayers is what the engine does with every table, whatever its values.
type tableLayers interface {
	bucket() string
	pending() int // entries not yet handed to a flush
	freeze()
	thaw()
	write(*bolt.Tx) error
}

func (t *table[V]) bucket() string { return t.name }

func (t *table[V]) pending() int { return t.dirty.size }

// freeze hands what was folded to a flush; thaw forgets it once it is in the
// file.
func (t *table[V]) freeze() { t.flushing, t.dirty = t.dirty, new(sorted[V]) }

func (t *table[V]) thaw() { t.flushing = nil }

// blockSize is how much room for values is made at once.
const blockSize = 64 << 10

// write stores the frozen layer. It may be repeated.
func (t *table[V]) write(tx *bolt.Tx) error {
	b := tx.Bucket([]byte(t.name))
	b.FillPercent = t.fill
	// bolt keeps the value's slice until the transaction ends, but not the key's.
	var block, key []byte
	return t.flushing.each(func(e *entry[V]) (err error) {
		key = append(key[:0], e.key...)
		if e.gone {
			return b.Delete(key)
		}
		if cap(block)-len(block) < blockSize/8 {
			block = make([]byte, 0, blockSize)
		}
		start := len(block)
		if block, err = t.append(block, e.value); err != nil {
			return fmt.Errorf("view %s, key %x: %w", t.name, key, err)
		}
		body := binary.BigEndian.AppendUint32(block, t.sums.of(key, block[start:]))
		block = body
		return b.Put(key, body[start:len(body):len(body)])
	})
}
