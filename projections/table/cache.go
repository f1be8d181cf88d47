package table

import (
	"hash/maphash"
	"sync/atomic"
)

// cached is a key's value in a row cache; gone means that the table does not
// hold the key.
type cached[V any] struct {
	key   string
	value V
	gone  bool
}

// rowCache keeps decoded values of keys that were changed or read not long ago. Each key has one
// slot, which it shares with others: the last one that is set replaces the one before. It is read
// without a lock. A nil *rowCache keeps nothing.
//
// A value in it is never older than all layers of the table together: every change sets it, and a
// reader adds what it found in the file only if the slot has not changed since before the reader
// found that the file has the newest value.
type rowCache[V any] struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cached[V]]
}

func newRowCache[V any](n int) *rowCache[V] {
	return &rowCache[V]{maphash.MakeSeed(), make([]atomic.Pointer[cached[V]], n)}
}

func (c *rowCache[V]) slot(key string) *atomic.Pointer[cached[V]] {
	return &c.slots[maphash.String(c.seed, key)%uint64(len(c.slots))]
}

// at is what the key's slot holds, maybe of another key.
func (c *rowCache[V]) at(key string) *cached[V] {
	if c == nil {
		return nil
	}
	return c.slot(key).Load()
}

// set is for a change of the key, under the DB's lock.
func (c *rowCache[V]) set(row cached[V]) {
	if c != nil {
		kept := row // &row would be an allocation also without a cache
		c.slot(row.key).Store(&kept)
	}
}

// addIfUnchanged is for a reader that found the value in the file: before is
// what the slot held before the file was known to hold the newest value. If it
// is the key's own, it is newer than the file.
func (c *rowCache[V]) addIfUnchanged(before *cached[V], key string, v V) {
	if c != nil && (before == nil || before.key != key) {
		c.slot(key).CompareAndSwap(before, &cached[V]{key: key, value: v})
	}
}
