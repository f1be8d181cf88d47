package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// TestLimitedAddressSpace runs with less address space than the mapped files need:
// too little for the log, for the projections. The message says so,
// no file is reported as damaged, and every file stays.
func TestLimitedAddressSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs short, needs more address space than that")
	}
	t.Parallel()
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		createProject(t, d)
	}
	if code := start(t, "serve", "--data", string(d), "--sandbox").stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	there := func() map[string]fs.FileInfo {
		all := make(map[string]fs.FileInfo)
		entries, err := os.ReadDir(string(d))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if all[e.Name()], err = e.Info(); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	before := there()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for gigabytes, commands := range map[int][]string{
		20: {"serve --sandbox --listen 127.0.0.1:0 --data", "project list --data", "verify"},
		72: {"serve --sandbox --listen 127.0.0.1:0 --data", "project list --data"},
	} {
		for _, command := range commands {
			script := fmt.Sprintf(`ulimit -v %d && exec payledger %s "$0"`, gigabytes<<20, command)
			cmd := exec.CommandContext(ctx, "sh", "-c", script, string(d))
			said, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != cli.ExitFailed || !strings.Contains(string(said), "cannot allocate memory") ||
				!strings.Contains(string(said), "No file is damaged.") || strings.Contains(string(said), "is damaged:") {
				t.Errorf("%d GiB, %s: %v\n%s", gigabytes, command, err, said)
			}
		}
	}
	after := there()
	for name, info := range before {
		if after[name] == nil || !os.SameFile(info, after[name]) {
			t.Errorf("%s was made anew", name)
		}
	}
	for name := range after {
		if before[name] == nil {
			t.Errorf("%s is new", name)
		}
	}
}
