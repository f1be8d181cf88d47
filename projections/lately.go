package projections

import (
	"hash/maphash"
	"sync/atomic"
)

// latelyRows is how many decoded rows are kept, some 20 MB of payments.
const latelyRows = 1 << 14

// lately keeps the values of some keys as they are now: those that were changed
// or read lately. Each key has one place, which the last one to come takes. It
// is read without a lock: a value is there before the views' position says so.
//
// What it holds is never older than all layers of the table together: whoever
// changes a key sets it, and whoever has read one in the file keeps what was
// found only if nothing has come to its place since before it was made sure that
// the file holds the newest.
type lately[V any] struct {
	seed   maphash.Seed
	places []atomic.Pointer[entry[V]]
}

func newLately[V any](n int) *lately[V] {
	return &lately[V]{maphash.MakeSeed(), make([]atomic.Pointer[entry[V]], n)}
}

func (l *lately[V]) place(key string) *atomic.Pointer[entry[V]] {
	return &l.places[maphash.String(l.seed, key)%uint64(len(l.places))]
}

func (l *lately[V]) at(key string) *entry[V] {
	if e := l.stands(key); e != nil && e.key == key {
		return e
	}
	return nil
}

// stands is what is at the key's place, be it of another one.
func (l *lately[V]) stands(key string) *entry[V] {
	if l == nil {
		return nil
	}
	return l.place(key).Load()
}

// set is for who changes the key. Engine.mu is held for writing.
func (l *lately[V]) set(e entry[V]) {
	if l != nil {
		l.place(e.key).Store(&e)
	}
}

// keep is for who has read the key in the file: before says what stood at its
// place before it was made sure that nothing newer is in memory. The key's own
// is newer.
func (l *lately[V]) keep(before *entry[V], key string, v V) {
	if l != nil && (before == nil || before.key != key) {
		l.place(key).CompareAndSwap(before, &entry[V]{key: key, value: v})
	}
}
