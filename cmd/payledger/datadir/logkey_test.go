package datadir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"payledger/eventstore/bolt"
)

// TestInterruptedInitKeepsTheLogsKey: the key names the log, so a log made
// after an interruption must be the one that the key is for.
func TestInterruptedInitKeepsTheLogsKey(t *testing.T) {
	t.Parallel()
	d := Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(d.LogKey())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.LogKey()); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("log.key: %v, %v", info.Mode(), err)
	}
	if err := os.Remove(d.Ledger()); err != nil { // as if it had not come that far
		t.Fatal(err)
	}
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(d.LogKey()); err != nil || !bytes.Equal(again, key) {
		t.Error("the key was made anew")
	}
	store, err := d.Open(bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.LogSigner(store.LogID()); err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestInitAtOnce has several processes make one directory: one does, and the log's key is that of the log.
func TestInitAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		d := Dir(filepath.Join(t.TempDir(), "d"))
		var all sync.WaitGroup
		var made atomic.Int32
		for range 4 {
			all.Go(func() {
				if d.Initialise() == nil {
					made.Add(1)
				}
			})
		}
		all.Wait()
		store, err := d.Open(bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.LogSigner(store.LogID()); err != nil || made.Load() != 1 {
			t.Errorf("%d have made it: %v", made.Load(), err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
