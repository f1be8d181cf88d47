package datadir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
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
