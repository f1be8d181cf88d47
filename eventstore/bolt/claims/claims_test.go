package claims

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyOf is the i-th key of a test, named is its name.
func keyOf(i int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

func named(i int) Name { return NameOf("p", keyOf(i)) }

// eventAt is the event at a position of a test's log.
func eventAt(p uint64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[8:], p)
	return id
}

func holdsAll(p uint64, id [16]byte) bool { return eventAt(p) == id }

// opened opens an index that is not started.
func opened(t interface{ Fatal(...any) }, c Config) *Index {
	c.Log, c.Holds = [16]byte{1}, holdsAll
	x, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestIndexIsAMap writes batches of any size as tables, then closes and opens the
// index with files left over, missing or truncated, and compares the results with a
// map.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	base, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		c := Config{
			Dir:     filepath.Join(base, strconv.Itoa(runs)),
			Damaged: func(err error) { rt.Error(err) },
		}
		want := map[int]uint64{}
		var at uint64
		x := opened(rt, c)
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			for range rapid.IntRange(0, 400).Draw(rt, "claims") {
				at += 1 + at%2
				want[int(at)] = at
				x.Add(named(int(at)), at)
			}
			if at >= x.next {
				if err := x.write(x.seal(at, eventAt(at))); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.Bool().Draw(rt, "reopened") {
				x.Close()
				spoil(rt, c.Dir)
				x = opened(rt, c)
				claimed := make(map[uint64]*Name)
				for key, p := range want {
					name := named(key)
					claimed[p] = &name
				}
				for p := x.Next(); p <= at; p++ {
					if err := x.Rebuild(p, eventAt(p), claimed[p]); err != nil {
						rt.Fatal(err)
					}
				}
			}
			for key := range int(at) + 2 {
				p := want[key]
				if got, err := x.Find(named(key)); err != nil || got != p {
					rt.Fatalf("key %d: %d, %v, want %d", key, got, err, p)
				}
			}
			if p, err := x.Find(NameOf("q", keyOf(int(at)))); err != nil || p != 0 {
				rt.Fatalf("another project's key: %d, %v", p, err)
			}
		}
		x.Close()
	})
}

// spoil changes a directory of tables as a crash, an operator or a restored backup
// may.
func spoil(t *rapid.T, dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "unfinished") {
		if err := os.WriteFile(filepath.Join(dir, "0000000000000001-0000000000000009"+unfinished), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		switch rapid.IntRange(0, 8).Draw(t, "file") {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.Truncate(path, 100)
		case 2: // another version, or another last position than in the name
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				b[len("payledger claims ")+rapid.SampledFrom([]int{0, 2 + 16 + 15}).Draw(t, "byte")]--
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The filter passes all keys of its table, and fewer than one in 100 of the others.
func TestFilterKeepsOtherKeysOut(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	f := newFilter(keys)
	passes := func(i int) bool {
		block, at := lineOf(named(i), len(f))
		return mayHave(f[block][at:at+filterLine], named(i))
	}
	for i := range keys {
		f.add(named(i))
	}
	passed := 0
	for i := range keys {
		if !passes(i) {
			t.Fatalf("key %d was added", i)
		}
		if passes(-1 - i) {
			passed++
		}
	}
	if passed > keys/100 {
		t.Errorf("%d of %d keys that were not added pass", passed, keys)
	}
}

// inOneTable opens an index and adds keys, which are then all in one table.
func inOneTable(t *testing.T, c Config, keys int) *Index {
	t.Helper()
	x := opened(t, c)
	for i := 1; i <= keys; i++ {
		x.Add(named(i), uint64(i))
	}
	if err := x.write(x.seal(uint64(keys), eventAt(uint64(keys)))); err != nil {
		t.Fatal(err)
	}
	return x
}

// Every search that a flipped bit of a table would mislead finds the damage: no key
// is missed and none is found at a wrong position.
func TestDamagedTablesAreNoticed(t *testing.T) {
	t.Parallel()
	const keys = 3*blockEntries + 7
	var failed error
	c := Config{Dir: t.TempDir(), Damaged: func(err error) { failed = err }}
	x := inOneTable(t, c, keys)
	path := x.tables[0].path
	x.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	step := 61
	if os.Getenv("PAYLEDGER_LONG") == "1" {
		step = 5
	}
	for at := 0; at < len(good); at += step {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x41
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		failed = nil
		x := opened(t, c)
		if at < blockSize {
			if len(x.tables) != 0 || x.next != 1 {
				t.Fatalf("byte %d: the table is used", at)
			}
			x.Close()
			continue
		}
		noticed := 0
		for i := 1; i <= keys; i++ {
			p, err := x.Find(named(i))
			switch {
			case errors.As(err, new(*DamagedError)):
				noticed++
			case err != nil || p != uint64(i):
				t.Fatalf("byte %d: key %d is at %d, %v", at, i, p, err)
			}
		}
		if noticed == 0 || failed == nil {
			t.Errorf("byte %d: noticed %d times, then %v", at, noticed, failed)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("byte %d: the table is still there", at)
		}
		x.Close()
	}
}

// A memtable that is large enough becomes a table while claims go on. After Close
// nothing is found.
func TestTablesAreWrittenInTheBackground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const keys = 3*memtableClaims + 5
	synctest.Test(t, func(t *testing.T) {
		x := opened(t, Config{Dir: dir, Damaged: func(err error) { t.Error(err) }})
		x.Start()
		for i := 1; i <= keys; i++ {
			x.Add(named(i), uint64(i))
			if p := uint64(i); x.Full(p) {
				x.Seal(p, eventAt(p))
			}
			if p, err := x.Find(named(i / 2)); err != nil || p != uint64(i/2) {
				t.Fatalf("key %d: %d, %v", i/2, p, err)
			}
		}
		synctest.Wait() // Close ends a table that is not finished
		x.Close()
		if _, err := x.Find(named(1)); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
	again := opened(t, Config{Dir: dir, Damaged: func(err error) { t.Error(err) }})
	if next := again.Next(); next <= memtableClaims || next > keys+1 {
		t.Errorf("the tables cover the records before %d", next)
	}
	again.Close()
}

// BenchmarkClaims looks up keys that nobody claimed, among many claimed ones.
func BenchmarkClaims(b *testing.B) {
	for _, keys := range []int{1 << 16, 1 << 20, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			x := opened(b, Config{Dir: b.TempDir(), Damaged: func(err error) { b.Error(err) }})
			for i := 1; i <= keys; i++ {
				x.Add(named(i), uint64(i))
				if p := uint64(i); i%memtableClaims == 0 {
					if err := x.write(x.seal(p, eventAt(p))); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(len(x.tables)), "tables")
			for i := 0; b.Loop(); i++ {
				if p, err := x.Find(named(-1 - i)); p != 0 || err != nil {
					b.Fatal(p, err)
				}
			}
			x.Close()
		})
	}
}

// A table that the disk cannot read is damaged, whoever reads it: here the file is cut off beneath its
// mapping.
func TestUnreadableTable(t *testing.T) {
	t.Parallel()
	const keys = 3 * blockEntries
	for what, read := range map[string]func(x *Index) error{
		"a search": func(x *Index) error {
			_, err := x.Find(named(1))
			return err
		},
		"a merge": func(x *Index) error {
			for i := keys + 1; i <= 2*keys; i++ {
				x.Add(named(i), uint64(i))
			}
			err := x.write(x.seal(2*keys, eventAt(2*keys)))
			x.damaged(err)
			return err
		},
	} {
		var failed error
		c := Config{Dir: t.TempDir(), Damaged: func(err error) { failed = err }}
		x := inOneTable(t, c, keys)
		path := x.tables[0].path
		if err := os.Truncate(path, blockSize); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if err := read(x); !errors.As(err, &damaged) || damaged.Path != path || !errors.As(failed, &damaged) {
			t.Errorf("%s: %v, reported %v", what, err, failed)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the table stays: %v", what, err)
		}
		x.Close()
	}
}
