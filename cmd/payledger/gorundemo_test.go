package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGoRunDemo starts the demo twice as the README says. The second time "go run"
// starts the program from its cache, wherever that is.
func TestGoRunDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	t.Parallel()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "cache")
	if err := os.Symlink(strings.TrimSpace(string(cache)), elsewhere); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.Command("go", "run", ".", "demo", "--listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), "GOCACHE="+elsewhere, "TMPDIR="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the program is not "go" itself
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		limit := time.AfterFunc(5*patience, end) // a build from nothing on a busy machine takes minutes
		var hint string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, after, ok := strings.Cut(lines.Text(), "Watch the log:"); ok {
				hint = strings.TrimSpace(after)
				end()
			}
		}
		limit.Stop()
		_ = cmd.Wait() // ended by a signal
		if !strings.HasPrefix(hint, "go run ./cmd/payledger events tail") {
			t.Errorf("the hint is %q", hint)
		}
	}
}
