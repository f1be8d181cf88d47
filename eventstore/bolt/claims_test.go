package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
)

// claimedKey is the i-th key of a test.
func claimedKey(i int) domain.Digest {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

func eventAt(p eventstore.Position) (id domain.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(p))
	return id
}

func holdsAll(p eventstore.Position, id domain.ID) bool { return eventAt(p) == id }

// TestClaimIndexIsAMap puts batches of any size into runs, closes the index and
// opens it again, with files that are left over, missing or cut short, and
// compares what it finds with a map.
func TestClaimIndexIsAMap(t *testing.T) {
	t.Parallel()
	base, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		dir := filepath.Join(base, strconv.Itoa(runs))
		var all spans
		forever := rapid.Bool().Draw(rt, "for ever")
		claimOf := func(key int) *eventstore.Claim { return &eventstore.Claim{Key: claimedKey(key), Forever: forever} }
		name := func(key int) claimName { return nameFor("p", claimOf(key)) }
		open := func() *claimIndex {
			x, err := openClaims(dir, kind{domain.ID{1}, forever}, all, holdsAll, func(err error) { rt.Error(err) })
			if err != nil {
				rt.Fatal(err)
			}
			return x
		}
		want := map[int]eventstore.Position{}
		var at eventstore.Position
		var newest domain.ID
		x := open()
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			if rapid.IntRange(0, 2).Draw(rt, "time") == 0 {
				_ = newest.SetTime(newest.Time() + spanMillis)
			}
			for range rapid.IntRange(0, 400).Draw(rt, "claims") {
				at += 1 + at%2
				key := int(at)
				if again := int(at) / 2; want[again] != 0 && want[again] < all.floor() {
					key = again // it was forgotten
				}
				want[key] = at
				if s := x.add(name(key), newest, at); s != nil {
					all = s
				}
			}
			if at >= x.next {
				if err := x.write(x.freeze(at, eventAt(at))); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.Bool().Draw(rt, "reopened") {
				x.end()
				spoil(rt, dir)
				x = open()
				claimed := make(map[eventstore.Position]*eventstore.Claim)
				for key, p := range want {
					claimed[p] = claimOf(key)
				}
				for p := x.next; p <= at; p++ {
					r := eventstore.Stored{Position: p, Commit: eventAt(p), Stream: eventstore.Stream{Project: "p"}, Claim: claimed[p]}
					if err := x.renew(r); err != nil {
						rt.Fatal(err)
					}
				}
			}
			for key := range int(at) + 2 {
				p := want[key]
				if p < all.floor() {
					p = 0
				}
				if got, err := x.find(name(key)); err != nil || got != p {
					rt.Fatalf("key %d: %d, %v, want %d", key, got, err, p)
				}
			}
			if p, err := x.find(nameOf("q", claimedKey(int(at)))); err != nil || p != 0 {
				rt.Fatalf("another project's key: %d, %v", p, err)
			}
		}
		x.end()
	})
}

// spoil does to a directory of runs what a crash, an operator or a restored
// backup may.
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
		case 2: // part of it had been merged into it
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				b[len(keysMagic)+16+15]-- // its last position: the name no longer fits
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Of keys that a run does not have, nearly none is looked for among its
// entries; those it has all are.
func TestFilterKeepsOtherKeysOut(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	f := newFilter(keys)
	passes := func(i int) bool {
		n := nameOf("p", claimedKey(i))
		block, at := lineOf(n, len(f))
		return marked(f[block][at:at+filterLine], n)
	}
	for i := range keys {
		f.mark(nameOf("p", claimedKey(i)))
	}
	passed := 0
	for i := range keys {
		if !passes(i) {
			t.Fatalf("key %d was marked", i)
		}
		if passes(-1 - i) {
			passed++
		}
	}
	if passed > keys/100 {
		t.Errorf("%d of %d keys that were not marked pass", passed, keys)
	}
}

// A bit that flips in a run is noticed by whoever would be misled: no key is
// missed and none is found in the wrong place.
func TestDamagedRunsAreNoticed(t *testing.T) {
	t.Parallel()
	const keys = 3*runPerBlock + 7
	dir := t.TempDir()
	var failed error
	open := func() *claimIndex {
		x, err := openClaims(dir, kind{log: domain.ID{1}}, nil, holdsAll, func(err error) { failed = err })
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open()
	for i := 1; i <= keys; i++ {
		x.add(nameOf("p", claimedKey(i)), domain.ID{}, eventstore.Position(i))
	}
	if err := x.write(x.freeze(keys, eventAt(keys))); err != nil {
		t.Fatal(err)
	}
	path := x.runs[0].path
	x.end()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(good); at += 13 {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x41
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		failed = nil
		x := open()
		if at < runBlock {
			if len(x.runs) != 0 || x.next != 1 {
				t.Fatalf("byte %d: the run is used", at)
			}
			x.end()
			continue
		}
		noticed := 0
		for i := 1; i <= keys; i++ {
			p, err := x.find(nameOf("p", claimedKey(i)))
			switch {
			case errors.As(err, new(*damagedRun)):
				noticed++
			case err != nil || p != eventstore.Position(i):
				t.Fatalf("byte %d: key %d is at %d, %v", at, i, p, err)
			}
		}
		if noticed == 0 || failed == nil {
			t.Errorf("byte %d: noticed %d times, then %v", at, noticed, failed)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("byte %d: the run is still there", at)
		}
		x.end()
	}
}

// TestClaimsBesideTheLog: the keys of a log are found whatever became of the
// index's files while it was closed, and a run of another course of the log is
// not used.
func TestClaimsBesideTheLog(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	n := 0
	claim := func(project string, i int) error {
		n++
		c := commitOf(n, 0)
		c.Record.Stream.Project = project
		c.Claim = &eventstore.Claim{Key: claimedKey(i)}
		_, err := eventstore.AppendOne(t.Context(), s, c)
		return err
	}
	settle := func() {
		// The store does this by itself, for more of them.
		last := *s.tail.place(s.tail.durable)
		s.claims.keys.batches <- s.claims.keys.freeze(last.Position, last.Commit)
		for busy := true; busy; runtime.Gosched() {
			s.claims.keys.mu.RLock()
			busy = s.claims.keys.frozen != nil
			s.claims.keys.mu.RUnlock()
		}
	}
	var claimed *eventstore.ClaimedError
	for i := range 40 {
		if err := claim("prj_a", i); err != nil {
			t.Fatal(err)
		}
		if i%7 == 6 {
			settle()
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range 40 {
			if err := claim("prj_a", i); !errors.As(err, &claimed) || claimed.Value.Claim.Key != claimedKey(i) {
				t.Errorf("%s: key %d: %v", when, i, err)
			}
			if r, ok, err := s.Claimed(t.Context(), "prj_a", claimedKey(i)); err != nil || !ok || r.Claim.Key != claimedKey(i) {
				t.Errorf("%s: key %d: found %t, %v", when, i, ok, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("at once")
	_ = s.Close()
	s = reopened(t, path)
	check("reopened")
	_ = s.Close()
	if err := os.RemoveAll(claimsDir(path)); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, path)
	check("without an index")

	// The same log went on differently elsewhere.
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := claim("prj_a", 100+i); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	_ = s.Close()
	if files, err := os.ReadDir(claimsDir(path)); err != nil || len(files) == 0 {
		t.Fatalf("%d runs, %v", len(files), err)
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, path)
	n += 100
	for i := range 3 {
		if err := claim("prj_a", 200+i); err != nil {
			t.Fatal(err)
		}
	}
	check("restored")
	for i := range 3 {
		if err := claim("prj_a", 100+i); err != nil {
			t.Errorf("a key of another course of the log is taken: %v", err)
		}
	}

	readOnly, err := OpenReadOnly(copyOf(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = readOnly.Close() }()
	if r, ok, err := readOnly.Claimed(t.Context(), "prj_a", claimedKey(7)); err != nil || !ok || r.Claim.Key != claimedKey(7) {
		t.Errorf("found %t, %v", ok, err)
	}
	if _, ok, err := readOnly.Claimed(t.Context(), "prj_a", claimedKey(999)); err != nil || ok {
		t.Errorf("found %t, %v", ok, err)
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// BenchmarkClaims looks for keys that nobody claimed, among many.
func BenchmarkClaims(b *testing.B) {
	for _, keys := range []int{1 << 16, 1 << 20, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			x, err := openClaims(b.TempDir(), kind{log: domain.ID{1}}, nil, holdsAll, func(err error) { b.Error(err) })
			if err != nil {
				b.Fatal(err)
			}
			for i := 1; i <= keys; i++ {
				x.add(nameOf("p", claimedKey(i)), domain.ID{}, eventstore.Position(i))
				if p := eventstore.Position(i); i%freshClaims == 0 {
					if err := x.write(x.freeze(p, eventAt(p))); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(len(x.runs)), "runs")
			for i := 0; b.Loop(); i++ {
				if p, err := x.find(nameOf("p", claimedKey(-1-i))); p != 0 || err != nil {
					b.Fatal(p, err)
				}
			}
			x.end()
		})
	}
}
