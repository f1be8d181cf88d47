package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/storetest"
	"payledger/notifier/health/healthtest"
)

// TestFailedCallsOfServer makes system calls of a server under load fail. The server
// ends with an error, and after the next start everything acknowledged is there.
func TestFailedCallsOfServer(t *testing.T) {
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	h := newShop(t, filepath.Join(t.TempDir(), "data"))
	h.frugal = true // a provider that is being waited for holds up the end
	s := h.serve(t)
	for round, fault := range []string{
		"fdatasync:error=EIO:when=1", "fdatasync:error=EIO:when=2+", "pwrite64:error=ENOSPC:when=1", "pwrite64:error=EIO:when=3",
	} {
		wait := h.open(s, 8, 1<<16, round)
		h.mu.Lock()
		goal := len(h.made) + 30
		h.mu.Unlock()
		h.until(t, "payments are made", func() bool { return len(h.made) >= goal })
		call, _, _ := strings.Cut(fault, ":")
		strace := exec.Command("strace", "-f", "-qq", "-p", fmt.Sprint(s.cmd.Process.Pid), "-P", datadir.Dir(h.data).Ledger(),
			"-e", "trace="+call, "-e", "inject="+fault)
		var trace healthtest.Buffer
		strace.Stderr = &trace
		if err := strace.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.exited:
		case <-time.After(patience):
			if strings.Contains(trace.String(), "ptrace") {
				t.Skipf("this system lets no process be traced: %s", &trace)
			}
			t.Errorf("%s: the server still runs", fault)
			s.kill()
		}
		wait()
		strace.Wait() //nolint:errcheck // it ends with the server
		if !strings.Contains(trace.String(), "(INJECTED)") || !strings.Contains(trace.String(), "ledger.db") && !strings.Contains(trace.String(), call) {
			t.Errorf("%s was not injected:\n%s", fault, &trace)
		}
		if code := s.cmd.ProcessState.ExitCode(); code != cli.ExitFailed || !strings.Contains(s.stderr.String(), "stopping, start again to go on from what is on disk") {
			t.Errorf("%s: exit code %d\n%s\n%s", fault, code, s.stderr, &trace)
		}
		s = h.serve(t)
		h.intact(t, fault, s)
	}
}

// TestRestoreOfAnotherLogIsKilled at each file that it puts in place: until it is given again, a server
// has one of the logs with all its keys, or does not start. No log says that it was restored when it was not.
func TestRestoreOfAnotherLogIsKilled(t *testing.T) {
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	dir := t.TempDir()
	one, other, backup := filepath.Join(dir, "one"), filepath.Join(dir, "other"), filepath.Join(dir, "monday")
	for _, data := range []string{one, other} { // with as many events
		does(t, "init", "--data", data)
		does(t, "project", "create", filepath.Base(data), "--data", data)
	}
	does(t, "backup", backup, "--with-keys", "--data", other)
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for n, killed := 1, true; killed; n++ {
		data := filepath.Join(dir, fmt.Sprint("killed", n))
		if err := os.CopyFS(data, os.DirFS(one)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(data, 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat,renameat2", "-e", fmt.Sprintf("inject=renameat,renameat2:signal=SIGKILL:when=%d", n),
			"payledger", "restore", backup, "--data", data, "--force").CombinedOutput()
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("this system lets no process be traced: %s", out)
		}
		killed = err != nil
		d := datadir.Dir(data)
		serves := func() bool {
			s, err := startServer("127.0.0.1:0", "serve", "--data", data)
			if err != nil {
				return false
			}
			defer s.stops(t)
			eventually(t, "the note of the restore is gone", func() bool { return !datadir.Exists(d.Restored()) })
			of, restores := one, 0
			if !strings.Contains(does(t, "project", "list", "--data", data), "one") {
				of, restores = other, 1
			}
			if read(d.MasterKey()) != read(datadir.Dir(of).MasterKey()) {
				t.Errorf("killed at file %d: the log of %s is served with another master key", n, filepath.Base(of))
			}
			if acts := does(t, "audit", "--data", data); strings.Count(acts, "log.restored") != restores {
				t.Errorf("killed at file %d: %d restores are to be recorded in the log of %s\n%s", n, restores, filepath.Base(of), acts)
			}
			return true
		}
		if !serves() && read(d.Ledger()) == read(datadir.Dir(one).Ledger()) {
			for _, name := range datadir.KeyFiles() {
				copyTo(t, filepath.Join(one, name), d.File(name))
			}
			if !serves() {
				t.Errorf("killed at file %d: with its keys put back, the log is not served", n)
			}
		}
		does(t, "restore", backup, "--data", data, "--force")
		if !serves() {
			t.Errorf("killed at file %d and restored again: it is not served", n)
		}
	}
}
