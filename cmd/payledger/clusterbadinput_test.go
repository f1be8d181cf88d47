package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// TestClusterRefusesOrEnduresBadInput starts directories of a cluster that are old
// or have another log, and forces it to have two leaders, while payments are created.
// Each is refused in one clear line, or does no harm.
func TestClusterRefusesOrEnduresBadInput(t *testing.T) {
	inLong(t)
	t.Parallel()
	n, top := newNodes(t), t // whose servers run until the end of all
	n.start(t, 0, 1, 2)
	n.project(t)
	w := n.write(t)
	w.more(t, 10)
	old := filepath.Join(t.TempDir(), "b")

	t.Run("two leaders", func(t *testing.T) { rivals(t, n, w) })
	n.servers[1].stops(t)
	if out, err := exec.Command("cp", "-a", n.dirs[1], old).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("the log of another ledger", func(t *testing.T) {
		alone := filepath.Join(t.TempDir(), "alone")
		does(t, "init", "--data", alone)
		kept := filepath.Join(n.dirs[1], "ledger.db")
		replaced(t, kept, filepath.Join(alone, "ledger.db"), func() {
			if out := refused(t, 3, n.dirs[1]); !regexp.MustCompile(`log|belong`).MatchString(out) {
				t.Errorf("it says %q", out)
			}
		})
	})
	n.start(t, 1)
	w.more(t, 30)
	t.Run("an old log", func(t *testing.T) {
		n.servers[1].stops(t)
		w.more(t, 30)
		if out, err := exec.Command("cp", filepath.Join(old, "ledger.db"), n.dirs[1]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n.start(top, 1)
		w.more(t, 30)
	})
	t.Run("an old copy of a node", func(t *testing.T) {
		n.servers[1].stops(t)
		kept := n.dirs[1]
		n.dirs[1] = old
		n.start(top, 1)
		w.more(t, 30)
		n.servers[1].stops(t)
		n.dirs[1] = kept
		n.start(top, 1)
		w.more(t, 30)
	})
	payments := w.end()
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
}

// rivals has two nodes promoted again and again, each by its own operator.
func rivals(t *testing.T, n *nodes, w *writers) {
	line := regexp.MustCompile(`(?m)^payledger: .*\n$`)
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			for range rounds(3, 20) {
				var refusal bytes.Buffer
				cmd := exec.Command("payledger", "cluster", "promote", nodeNames[i], "--data", n.dirs[i])
				cmd.Stderr = &refusal
				if err := cmd.Run(); err != nil && !line.Match(refusal.Bytes()) {
					t.Errorf("promote %s says %q", nodeNames[i], &refusal)
				}
			}
		})
	}
	all.Wait()
	w.more(t, 30)
}

// replaced puts a copy of a file in the place of another one while something is done.
func replaced(t *testing.T, name, by string, while func()) {
	t.Helper()
	if err := os.Rename(name, name+".kept"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	while()
	if err := errors.Join(os.Remove(name), os.Rename(name+".kept", name)); err != nil {
		t.Fatal(err)
	}
}
