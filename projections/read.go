package projections

import (
	"context"
	"math"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// lookup finds a key: among those used lately, else in memory, else in a
// snapshot of the file that was taken while memory was looked at.
func lookup[V any](e *Engine, t *table[V], key string) (V, bool, error) {
	stood := t.lately.stands(key)
	if stood != nil && stood.key == key {
		return stood.value, !stood.gone, nil
	}
	return lookupSince(e, t, key, stood, math.MaxUint64)
}

// lookupSince is lookup of a key that no event after the position had changed
// when stood was what stood at its place among those used lately. Where the file
// stands for that position, it need not wait to look at memory.
func lookupSince[V any](e *Engine, t *table[V], key string, stood *entry[V], changed eventstore.Position) (v V, ok bool, err error) {
	var tx *bolt.Tx
	if uint64(changed) <= e.written.Load() {
		tx, err = e.db.Begin()
	} else {
		var known bool
		e.mu.RLock()
		if v, ok, known = t.recall(key); !known {
			tx, err = e.db.Begin()
		}
		e.mu.RUnlock()
		if known {
			return v, ok, nil
		}
	}
	if err != nil {
		return v, false, e.damaged(closed(err))
	}
	defer e.db.End(tx)
	err = boltfile.Guard(func() error {
		v, ok, err = t.fetch(tx, key)
		return err
	})
	if err != nil {
		return v, false, e.damaged(err)
	}
	if ok {
		t.lately.keep(stood, key, v)
	}
	return v, ok, nil
}

// lookupAll finds several keys at one moment. A missing one is a damage: the
// keys come from other views.
func lookupAll[V any](e *Engine, t *table[V], keys []string) ([]V, error) {
	out := make([]V, len(keys))
	var absent []int
	e.settled()
	e.mu.RLock()
	for i, key := range keys {
		if at := t.lately.at(key); at != nil && !at.gone {
			out[i] = at.value
			continue
		}
		v, ok, known := t.recall(key)
		if !known || !ok {
			absent = append(absent, i)
			continue
		}
		out[i] = v
	}
	if len(absent) == 0 {
		e.mu.RUnlock()
		return out, nil
	}
	tx, err := e.db.Begin()
	e.mu.RUnlock()
	if err != nil {
		return nil, e.damaged(closed(err))
	}
	defer e.db.End(tx)
	err = boltfile.Guard(func() error {
		for _, i := range absent {
			v, ok, err := t.fetch(tx, keys[i])
			if err != nil {
				return err
			}
			if !ok {
				return &damage{Reason: "view " + t.name + " misses what other views list"}
			}
			out[i] = v
		}
		return nil
	})
	if err != nil {
		return nil, e.damaged(err)
	}
	return out, nil
}

// maxWindow is how many keys are looked at in one snapshot: long scans neither
// keep the file from being tidied nor miss that their context ended.
const maxWindow = 1024

// window reads the first n keys of a range at one moment, in rising or falling
// order. rest is what of the range was not looked at, nil when that is
// nothing. Fewer than n entries do not mean that the range is exhausted.
func window[V any](
	ctx context.Context, e *Engine, t *table[V], r keyRange, falling bool, n int,
) (found []entry[V], rest *keyRange, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	e.settled()
	e.mu.RLock()
	dirty, cutDirty := t.dirty.copyRange(r, falling, n)
	flushing, cutFlushing := t.flushing.copyRange(r, falling, n)
	tx, err := e.db.Begin()
	e.mu.RUnlock()
	if err != nil {
		return nil, nil, e.damaged(closed(err))
	}
	defer e.db.End(tx)

	// A layer that was cut says nothing about what lies beyond its end.
	seen := r
	for _, layer := range []struct {
		copied []entry[V]
		cut    bool
	}{{dirty, cutDirty}, {flushing, cutFlushing}} {
		if layer.cut {
			seen = seen.endAfter(layer.copied[len(layer.copied)-1].key, falling)
		}
	}
	err = boltfile.Guard(func() error {
		m := merge[V]{t: t, falling: falling, layers: [2][]entry[V]{dirty, flushing}}
		m.start(tx, seen)
		for i := 0; ; i++ {
			next, ok, err := m.next()
			if err != nil || !ok {
				return err
			}
			if i == n {
				seen = seen.endBefore(next.key, falling)
				return nil
			}
			if !next.gone {
				found = append(found, next)
			}
		}
	})
	if err != nil {
		return nil, nil, e.damaged(err)
	}
	return found, seen.restOf(r, falling), nil
}
