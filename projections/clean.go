package projections

import (
	"hash/maphash"
	"sync/atomic"
)

// cleanRows is how many decoded rows are kept, some 20 MB of payments.
const cleanRows = 1 << 14

// clean keeps some values as the file holds them, decoded. Each key has one
// place, which the last one to come takes.
//
// What it holds is never older than the file and the layers above show: flushes
// set their keys while Engine.mu is held for writing, reads add what they
// found only if no flush has ended since their snapshot of the file.
type clean[V any] struct {
	seed   maphash.Seed
	places []atomic.Pointer[entry[V]]
}

func newClean[V any](n int) *clean[V] {
	return &clean[V]{maphash.MakeSeed(), make([]atomic.Pointer[entry[V]], n)}
}

func (c *clean[V]) place(key string) *atomic.Pointer[entry[V]] {
	return &c.places[maphash.String(c.seed, key)%uint64(len(c.places))]
}

func (c *clean[V]) at(key string) *entry[V] {
	if c == nil {
		return nil
	}
	if e := c.place(key).Load(); e != nil && e.key == key {
		return e
	}
	return nil
}

func (c *clean[V]) set(e entry[V]) {
	if c != nil {
		c.place(e.key).Store(&e)
	}
}
