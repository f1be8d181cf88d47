package table

import (
	"context"
	"math"

	bolt "go.etcd.io/bbolt"
)

// Row is a key of a table with its value.
type Row[V any] struct {
	Key   string
	Value V
}

// Slot remembers what the row cache held for a key at some moment.
type Slot[V any] struct{ before *cached[V] }

// Slot is what the row cache holds for the key now.
func (t *Table[V]) Slot(key string) Slot[V] { return Slot[V]{t.cache.at(key)} }

// Get finds the newest value of a key.
func (t *Table[V]) Get(key string) (V, bool, error) {
	return t.GetUnchanged(key, t.Slot(key), math.MaxUint64)
}

// GetUnchanged is Get of a key that had no change with a stamp above the given
// one when slot was taken. Where the file holds all changes up to that stamp it
// does not wait for the lock.
func (t *Table[V]) GetUnchanged(key string, slot Slot[V], stamp uint64) (v V, ok bool, err error) {
	if row := t.cache.at(key); row != nil && row.key == key {
		return row.value, !row.gone, nil
	}
	var tx *bolt.Tx
	if stamp <= t.db.written.Load() {
		tx, err = t.db.file.Begin()
	} else {
		var known bool
		t.db.RLock()
		if v, ok, known = t.recall(key); !known {
			tx, err = t.db.file.Begin() // under the lock: the file's state fits the rows in memory
		}
		t.db.RUnlock()
		if known {
			return v, ok, nil
		}
	}
	if err != nil {
		return v, false, t.db.Failed(err)
	}
	defer t.db.file.End(tx)
	err = t.db.file.Guard(func() error {
		v, ok, err = t.fetch(tx, key)
		return err
	})
	if err != nil {
		return v, false, t.db.Failed(err)
	}
	if ok {
		t.cache.addIfUnchanged(slot.before, key, v)
	}
	return v, ok, nil
}

// GetAll finds the newest values of several keys at one moment or later. A
// missing key is a *DamagedError: the keys come from other tables that are
// changed together with this one.
func (t *Table[V]) GetAll(keys []string) ([]V, error) {
	out := make([]V, len(keys))
	var absent []int
	t.db.RLock()
	for i, key := range keys {
		if row := t.cache.at(key); row != nil && row.key == key && !row.gone {
			out[i] = row.value
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
		t.db.RUnlock()
		return out, nil
	}
	tx, err := t.db.file.Begin()
	t.db.RUnlock()
	if err != nil {
		return nil, t.db.Failed(err)
	}
	defer t.db.file.End(tx)
	err = t.db.file.Guard(func() error {
		for _, i := range absent {
			v, ok, err := t.fetch(tx, keys[i])
			if err != nil {
				return err
			}
			if !ok {
				return Damage("table %s lacks a key that other tables list", t.name)
			}
			out[i] = v
		}
		return nil
	})
	if err != nil {
		return nil, t.db.Failed(err)
	}
	return out, nil
}

// MaxWindow is how many keys should be read in one snapshot at most, so that
// long scans neither keep the file from reusing its space nor miss that their
// context ended.
const MaxWindow = 1024

// Window reads the first n keys of a range at one moment, in ascending or
// descending order. rest is the part of the range that was not read, nil when
// there is none. Fewer than n rows do not mean that the range is exhausted.
func (t *Table[V]) Window(ctx context.Context, r Range, descending bool, n int) (rows []Row[V], rest *Range, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	t.db.RLock()
	active, activeCut := t.active.copyRange(r, descending, n)
	sealed, sealedCut := t.sealed.copyRange(r, descending, n)
	tx, err := t.db.file.Begin()
	t.db.RUnlock()
	if err != nil {
		return nil, nil, t.db.Failed(err)
	}
	defer t.db.file.End(tx)

	// What lies beyond the end of a layer that was cut is not known.
	seen := r
	if activeCut {
		seen = seen.endAfter(active[len(active)-1].key, descending)
	}
	if sealedCut {
		seen = seen.endAfter(sealed[len(sealed)-1].key, descending)
	}
	err = t.db.file.Guard(func() error {
		m := merge[V]{t: t, descending: descending, layers: [2][]change[V]{active, sealed}}
		m.start(tx, seen)
		for i := 0; ; i++ {
			next, ok, err := m.next()
			if err != nil || !ok {
				return err
			}
			if i == n {
				seen = seen.endBefore(next.key, descending)
				return nil
			}
			if !next.deleted {
				rows = append(rows, Row[V]{next.key, next.value})
			}
		}
	})
	if err != nil {
		return nil, nil, t.db.Failed(err)
	}
	return rows, seen.restOf(r, descending), nil
}

// First reads the first n rows of a range, or all if there are fewer, in
// ascending or descending order, in as many windows as it takes. They grow, so
// that many deleted rows are soon stepped over.
func (t *Table[V]) First(ctx context.Context, r Range, descending bool, n int) ([]Row[V], error) {
	var all []Row[V]
	rest, size := &r, n
	for rest != nil && len(all) < n {
		size = min(size, MaxWindow)
		rows, next, err := t.Window(ctx, *rest, descending, size)
		if err != nil {
			return nil, err
		}
		all, rest, size = append(all, rows...), next, 2*size
	}
	return all[:min(n, len(all))], nil
}

// Each calls fn for the first rows of a range, up to limit, in ascending order, until fn returns an
// error, which it returns. No lock is held while fn runs.
func (t *Table[V]) Each(ctx context.Context, r Range, limit int, fn func(key string, value V) error) error {
	for rest := &r; rest != nil && limit > 0; {
		rows, next, err := t.Window(ctx, *rest, false, min(limit, MaxWindow))
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := fn(row.Key, row.Value); err != nil {
				return err
			}
		}
		limit, rest = limit-len(rows), next
	}
	return nil
}
