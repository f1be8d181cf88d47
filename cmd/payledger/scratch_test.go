package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unfinishedIn lists the unfinished files in a directory, as sweep finds them.
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

// killed runs a command and kills it while it has something unfinished in the
// directory; it tries until that succeeds.
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

// TestKilledLeavesNothing kills commands that write files, and checks that the next
// command cleans up.
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

	// A directory that a killed restore made can be restored into, or served.
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
