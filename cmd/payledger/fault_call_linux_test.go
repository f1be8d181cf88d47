package main

import (
	"fmt"
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
