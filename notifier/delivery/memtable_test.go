package delivery

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	bbolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"payledger/domain"
)

// done reports whether all rows are in their places, and the journal is empty.
func (m *memtable) done() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.young.Len()+m.old.Len() == 0 && m.oldest > m.last
}

// changeOp changes rows of some tables.
type changeOp func(x *tx)

func (o changeOp) apply(x *tx) error {
	o(x)
	return nil
}

// TestTables: whatever is put and deleted, in memory or in its place, after a
// crash or none, tables answer as maps would, in both directions; and rows do not
// stay in memory and in the journal for ever.
func TestTables(t *testing.T) {
	t.Parallel()
	some := []byte("0123456789")
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		w.memory = rapid.SampledFrom([]int{1, 500, 2000, enough}).Draw(r, "memory")
		must(r, w.open())
		want := [2]map[string]string{{}, {}}
		tablesOfTest := func(x tables) [2]table { return [2]table{x.due, x.pending} }
		key := rapid.Custom(func(r *rapid.T) string {
			return string([]byte{0, 0, 0, rapid.SampledFrom(some).Draw(r, "endpoint"), rapid.SampledFrom(some).Draw(r, "key")})
		})
		for range rapid.IntRange(1, 60).Draw(r, "transactions") {
			must(r, w.lanes.writer.commit([]*waiting{{op: changeOp(func(x *tx) {
				for range rapid.IntRange(0, 20).Draw(r, "rows") {
					n, k := rapid.IntRange(0, 1).Draw(r, "table"), key.Draw(r, "key")
					if rapid.Bool().Draw(r, "delete") {
						tablesOfTest(x.tables)[n].Delete([]byte(k))
						delete(want[n], k)
						continue
					}
					v := rapid.SampledFrom([]string{"", "a value", "another"}).Draw(r, "value")
					tablesOfTest(x.tables)[n].Put([]byte(k), []byte(v))
					want[n][k] = v
				}
				compare(r, key, tablesOfTest(x.tables), want)
			})}}))
			if rapid.IntRange(0, 9).Draw(r, "end") == 0 {
				path := filepath.Join(w.dir, domain.ID(newEpoch()).String())
				must(r, errors.Join(w.copyTo(path), w.lanes.Close()))
				w.path = path
				must(r, errors.Join(writeMark(w.config().Mark, w.epoch(r, path)), w.open()))
			}
			must(r, w.lanes.view(func(x tables) error {
				compare(r, key, tablesOfTest(x), want)
				return nil
			}))
		}
		for n := 0; w.memory < enough && n < 1000; n++ {
			must(r, w.lanes.writer.commit([]*waiting{{op: changeOp(func(x *tx) { x.due.Put([]byte("last"), make([]byte, 2000)) })}}))
		}
		must(r, w.lanes.view(func(x tables) error {
			if n, of := x.journal.Inspect().KeyN, w.lanes.memtable.young.Len()+w.lanes.memtable.old.Len(); w.memory < enough && (n > 100 || of > 2) {
				r.Errorf("%d rows in the journal, %d in memory", n, of)
			}
			return nil
		}))
		must(r, w.lanes.Close())
	})
}

func must(r *rapid.T, err error) {
	if err != nil {
		r.Helper()
		r.Fatal(err)
	}
}

// epoch is that of a lane file.
func (*world) epoch(r *rapid.T, path string) (e epoch) {
	db, err := bbolt.Open(path, 0o600, nil)
	must(r, err)
	must(r, db.View(func(btx *bbolt.Tx) error {
		e = epochIn(btx.Bucket([]byte(bucketMeta)), keyEpoch)
		return nil
	}))
	must(r, db.Close())
	return e
}

// compare compares tables with what they should hold.
func compare(r *rapid.T, key *rapid.Generator[string], have [2]table, want [2]map[string]string) {
	for n, m := range want {
		keys := slices.Sorted(maps.Keys(m))
		at := key.Draw(r, "from")
		i, _ := slices.BinarySearch(keys, at)
		if v := have[n].Get([]byte(at)); (v != nil) != (i < len(keys) && keys[i] == at) || string(v) != m[at] {
			r.Fatalf("%x is %q, want %q", at, v, m[at])
		}
		up, down := have[n].from([]byte(at)), have[n].below([]byte(at))
		for _, k := range keys[i:] {
			follow(r, up, k, m[k])
		}
		follow(r, up, "", "")
		for _, k := range slices.Backward(keys[:i]) {
			follow(r, down, k, m[k])
		}
		follow(r, down, "", "")
	}
}

func follow(r *rapid.T, w *walk, key, value string) {
	if k, v := w.next(); string(k) != key || !bytes.Equal(v, []byte(value)) {
		r.Fatalf("%x follows with %q, want %x with %q", k, v, key, value)
	}
}

// FuzzValues: no value of the file, however it came about, stops the program, and
// the rows of the journal are read as they were written.
func FuzzValues(f *testing.F) {
	key := journalKey(1)
	all := new(rows)
	all.Set("da key", []byte("a value"))
	all.Set("pgone", nil)
	all.Set("sempty", []byte{})
	seed := appendRows(nil, key, all)
	f.Add(seed[1 : len(seed)-4])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		v := sealed(key, append([]byte{valueFormat}, data...))
		_, _ = parseLane(key, v)
		_, _ = parseRecord(domain.ID{}, key, v)
		_, _, _, _ = parseTally(key, v)
		all, err := parseRows(key, v)
		if err != nil {
			return
		}
		again, err := parseRows(key, appendRows(nil, key, all))
		if err != nil || !slices.Equal(all.Keys(), again.Keys()) || !slices.EqualFunc(all.Values(), again.Values(), bytes.Equal) {
			t.Errorf("%q is read as %q (%v)", all.Keys(), again.Keys(), err)
		}
	})
}
