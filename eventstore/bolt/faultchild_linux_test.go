package bolt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/storetest"
)

// The variables of the environment that TestFaultChild reads.
const (
	childPath    = "PAYLEDGER_TEST_FAULT_PATH"    // of the log
	childWriters = "PAYLEDGER_TEST_FAULT_WRITERS" // "WRITERS COMMITS"
	childNoSync  = "PAYLEDGER_TEST_FAULT_NOSYNC"
)

// TestFaultChild is the process that the tests run under strace: it writes to
// a log and prints a line "ack WRITER N POSITION" for each answer, then "done"
// or "fatal".
func TestFaultChild(t *testing.T) {
	path := os.Getenv(childPath)
	if path == "" {
		t.Skip("run by other tests, as a process of its own")
	}
	var writers, commits int
	if _, err := fmt.Sscan(os.Getenv(childWriters), &writers, &commits); err != nil {
		t.Fatal(err)
	}
	s, err := open(path, false, boltfile.AtOnce)
	if err != nil {
		t.Fatal(err)
	}
	noSync := os.Getenv(childNoSync) != ""
	s.file.DB().NoSync, s.file.DB().NoGrowSync = noSync, noSync
	s.options.MinFree = 1
	s.committer.Go(func() {
		// strace counts the calls of each thread separately.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s.commitAll()
	})
	l := newLoad()
	l.write(context.Background(), s, writers, commits, func(w, n int, p eventstore.Position) {
		fmt.Printf("ack %d %d %d\n", w, n, p)
	})
	switch {
	case errors.As(l.err, new(*eventstore.FatalError)):
		fmt.Println("fatal")
	case l.err != nil:
		t.Fatal(l.err)
	default:
		fmt.Println("done")
	}
	_ = s.Close()
}

// straced runs TestFaultChild under strace. It returns what the child printed, and
// strace's record of its calls.
func straced(t *testing.T, path string, writers, commits int, env []string, flags ...string) (out, trace string) {
	t.Helper()
	storetest.RequireTools(t, "strace", "strace")
	log := path + ".strace"
	args := append([]string{"-f", "-qq", "--seccomp-bpf", "-o", log}, flags...)
	cmd := exec.Command("strace", append(args, os.Args[0], "-test.run=^TestFaultChild$")...)
	cmd.Env = append(os.Environ(), childPath+"="+path, fmt.Sprintf("%s=%d %d", childWriters, writers, commits), "GOCOVERDIR="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if strings.Contains(stderr.String(), "PTRACE") || strings.Contains(stderr.String(), "ptrace") {
		t.Skipf("this system lets no process be traced: %s", &stderr)
	}
	content, readErr := os.ReadFile(log)
	if err != nil || readErr != nil {
		t.Fatalf("strace: %v, %v\n%s%s", err, readErr, &stdout, &stderr)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	return stdout.String(), string(content)
}

// heard is the load as the child's output shows it: each writer sent the commits
// that were answered, and its next one.
func heard(t *testing.T, out string, writers, commits int) *load {
	t.Helper()
	l := newLoad()
	next := make([]eventstore.Commit, writers)
	for w := range writers {
		next[w] = loadCommit(w, 0, 0)
		l.send(next[w])
	}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "ack ") {
			continue
		}
		var w, n int
		var p eventstore.Position
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d %d", &w, &n, &p); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		l.ack(next[w].ID, p)
		if n+1 < commits {
			next[w] = loadCommit(w, n+1, p)
			l.send(next[w])
		}
	}
	return l
}
