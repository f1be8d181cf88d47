package projections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"payledger/eventstore"
	"payledger/projections/views"
)

// watched counts how often a rebuild reported, and remembers its last word.
type watched struct {
	calls       int
	done, total eventstore.Position
}

func (p *watched) progress(done, total eventstore.Position) {
	p.calls, p.done, p.total = p.calls+1, done, total
}

// grown is a log with a current file of its views, closed.
func grown(t *testing.T) (*world, Config) {
	t.Helper()
	w := seeded(t, 11).steps(150)
	c := w.config(t.TempDir())
	e := open(t, c)
	must(t, e.Close())
	return w, c
}

func TestCurrentFileIsNotRebuilt(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	w.Steps(20)
	var p watched
	c.Progress = p.progress
	e := open(t, c)
	if p.calls != 0 {
		t.Errorf("progress was reported %d times", p.calls)
	}
	diff(t, dump(t, e), w.rebuilt())
}

// TestUnusableFileIsRebuilt spoils the file in every way that is noticed when
// it is opened.
func TestUnusableFileIsRebuilt(t *testing.T) {
	t.Parallel()
	inFile := func(fn func(*bolt.Tx) error) func(*testing.T, *world, *Config) {
		return func(t *testing.T, _ *world, c *Config) {
			t.Helper()
			db, err := bolt.Open(c.Path, 0o600, nil)
			must(t, err)
			must(t, db.Update(fn))
			must(t, db.Close())
		}
	}
	checkpointOf := func(change func(*Checkpoint)) func(*testing.T, *world, *Config) {
		return inFile(func(tx *bolt.Tx) error {
			c, err := ReadCheckpoint(tx)
			if err != nil {
				return err
			}
			change(&c)
			note, err := json.Marshal(c)
			if err != nil {
				return err
			}
			return tx.Bucket([]byte("meta")).Put([]byte("checkpoint"), sealed("meta", []byte("checkpoint"), note))
		})
	}
	write := func(b []byte) func(*testing.T, *world, *Config) {
		return func(t *testing.T, _ *world, c *Config) {
			t.Helper()
			must(t, os.WriteFile(c.Path, b, 0o600))
		}
	}
	for name, spoil := range map[string]func(*testing.T, *world, *Config){
		"deleted": func(t *testing.T, _ *world, c *Config) { t.Helper(); must(t, os.Remove(c.Path)) },
		"empty":   write(nil),
		"text":    write([]byte(strings.Repeat("not a file of views\n", 4000))),
		"zeroes":  write(make([]byte, 1<<16)),
		"cut": func(t *testing.T, _ *world, c *Config) {
			t.Helper()
			db, err := bolt.Open(c.Path, 0o600, nil)
			must(t, err)
			var size int64
			must(t, db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }))
			must(t, db.Close())
			must(t, os.Truncate(c.Path, size-1))
		},
		"another log":     func(_ *testing.T, w *world, c *Config) { c.LogID = w.IDs.Next(); w.LogID = c.LogID },
		"an older format": checkpointOf(func(c *Checkpoint) { c.Format-- }),
		"ahead":           checkpointOf(func(c *Checkpoint) { c.Position += 1000 }),
		"another history": checkpointOf(func(c *Checkpoint) { c.Event[15]++ }),
		"no checkpoint":   inFile(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("checkpoint")) }),
		"no meta":         inFile(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("meta")) }),
		"a view missing":  inFile(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("due")) }),
		"a project's bits": inFile(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("projects"))
			k, v := b.Cursor().First()
			flipped := bytes.Clone(v)
			flipped[3] ^= 4
			return b.Put(k, flipped)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := grown(t)
			spoil(t, w, &c)
			var p watched
			c.Progress = p.progress
			e := open(t, c)
			if p.calls == 0 || p.done != w.Last() || p.total != w.Last() {
				t.Errorf("progress: %+v, want it to end at %d", p, w.Last())
			}
			diff(t, dump(t, e), w.rebuilt())
			checkAll(t, w, e)
			must(t, e.Close())
			p = watched{}
			open(t, c)
			if p.calls != 0 {
				t.Error("what was rebuilt is rebuilt again")
			}
		})
	}
}

// TestSpoiledBytes truncates the file or flips a bit anywhere. Either the file
// is found out when it is opened, or by the check of its structure, or when a read
// comes across the damage, and then the next Open rebuilds it; or it does no harm.
func TestSpoiledBytes(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	good, err := os.ReadFile(c.Path)
	must(t, err)
	w.Steps(40) // to be caught up with, on top of what is spoiled
	truth := w.rebuilt()
	found, harmless := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		bad := bytes.Clone(good)
		at := rapid.IntRange(0, len(bad)-1).Draw(rt, "at")
		if rapid.IntRange(0, 3).Draw(rt, "how") == 0 {
			bad = bad[:at]
		} else {
			bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		c := c
		c.Path = filepath.Join(t.TempDir(), "projections.db")
		must(t, os.WriteFile(c.Path, bad, 0o600))
		var p watched
		c.Progress = p.progress
		e, err := Open(t.Context(), c)
		must(t, err)
		defer func() { must(t, e.Close()) }()
		// Run checks the structure, which bbolt has no checksums of: a page may be read
		// for another, also for one that holds rows as they were before.
		held := ""
		if err = e.checkFile(t.Context()); err == nil {
			for id, want := range w.Payments {
				// Another key than the row's leads nowhere: a payment that is not found is looked for in
				// the log, as the API does.
				got, ok, err := e.Payment(t.Context(), id)
				if err == nil && !ok {
					err = e.Overlooked(t.Context(), want.Project, id)
				}
				if err == nil && (!ok || got.Status != want.Status) {
					rt.Fatalf("payment %s: got %+v, want %+v", id, got, want)
				}
			}
			held, err = dumped(t, e)
		}
		var damaged *DamagedError
		switch {
		case errors.As(err, &damaged):
			found++
			if _, err := os.Stat(c.Path); !errors.Is(err, os.ErrNotExist) {
				rt.Fatalf("the damaged file is still there: %v", err)
			}
			again := open(t, c)
			diff(t, dump(t, again), truth)
			must(t, again.Close())
		case err != nil:
			rt.Fatal(err)
		case held != truth:
			rt.Fatalf("not found (-want +got):\n%s", cmp.Diff(truth, held))
		default:
			if harmless++; p.calls > 0 {
				found++
			}
		}
	})
	if drawsMany() && (found == 0 || harmless == 0) {
		t.Errorf("%d damages found, %d files unharmed or rebuilt", found, harmless)
	}
}

// TestFileCutUnderARunningEngine reads where the file has ended meanwhile.
func TestFileCutUnderARunningEngine(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	e := open(t, c)
	must(t, os.Truncate(c.Path, 2*4096))
	var damaged *DamagedError
	if _, _, err := e.Payment(t.Context(), w.Order[0]); !errors.As(err, &damaged) {
		t.Fatalf("got %v, want a *DamagedError", err)
	}
	if _, err := e.Payments(t.Context(), "prj_0", views.PaymentQuery{}); !errors.As(err, &damaged) {
		t.Errorf("the next read: got %v", err)
	}
	if err := e.Run(t.Context()); !errors.As(err, &damaged) {
		t.Errorf("Run: got %v", err)
	}
	again := open(t, c)
	diff(t, dump(t, again), w.rebuilt())
}

func TestInterruptedRebuildIsBegunAnew(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	must(t, os.Remove(c.Path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(c.Path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file was left: %v", err)
	}
	// As a crash in the middle leaves it.
	other := seeded(t, 12).steps(20)
	part := other.config(t.TempDir())
	must(t, open(t, part).Close())
	must(t, os.Rename(part.Path, c.Path+".rebuild"))
	e := open(t, c)
	diff(t, dump(t, e), w.rebuilt())
	if _, err := os.Stat(c.Path + ".rebuild"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

// TestFileIsKeptWhenTheReasonMayPass opens a file that is in use, and one in
// the way of which something stands.
func TestFileIsKeptWhenTheReasonMayPass(t *testing.T) {
	t.Parallel()
	_, c := grown(t)
	e := open(t, c)
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("in use: got %v", err)
	}
	if _, err := os.Stat(c.Path); err != nil {
		t.Errorf("the file in use was deleted: %v", err)
	}
	must(t, e.Close())
	dir := c
	dir.Path = t.TempDir()
	if _, err := Open(t.Context(), dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: got %v", err)
	}
	nowhere := c
	nowhere.Path = filepath.Join(t.TempDir(), "missing", "projections.db")
	if _, err := Open(t.Context(), nowhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
}

func TestFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	e := open(t, c)
	write := e.db.Update
	e.db.Update = func(func(*bolt.Tx) error) error { return &os.PathError{Op: "write", Path: c.Path, Err: syscall.ENOSPC} }
	for range 3 {
		w.Steps(20)
		feed(t, e)
		if err := e.flush(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
		checkAll(t, w, e)
	}
	e.db.Update = write
	must(t, e.flush()) // the rows that were sealed first
	must(t, e.flush())
	if e.saved.position != w.Last() {
		t.Errorf("saved up to %d, want %d", e.saved.position, w.Last())
	}
	diff(t, dump(t, e), w.rebuilt())
}

func TestFailedWriteStopsTheEngine(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	e := open(t, c)
	e.db.Update = func(func(*bolt.Tx) error) error { return &os.PathError{Op: "sync", Path: c.Path, Err: syscall.EIO} }
	w.Steps(20)
	feed(t, e)
	var damaged *DamagedError
	if err := e.flush(); !errors.As(err, &damaged) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(c.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file in doubt is still there: %v", err)
	}
	must(t, e.Close())
	diff(t, dump(t, open(t, c)), w.rebuilt())
}

// TestNewerFormatIsRebuilt: the file of a newer version of the program is rebuilt from the log,
// so that this version can take its place again.
func TestNewerFormatIsRebuilt(t *testing.T) {
	t.Parallel()
	w, c := grown(t)
	db, err := bolt.Open(c.Path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		note := fmt.Appendf(nil, `{"format":%d,"whatever":[]}`, views.Format+1)
		return tx.Bucket([]byte("meta")).Put([]byte("checkpoint"), sealed("meta", []byte("checkpoint"), note))
	}))
	must(t, db.Close())
	diff(t, dump(t, open(t, c)), w.rebuilt())
}
