package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	running, err := NewScratch(dir)
	if err != nil {
		t.Fatal(err)
	}
	writing, err := createUnfinished(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Close()
	stays := []string{
		filepath.Base(running.dir), filepath.Base(writing.Name()),
		"payledger-12.tmp.mine", "payledger-x.tmp", "payledger-13.tmp", "notes.12.tmp", "checkpoint.12", "checkpoint.new.tmp",
	}
	for _, name := range append(stays[2:], "checkpoint.12.tmp", "ledger.db.init-12") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "payledger-14.tmp", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := Dir(dir)
	if err := Sweep(dir, d.Files()...); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(stays)
	if !slices.Equal(left, stays) {
		t.Errorf("left %q\nwant %q", left, stays)
	}
	if err := errors.Join(running.Remove(), writing.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir, d.Files()...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{running.dir, writing.Name()} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is held by nobody and stays: %v", name, err)
		}
	}
}
