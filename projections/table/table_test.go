package table

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// opened is a table of texts over a new file.
func opened(t *testing.T) (*DB, *Table[string]) {
	t.Helper()
	db := new(DB)
	tab := New(
		db, "texts",
		func(b []byte, s string) []byte { return append(b, s...) },
		func(b []byte) (string, error) { return string(b), nil },
	)
	must(t, db.Open(filepath.Join(t.TempDir(), "tables.db")))
	db.DeferSync()
	t.Cleanup(func() { _ = db.Close() })
	must(t, db.Create(nil))
	return db, tab
}

// TestTableAgainstAMap drives one table through all its layers and compares
// every way of reading it with a map.
func TestTableAgainstAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db, tab := opened(t)
		defer db.Close()
		tab.Cache(4)
		model := make(map[string]string)
		key := rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprintf("%0*d", rapid.IntRange(1, 3).Draw(rt, "width"), rapid.IntRange(0, 40).Draw(rt, "key"))
		})
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "n") {
					k, v := key.Draw(rt, "key"), rapid.StringN(0, 3, 3).Draw(rt, "value")
					if _, ok := model[k]; ok {
						tab.Replace(k, v)
					} else {
						tab.Insert(k, v)
					}
					model[k] = v
				}
			},
			"remove": func(rt *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(rt, "n") {
					k := key.Draw(rt, "key")
					if _, ok := model[k]; ok {
						tab.Delete(k)
						delete(model, k)
					}
				}
			},
			"seal": func(*rapid.T) {
				if tab.sealed == nil {
					db.Seal()
				}
			},
			"write": func(*rapid.T) { // a write that failed may have reached the file
				must(t, db.Write(nil))
			},
			"drop": func(*rapid.T) {
				must(t, db.Write(nil))
				db.Drop(0)
			},
			"": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				want, there := model[k]
				if v, ok, err := tab.Get(k); err != nil || v != want || ok != there {
					rt.Fatalf("key %q: got %q, %v, %v, want %q", k, v, ok, err, want)
				}
				r := Range{key.Draw(rt, "lo"), rapid.OneOf(rapid.Just(""), key).Draw(rt, "hi")}
				descending := rapid.Bool().Draw(rt, "descending")
				var all []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if r.has(k) {
						all = append(all, k+"="+model[k])
					}
				}
				if descending {
					slices.Reverse(all)
				}
				var got []string
				for rest := &r; rest != nil; {
					var found []Row[string]
					var err error
					found, rest, err = tab.Window(t.Context(), *rest, descending, rapid.IntRange(1, 9).Draw(rt, "window"))
					must(t, err)
					for _, f := range found {
						got = append(got, f.Key+"="+f.Value)
					}
				}
				if !slices.Equal(got, all) {
					rt.Fatalf("range %q, descending %v:\n got %q\nwant %q", r, descending, got, all)
				}
				n := rapid.IntRange(0, 9).Draw(rt, "first")
				first, err := tab.First(t.Context(), r, descending, n)
				must(t, err)
				got = nil
				for _, f := range first {
					got = append(got, f.Key+"="+f.Value)
				}
				if want := all[:min(n, len(all))]; !slices.Equal(got, want) {
					rt.Fatalf("first %d of range %q, descending %v:\n got %q\nwant %q", n, r, descending, got, want)
				}
			},
		})
	})
}

// TestOldReadsAreNotCached makes a read of the file end after its row was
// changed, and written as well.
func TestOldReadsAreNotCached(t *testing.T) {
	t.Parallel()
	db, tab := opened(t)
	get := func() string {
		t.Helper()
		v, _, err := tab.Get("a")
		must(t, err)
		return v
	}
	write := func() {
		db.Seal()
		must(t, db.Write(nil))
		db.Drop(0)
	}
	tab.Insert("a", "first")
	write()
	tab.Cache(16)
	before := tab.cache.at("a")
	tab.cache.addIfUnchanged(before, "a", "read")
	if got := get(); got != "read" {
		t.Fatalf("a value that was read is not cached: %s", got)
	}
	for _, written := range []bool{false, true} {
		tab.Replace("a", "newer")
		if written {
			write()
		}
		tab.cache.addIfUnchanged(before, "a", "read")
		if got := get(); got != "newer" {
			t.Errorf("written %v: a read older than the last change is cached: %s", written, got)
		}
	}
}

// TestKeysThatComeAndGoCostNothing inserts and deletes between two writes.
func TestKeysThatComeAndGoCostNothing(t *testing.T) {
	t.Parallel()
	db, tab := opened(t)
	tab.Insert("a", "x")
	tab.Delete("a")
	if n := db.Pending(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	tab.Insert("a", "x")
	db.Seal()
	tab.Delete("a")
	if n := db.Pending(); n != 1 {
		t.Errorf("%d rows hide the key that is being written, want 1", n)
	}
}

// TestReadsOfACutFile: each way of reading says that the file was cut off while it was
// open, not how the fault looked to the program.
func TestReadsOfACutFile(t *testing.T) {
	t.Parallel()
	db, tab := opened(t)
	keys := make([]string, 2000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		tab.Insert(keys[i], strings.Repeat("x", 100))
	}
	db.Seal()
	must(t, db.Write(nil))
	db.Drop(0)
	must(t, os.Truncate(db.file.Descriptor().Name(), 8192)) // its first pages tell where all is
	for name, read := range map[string]func() error{
		"get": func() error {
			_, _, err := tab.Get(keys[7])
			return err
		},
		"get all": func() error {
			_, err := tab.GetAll(keys)
			return err
		},
		"window": func() error {
			_, _, err := tab.Window(t.Context(), Range{}, false, len(keys))
			return err
		},
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), "it was cut off while it was open: 8192 bytes are left") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for prefix, hi := range map[string]string{"a\xff\xff": "b", "\xff": "", "": "", "a": "b"} {
		if r := Prefix(prefix); r.Lo != prefix || r.Hi != hi {
			t.Errorf("%q: got %q", prefix, r)
		}
	}
}
