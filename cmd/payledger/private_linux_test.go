package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payledger/eventstore/storetest"
	"payledger/notifier/health/healthtest"
)

// TestNothingForOthers runs a server with umask 0 in a directory that everybody can
// read. No other user can ever open a file in it, nor the admin socket, not even at
// the moment when it is made.
func TestNothingForOthers(t *testing.T) {
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	dir := filepath.Join(t.TempDir(), "data")
	if out, err := exec.Command("sh", "-c", `umask 000; exec payledger init --data "$0"`, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Each change of a mode is delayed, so that a file that is open to others before
	// it can be observed.
	s := &server{stderr: &healthtest.Buffer{}, exited: make(chan struct{})}
	s.cmd = exec.Command("sh", "-c", `umask 000
exec strace -D -f -qq --seccomp-bpf -o /dev/null -e trace=fchmodat -e inject=fchmodat:delay_enter=500000 \
	payledger serve --data "$0" --sandbox --nats-listen 127.0.0.1:0 --json --listen 127.0.0.1:0`, dir)
	s.cmd.Stderr = s.stderr
	open := make(map[string]fs.FileMode)
	look := func() {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return nil //nolint:nilerr // it is gone again
			}
			info, err := d.Info()
			switch {
			case err != nil:
				return nil //nolint:nilerr // it is gone again
			case info.Mode()&0o077 != 0:
				open[strings.TrimPrefix(path, dir)] = info.Mode()
			}
			if d.IsDir() && info.Mode()&0o077 == 0 {
				return fs.SkipDir // nobody gets at what is below
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	started := make(chan error, 1)
	go func() { started <- s.run() }()
	for waiting := true; waiting; time.Sleep(5 * time.Millisecond) {
		look()
		select {
		case err := <-started:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		default:
		}
	}
	t.Cleanup(s.kill)
	for _, args := range [][]string{
		{"project", "create", "Shop"},
		{"log", "checkpoint"},
		{"backup", filepath.Join(dir, "copy"), "--with-keys"},
		{"export", "--format", "jsonl", "--output", filepath.Join(dir, "events")},
		{"export", "--format", "bundle", "--output", filepath.Join(dir, "books.tar")},
	} {
		cmd := exec.Command("sh", append([]string{"-c", `umask 000; exec payledger "$@" --data "$0"`, dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		look()
	}
	look()
	s.stops(t)
	look()
	for path, mode := range open {
		t.Errorf("%s was open to others: %s", path, mode)
	}
}
