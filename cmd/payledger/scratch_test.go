package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unfinishedIn lists what a directory holds that sweep looks for.
func unfinishedIn(t *testing.T, dir string) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || strings.Contains(e.Name(), ".init-") {
			left = append(left, e.Name())
		}
	}
	return left
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	running, err := newScratch(dir)
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
	d := dataDir(dir)
	if err := sweep(dir, d.files()...); err != nil {
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
	if err := errors.Join(running.remove(), writing.Close()); err != nil {
		t.Fatal(err)
	}
	// A process that is being forked at this moment may have the lock a little longer.
	eventually(t, "what nobody holds is gone", func() bool {
		if err := sweep(dir, d.files()...); err != nil {
			t.Fatal(err)
		}
		_, one := os.Lstat(running.dir)
		_, other := os.Lstat(writing.Name())
		return errors.Is(one, fs.ErrNotExist) && errors.Is(other, fs.ErrNotExist)
	})
}

// killed runs a command and kills it while it has something unfinished in the
// directory, as often as it takes.
func killed(t *testing.T, dir string, clean func(), args ...string) {
	t.Helper()
	for range 200 {
		cmd := exec.Command("payledger", args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		for running := true; running && len(unfinishedIn(t, dir)) == 0; {
			select {
			case <-ended:
				running = false
			default:
			}
		}
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if len(unfinishedIn(t, dir)) > 0 {
			return
		}
		clean()
	}
	t.Fatalf("%q was never killed in the middle", args)
}

// TestKilledLeavesNothing kills commands that write files, and looks at what
// the next one leaves.
func TestKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	h, _, _ := ledgerWithEvents(t)
	out, fresh := t.TempDir(), filepath.Join(t.TempDir(), "fresh")
	backup := filepath.Join(out, "monday")
	forget := func(name string) func() {
		return func() {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func(dir string, args ...string) {
		t.Helper()
		if out, code := payledger(t, args...); code != 0 {
			t.Fatalf("%q: %s", args, out)
		}
		if left := unfinishedIn(t, dir); len(left) > 0 {
			t.Errorf("%q leaves %q", args, left)
		}
	}
	killed(t, out, forget(backup), "backup", backup, "--data", h.data)
	next(out, "backup", filepath.Join(out, "tuesday"), "--data", h.data, "--with-keys")

	// A directory that a killed restore made is restored into, or served.
	tuesday := filepath.Join(out, "tuesday")
	killed(t, fresh, forget(fresh), "restore", tuesday, "--data", fresh)
	next(fresh, "restore", tuesday, "--data", fresh)
	killed(t, fresh, func() {}, "restore", tuesday, "--data", fresh)
	next(fresh, "project", "list", "--data", fresh)

	for i := range 2 {
		tar := filepath.Join(out, []string{"a.tar", "b.tar"}[i])
		if i == 0 {
			killed(t, out, func() { forget(tar)(); forget(tar + ".parts")() }, "export", "--data", h.data, "--format", "bundle", "--output", tar)
			continue
		}
		next(out, "export", "--data", h.data, "--format", "bundle", "--output", tar)
	}
}
