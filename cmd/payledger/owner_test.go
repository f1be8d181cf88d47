package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRootLeavesOthersDirectories: root writes nothing to the log of another user, and makes none in
// the user's directory, which the user's server could not open.
func TestRootLeavesOthersDirectories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("giving a directory away needs root")
	}
	dir, empty, backup := filepath.Join(t.TempDir(), "data"), t.TempDir(), filepath.Join(t.TempDir(), "b.db")
	does(t, "init", "--data", dir)
	does(t, "backup", backup, "--data", dir)
	if err := os.Chown(dir, 1, -1); err != nil {
		t.Fatal(err)
	}
	does(t, "project", "list", "--data", dir) // the log is root's own
	for uid, as := range map[int]string{1: "runuser -u daemon -- payledger …", 54321: "sudo -u '#54321' payledger …"} {
		for _, name := range []string{dir, filepath.Join(dir, "ledger.db"), empty} {
			if err := os.Chown(name, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"init", "--data", empty},
			{"restore", backup, "--data", empty},
			{"restore", backup, "--force", "--data", dir},
			{"cluster", "init", "--nodes", "a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3", "--data", dir},
			{"project", "list", "--data", dir},
			{"serve", "--listen", "127.0.0.1:0", "--data", dir},
		} {
			if out, code := payledger(t, args...); code != 3 || !strings.Contains(out, `run "`+as+`"`) {
				t.Errorf("%s of user %d's directory: exit code %d, %s", args[0], uid, code, out)
			}
		}
		if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
			t.Errorf("it held %v, and now %v, %v", before, after, err)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
			t.Errorf("the empty directory holds %v, %v", left, err)
		}
	}
}
