package views

import "payledger/projections/table"

// counters are rows that add up what many events bring: few of them, and changed often.
type counters[V any] struct {
	*table.Table[*V]
	entries []counterEntry[V] // what the event at hand leads to
}

type counterEntry[V any] struct {
	key  string
	row  *V
	made bool // there was no row before
}

func newCounters[V any](db *table.DB, name string) counters[V] {
	t := table.OfStructs[V](db, name)
	t.Cache(1 << 10)
	return counters[V]{Table: t}
}

// row is that of a key, to be changed by the event at hand.
func (v *counters[V]) row(key string) (*V, error) {
	for _, e := range v.entries {
		if e.key == key {
			return e.row, nil
		}
	}
	row, found, err := v.Get(key)
	if err != nil {
		return nil, err
	}
	next := new(V)
	if found {
		*next = *row
	}
	v.entries = append(v.entries, counterEntry[V]{key, next, !found})
	return next, nil
}

func (v *counters[V]) fold(*change) {
	for _, e := range v.entries {
		if e.made {
			v.Insert(e.key, e.row)
		} else {
			v.Replace(e.key, e.row)
		}
	}
	v.entries = v.entries[:0]
}
