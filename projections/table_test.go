package projections

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

// TestTableAgainstAMap drives one table through all its layers and compares
// every way of reading it with a map.
func TestTableAgainstAMap(t *testing.T) {
	t.Parallel()
	w := seeded(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		e := open(t, w.config(t.TempDir()))
		defer e.Close()
		tab := &e.due.table
		tab.lately = newLately[string](4)
		model := make(map[string]string)
		key := rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprintf("%0*d", rapid.IntRange(1, 3).Draw(rt, "width"), rapid.IntRange(0, 40).Draw(rt, "key"))
		})
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "n") {
					k, v := key.Draw(rt, "key"), rapid.StringN(0, 3, 3).Draw(rt, "value")
					if _, ok := model[k]; ok {
						tab.put(k, v)
					} else {
						tab.insert(k, v)
					}
					model[k] = v
				}
			},
			"remove": func(rt *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(rt, "n") {
					if k := key.Draw(rt, "key"); has(model, k) {
						tab.remove(k)
						delete(model, k)
					}
				}
			},
			"freeze": func(rt *rapid.T) {
				if tab.flushing == nil {
					tab.freeze()
				}
			},
			"write": func(rt *rapid.T) { // a flush may have reached the file and yet not be known to
				must(t, e.db.Update(tab.write))
			},
			"thaw": func(rt *rapid.T) {
				must(t, e.db.Update(tab.write))
				tab.thaw()
			},
			"": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				if v, ok, err := lookup(e, tab, k); err != nil || v != model[k] || ok != has(model, k) {
					rt.Fatalf("key %q: got %q, %v, %v, want %q", k, v, ok, err, model[k])
				}
				r := keyRange{key.Draw(rt, "lo"), rapid.OneOf(rapid.Just(""), key).Draw(rt, "hi")}
				falling := rapid.Bool().Draw(rt, "falling")
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if r.has(k) {
						want = append(want, k+"="+model[k])
					}
				}
				if falling {
					slices.Reverse(want)
				}
				var got []string
				for rest := &r; rest != nil; {
					var found []entry[string]
					var err error
					found, rest, err = window(t.Context(), e, tab, *rest, falling, rapid.IntRange(1, 9).Draw(rt, "window"))
					must(t, err)
					for _, f := range found {
						got = append(got, f.key+"="+f.value)
					}
				}
				if !slices.Equal(got, want) {
					rt.Fatalf("range %q, falling %v:\n got %q\nwant %q", r, falling, got, want)
				}
			},
		})
	})
}

func has(m map[string]string, k string) bool { _, ok := m[k]; return ok }

// TestSortedRunsStayBounded fills a layer in several orders.
func TestSortedRunsStayBounded(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, at := range map[string]func(i int) int{
		"rising":   func(i int) int { return i },
		"falling":  func(i int) int { return n - i },
		"shuffled": func(i int) int { return i * 7919 % n },
	} {
		var s sorted[int]
		for i := range n {
			e, made := s.place(fmt.Sprintf("%08d", at(i)))
			if !made {
				t.Fatalf("%s: %s is there", name, e.key)
			}
			e.value = i
		}
		if s.size != n || len(s.runs) > 3*n/maxRun {
			t.Errorf("%s: %d entries in %d runs", name, s.size, len(s.runs))
		}
		all, cut := s.copyRange(keyRange{}, false, n)
		if len(all) != n || cut || !slices.IsSortedFunc(all, func(a, b entry[int]) int { return strings.Compare(a.key, b.key) }) {
			t.Errorf("%s: %d entries, cut %v, not in order", name, len(all), cut)
		}
		for i := range n {
			s.drop(fmt.Sprintf("%08d", at(i)))
		}
		if s.size != 0 || len(s.runs) != 0 {
			t.Errorf("%s: %d entries in %d runs left", name, s.size, len(s.runs))
		}
	}
}

func TestIDRanges(t *testing.T) {
	t.Parallel()
	w := seeded(t, 1)
	id := w.ids.Next()
	at := domain.IDTime(id)
	for _, c := range []struct {
		from, to domain.Instant
		before   domain.ID
		want     bool
	}{
		{0, 0, domain.ID{}, true},
		{at, 0, domain.ID{}, true},
		{at + 1, 0, domain.ID{}, false},
		{0, at, domain.ID{}, false},
		{0, at + 1, domain.ID{}, true},
		{0, 0, id, false},
		{at, at + 1, domain.ID{0xff}, true},
		{1 << 60, 0, domain.ID{}, false},
	} {
		if got := idsBetween(c.from, c.to, c.before).has(id); got != c.want {
			t.Errorf("%v: got %v", c, got)
		}
	}
	if r := prefixRange("a\xff\xff"); r.hi != "b" {
		t.Errorf("prefix: got %q", r.hi)
	}
	if r := prefixRange("\xff"); r.hi != "" {
		t.Errorf("prefix: got %q", r.hi)
	}
}
