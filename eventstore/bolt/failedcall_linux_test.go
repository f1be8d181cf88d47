package bolt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedCalls makes the n-th write, sync or growth of the file fail, for each n
// until a run has no n-th call. The store ends with a fatal error. Every commit it
// acknowledged is in the log, and every other one is there as a whole or not at all.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	const writers, commits = 2, 4
	for _, c := range []struct {
		call, fault, when string
		least             int // of the n that meet the fault
	}{
		{"fdatasync", "EIO", "%d", 2 * commits},
		{"fdatasync", "EIO", "%d+", 2 * commits}, // and every later one
		{"pwrite64", "ENOSPC", "%d", 3 * commits},
		{"pwrite64", "EIO", "%d+", 3 * commits},
		{"ftruncate", "ENOSPC", "%d", 1},
		{"fsync", "EIO", "%d", 1},
	} {
		t.Run(fmt.Sprintf("%s %s at %s", c.call, c.fault, c.when), func(t *testing.T) {
			t.Parallel()
			met := 0
			for n := 1; ; n++ {
				path := newLog(t)
				when := fmt.Sprintf(c.when, n)
				out, trace := straced(t, path, writers, commits, nil,
					"-e", "trace="+c.call, "-e", "inject="+c.call+":error="+c.fault+":when="+when)
				l := heard(t, out, writers, commits)
				injected := strings.Contains(trace, "(INJECTED)")
				what := fmt.Sprintf("%s: %s at %s", c.call, c.fault, when)
				if fatal := strings.Contains(out, "fatal\n"); fatal != injected {
					t.Fatalf("%s: injected: %t, fatal: %t\n%s%s", what, injected, fatal, trace, out)
				}
				l.intact(t, what, path)
				if !injected {
					break
				}
				met++
			}
			if met < c.least {
				t.Errorf("the fault was met at %d calls, want %d or more", met, c.least)
			}
		})
	}
}

// The control: a store that takes a failed sync for a success. The call returns
// success, its data is lost, and the check finds it.
func TestFailedCallsUnheard(t *testing.T) {
	t.Parallel()
	const writers, commits = 2, 1
	path := newLog(t)
	empty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, trace := straced(t, path, writers, commits, nil, "-e", "trace=pwrite64", "-e", "inject=pwrite64:retval=4096:when=1+")
	if !strings.Contains(trace, "(INJECTED)") {
		t.Fatal("nothing was injected")
	}
	heard(t, out, writers, commits).broken(t, "writes that are not made", path)

	lost := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(lost, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	heard(t, "ack 0 0 1\n", writers, commits).broken(t, "an answer before the write", lost)
}
