package projections

import (
	"slices"
	"sort"
)

// entry is one key of a table in memory.
type entry[V any] struct {
	key   string
	value V
	gone  bool // the key was removed: hides it in the layers below
	fresh bool // no layer below shows the key: removing it leaves no trace
}

// keyRange is lo ≤ key < hi; an empty hi has no end.
type keyRange struct{ lo, hi string }

// maxRun bounds what an insertion moves.
const maxRun = 128

// sorted is an ordered map: runs of ordered entries, each of at most maxRun,
// one after the other. A nil *sorted is empty and can be read.
type sorted[V any] struct {
	runs [][]entry[V]
	size int
}

// find answers where key stands or belongs. Keys mostly rise with time, so the
// last run is looked at first.
func (s *sorted[V]) find(key string) (run, i int, ok bool) {
	last := len(s.runs) - 1
	if last < 0 {
		return 0, 0, false
	}
	run = last
	if s.runs[last][0].key > key {
		run = sort.Search(last, func(n int) bool {
			r := s.runs[n]
			return r[len(r)-1].key >= key
		})
	}
	r := s.runs[run]
	if r[len(r)-1].key < key {
		return run, len(r), false
	}
	i = sort.Search(len(r), func(n int) bool { return r[n].key >= key })
	return run, i, r[i].key == key
}

// at answers the entry of a key, nil if there is none. It is valid until the
// next change.
func (s *sorted[V]) at(key string) *entry[V] {
	if s == nil || s.size == 0 {
		return nil
	}
	run, i, ok := s.find(key)
	if !ok {
		return nil
	}
	return &s.runs[run][i]
}

// place answers the entry of a key, which is made if there is none. It is
// valid until the next change.
func (s *sorted[V]) place(key string) (e *entry[V], made bool) {
	run, i, ok := s.find(key)
	if ok {
		return &s.runs[run][i], false
	}
	s.size++
	if len(s.runs) == 0 {
		s.runs = append(s.runs, append(make([]entry[V], 0, maxRun), entry[V]{key: key}))
		return &s.runs[0][0], true
	}
	if len(s.runs[run]) == maxRun {
		// Where keys rise a full last run is kept full.
		half := maxRun / 2
		if run == len(s.runs)-1 && i == maxRun {
			half = maxRun
		}
		full := s.runs[run]
		next := append(make([]entry[V], 0, maxRun), full[half:]...)
		clear(full[half:])
		s.runs[run] = full[:half]
		s.runs = slices.Insert(s.runs, run+1, next)
		if i >= half {
			run, i = run+1, i-half
		}
	}
	s.runs[run] = slices.Insert(s.runs[run], i, entry[V]{key: key})
	return &s.runs[run][i], true
}

// drop takes a key out.
func (s *sorted[V]) drop(key string) {
	run, i, ok := s.find(key)
	if !ok {
		return
	}
	s.size--
	s.runs[run] = slices.Delete(s.runs[run], i, i+1)
	if len(s.runs[run]) == 0 {
		s.runs = slices.Delete(s.runs, run, run+1)
	}
}

// each calls fn for every entry in order until it answers an error.
func (s *sorted[V]) each(fn func(*entry[V]) error) error {
	if s == nil {
		return nil
	}
	for _, r := range s.runs {
		for i := range r {
			if err := fn(&r[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyRange copies the first n entries of a range, or the last n in falling
// order; cut reports that there may be more.
func (s *sorted[V]) copyRange(r keyRange, falling bool, n int) (out []entry[V], cut bool) {
	if s == nil || s.size == 0 {
		return nil, false
	}
	if falling {
		run := len(s.runs) - 1
		i := len(s.runs[run])
		if r.hi != "" {
			run, i, _ = s.find(r.hi)
		}
		for ; run >= 0; run-- {
			if i < 0 {
				i = len(s.runs[run])
			}
			for i--; i >= 0; i-- {
				e := s.runs[run][i]
				if e.key < r.lo {
					return out, false
				}
				if len(out) == n {
					return out, true
				}
				out = append(out, e)
			}
		}
		return out, false
	}
	run, i, _ := s.find(r.lo)
	for ; run < len(s.runs); run, i = run+1, 0 {
		for ; i < len(s.runs[run]); i++ {
			e := s.runs[run][i]
			if r.hi != "" && e.key >= r.hi {
				return out, false
			}
			if len(out) == n {
				return out, true
			}
			out = append(out, e)
		}
	}
	return out, false
}
