package projections

import (
	"encoding/binary"
	"errors"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections/views"
)

// bodies are the stored bytes of every event.
func (w *world) bodies() (all [][]byte) {
	w.TB.Helper()
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			w.TB.Fatal(err)
		}
		all = append(all, r.Body)
	}
	return all
}

// roots are the root hashes of the tree of each size, computed from the log
// alone.
func (w *world) roots() []tlog.Hash {
	s := translog.NewStreaming()
	roots := []tlog.Hash{s.Root()}
	for _, b := range w.bodies() {
		must(w.TB, s.Append(b))
		roots = append(roots, s.Root())
	}
	return roots
}

// checkTree checks every root, and proofs and tiles, against the log.
func checkTree(t *testing.T, w *world, e *Engine) {
	t.Helper()
	ctx := t.Context()
	bodies, roots := w.bodies(), w.roots()
	size, root, err := e.Tree(ctx)
	must(t, err)
	if size != w.Last() || root != roots[size] {
		t.Fatalf("tree of %d with root %v, want %d with %v", size, root, w.Last(), roots[w.Last()])
	}
	newest := translog.Checkpoint{Size: size, Root: root}
	for n, want := range roots {
		got, err := e.RootAt(ctx, eventstore.Position(n))
		must(t, err)
		if got != want {
			t.Fatalf("root at %d: got %v, want %v", n, got, want)
		}
		if n == 0 {
			continue
		}
		in, err := e.Inclusion(ctx, eventstore.Position(n), size)
		must(t, err)
		must(t, in.Check(newest, bodies[n-1]))
		con, err := e.Consistency(ctx, eventstore.Position(n), size)
		must(t, err)
		must(t, tlog.CheckTree(con.Hashes, int64(size), root, int64(n), want))
	}
	if size == 0 {
		return
	}
	b, err := e.Tile(ctx, tlog.Tile{H: 8, L: 0, N: 0, W: min(256, len(bodies))})
	must(t, err)
	for i := range min(256, len(bodies)) {
		if translog.Leaf(bodies[i]) != tlog.Hash(b[32*i:32*i+32]) {
			t.Fatalf("tile: leaf %d differs", i)
		}
	}
}

// TestTreeEqualsTheLog reads the tree while it lies in memory, in the file, in
// both, and after the engine was opened again at odd sizes.
func TestTreeEqualsTheLog(t *testing.T) {
	t.Parallel()
	w := seeded(t, 41)
	c := w.config(t.TempDir())
	e := open(t, c)
	checkTree(t, w, e)
	for i := range 12 {
		w.Steps(17)
		feed(t, e)
		checkTree(t, w, e)
		if i%2 == 0 {
			must(t, e.flush())
		}
		if i%3 == 0 {
			must(t, e.Close())
			e = open(t, c)
			checkTree(t, w, e)
		}
	}
	var beyond *views.BeyondTreeError
	if _, err := e.Inclusion(t.Context(), 1, w.Last()+1); !errors.As(err, &beyond) || beyond.Size != w.Last() {
		t.Errorf("proof beyond the tree: %v", err)
	}
	if _, err := e.Consistency(t.Context(), 1, w.Last()+1); !errors.As(err, &beyond) {
		t.Errorf("proof beyond the tree: %v", err)
	}
	if _, err := e.Tile(t.Context(), tlog.Tile{H: 8, L: 1, N: 7, W: 1}); !errors.Is(err, translog.ErrNoTile) {
		t.Errorf("tile beyond the tree: %v", err)
	}
}

// TestDamagedTree takes hashes out of the file, or puts others there.
func TestDamagedTree(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bolt.Bucket, []byte) error{
		"missing": func(b *bolt.Bucket, key []byte) error { return b.Delete(key) },
		"altered": func(b *bolt.Bucket, key []byte) error { return b.Put(key, make([]byte, 36)) },
		"short": func(b *bolt.Bucket, key []byte) error {
			return b.Put(key, sealed("translog", key, make([]byte, 32)))
		},
		"odd": func(b *bolt.Bucket, key []byte) error {
			return b.Put(key, sealed("translog", key, make([]byte, 33)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := seeded(t, 42)
			for w.Last() < 64 {
				w.Step()
			}
			at := w.Last()
			c := w.config(t.TempDir())
			e := open(t, c)
			// The root of the first 64 events is kept with the 64th.
			must(t, e.db.Update(func(tx *bolt.Tx) error {
				return spoil(tx.Bucket([]byte("translog")), binary.BigEndian.AppendUint64(nil, 64))
			}))
			var damaged *DamagedError
			if _, err := e.RootAt(t.Context(), 64); !errors.As(err, &damaged) {
				t.Fatalf("read: %v", err)
			}
			must(t, e.Close())
			e = open(t, c)
			if got, err := e.RootAt(t.Context(), 64); err != nil || got != w.roots()[64] {
				t.Errorf("after the rebuild: %v, %v", got, err)
			}
			// The same while the edge is read at the start.
			if at >= 128 {
				t.Fatalf("the log grew to %d: choose another seed", at)
			}
			must(t, e.db.Update(func(tx *bolt.Tx) error {
				return spoil(tx.Bucket([]byte("translog")), binary.BigEndian.AppendUint64(nil, 64))
			}))
			must(t, e.Close())
			if e = open(t, c); e.Position() != at {
				t.Fatalf("opened at %d, want %d", e.Position(), at)
			}
			checkTree(t, w, e)
		})
	}
}

// BenchmarkTree reads the tree of a log that lies in the file.
func BenchmarkTree(b *testing.B) {
	w := seeded(b, 1)
	n := eventstore.Position(len(w.Lives(20_000)))
	e := open(b, w.config(b.TempDir()))
	for name, read := range map[string]func() error{
		"tree":        func() error { _, _, err := e.Tree(b.Context()); return err },
		"inclusion":   func() error { _, err := e.Inclusion(b.Context(), n/3, n); return err },
		"consistency": func() error { _, err := e.Consistency(b.Context(), n/3, n); return err },
		"tile":        func() error { _, err := e.Tile(b.Context(), tlog.Tile{H: 8, N: 7, W: 256}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				must(b, read())
			}
		})
	}
}
