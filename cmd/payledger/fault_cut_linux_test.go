package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/storetest"
)

// TestPowerCutOfServer cuts the power of the disk under a server with 32
// customers.
func TestPowerCutOfServer(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 64)
	h := newShop(t, filepath.Join(disk.Dir, "data"))
	const minFree = "--min-free=1"
	for round, how := range []storetest.Cut{storetest.CutAtOnce, storetest.CutWithJournal, storetest.CutAtOnce} {
		s := h.serve(t, minFree)
		wait := h.open(s, 32, 1<<16, round)
		h.mu.Lock()
		goal := len(h.made) + 150
		h.mu.Unlock()
		h.until(t, "payments are made", func() bool { return len(h.made) >= goal })
		disk.Cut(how)
		<-s.exited // it cannot write any more, and ends by itself
		wait()
		if code := s.cmd.ProcessState.ExitCode(); code != cli.ExitFailed {
			t.Errorf("exit code %d, want %d\n%s", code, cli.ExitFailed, s.stderr)
		}
		disk.Restore()
		h.data = filepath.Join(disk.Dir, "data")
		s = h.serve(t, minFree)
		h.intact(t, fmt.Sprintf("after cut number %d", round), s)
		s.stops(t)
	}
}

// writing are the system calls by which init changes the disk.
var writing = []string{"mkdirat", "write", "pwrite64", "ftruncate", "fdatasync", "fsync", "?link,linkat", "renameat", "unlinkat"}

// TestPowerCutDuringInitOfDirectory cuts the power before each of init's system
// calls, each kind on its own disk, until init ends. The short form cuts before the
// first call of each kind and every fourth after it. Afterwards there is a whole
// data directory, or init can make one; once init has ended there is one.
func TestPowerCutDuringInitOfDirectory(t *testing.T) {
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	calls, step := writing, 4
	switch {
	case testing.Short():
		calls = []string{"fsync", "?link,linkat"}
	case long():
		step = 1
	}
	var whole, again atomic.Int64
	t.Cleanup(func() { // after all calls
		t.Logf("%d cuts left a whole directory, %d one to make again", whole.Load(), again.Load())
		if n := int64(len(calls)); again.Load() < n || whole.Load() < n {
			t.Errorf("of the cuts %d left nothing and %d a whole directory", again.Load(), whole.Load())
		}
	})
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewDisk(t, 32)
			killed := true
			for n := 1; killed; n += step {
				name := fmt.Sprintf("%d/data", n)
				killed, _ = initUnder(t, datadir.Dir(filepath.Join(disk.Dir, name)), call, fmt.Sprintf("signal=KILL:when=%d", n))
				disk.Cut(storetest.CutAtOnce)
				disk.Restore()
				d := datadir.Dir(filepath.Join(disk.Dir, name))
				if wholeOrAgain(t, fmt.Sprintf("cut before %s number %d", call, n), d, killed) {
					whole.Add(1)
				} else {
					again.Add(1)
				}
			}
		})
	}
}

// TestFailedCallsOfInit makes each of init's calls fail, one at a time; the short
// form every second.
func TestFailedCallsOfInit(t *testing.T) {
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	for call, fault := range map[string]string{
		"fdatasync": "EIO", "fsync": "EIO", "pwrite64": "ENOSPC", "ftruncate": "ENOSPC", "?link,linkat": "EIO", "renameat": "EIO",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for n := 1; ; n += 1 + rounds(1, 0) {
				d := datadir.Dir(filepath.Join(t.TempDir(), "new", "data"))
				told, injected := initUnder(t, d, call, fmt.Sprintf("error=%s:when=%d", fault, n))
				wholeOrAgain(t, fmt.Sprintf("%s of %s number %d", fault, call, n), d, told)
				if !injected {
					break
				}
				if told { // else it was one that the process makes before it begins
					failed++
				}
			}
			if failed == 0 {
				t.Error("no call failed")
			}
		})
	}
}

// initUnder runs init under strace. It reports whether init failed or was killed,
// and whether the fault happened.
func initUnder(t *testing.T, d datadir.Dir, call, fault string) (failed, injected bool) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-qq", "-o", trace, "-e", "trace="+call, "-e", "inject="+call+":"+fault, oneThread, "init", "--data", string(d))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "ptrace") || strings.Contains(string(out), "PTRACE") {
		t.Skipf("this system lets no process be traced: %s", out)
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != cli.ExitDirectory && strings.HasPrefix(fault, "error") {
		t.Errorf("%s %s: exit code %d: %s", call, fault, code, out)
	}
	calls, readErr := os.ReadFile(trace)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return err != nil, strings.Contains(string(calls), "INJECTED")
}

// wholeOrAgain reports whether init left a whole data directory. If not, init must
// have failed, and a second init makes one.
func wholeOrAgain(t *testing.T, what string, d datadir.Dir, failed bool) (whole bool) {
	t.Helper()
	_, err := os.Stat(d.Ledger())
	whole = err == nil
	if !whole && !failed {
		t.Fatalf("%s: init had returned, and there is no ledger: %v", what, err)
	}
	if !whole {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if out, code := payledger(t, "init", "--data", string(d)); code != 0 {
			t.Fatalf("%s: init again: exit code %d: %s", what, code, out)
		}
	}
	if out, code := payledger(t, "events", "tail", "--data", string(d)); code != 0 {
		t.Fatalf("%s: the directory does not work: %d %s", what, code, out)
	}
	return whole
}
