package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// TestReadOnlyDirectory runs the commands that only read where nothing can be
// written: as root on a read-only mount, else without write permission.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	s := start(t, "serve", "--data", string(d), "--sandbox")
	p, key := createProject(t, d)
	s.ProjectID, s.APIKey = p, key
	s.paid(t)
	s.stops(t)
	for _, views := range []string{"with projections", "without"} {
		if views == "without" {
			removeAll(t, d.Projections())
		}
		for command, want := range map[string]string{
			"balance --data":                    "merchant_payable",
			"balance --statement --data":        "payment.paid",
			"project list --data":               p,
			"events tail --data":                "payment.paid",
			"log checkpoint --data":             "payledger/",
			"log key --data":                    "payledger/",
			"payments list --data":              "1500.00",
			"audit --data":                      p,
			"reconcile --data":                  "Nothing is open",
			"export --format csv --data":        "acquirer_receivable:sandbox",
			"verify --data":                     "completeness  ok",
			"replay --data":                     p,
			"project create Another --data":     "",
			"serve --listen 127.0.0.1:0 --data": "",
		} {
			said, code := readOnly(t, d, command)
			switch {
			case want == "" && (code != cli.ExitDirectory || strings.Contains(said, "damaged")):
				t.Errorf("%s, %s: exit code %d\n%s", views, command, code, said)
			case want != "" && (code != 0 || !strings.Contains(said, want)):
				t.Errorf("%s, %s: exit code %d\n%s", views, command, code, said)
			}
		}
	}
}

func createProject(t *testing.T, d datadir.Dir) (id, key string) {
	t.Helper()
	out, code := payledger(t, "project", "create", "Shop", "--data", string(d), "--json")
	if code != 0 {
		t.Fatal(out)
	}
	a := answer{Body: []byte(out)}
	return a.text(t, "project_id"), a.text(t, "api_key")
}

// readOnly runs a command with a directory that it cannot write to.
func readOnly(t *testing.T, d datadir.Dir, command string) (said string, code int) {
	t.Helper()
	script := `exec payledger ` + command + ` "$0"`
	program := "sh"
	args := []string{"-c", script, string(d)}
	if os.Geteuid() == 0 {
		program = "unshare"
		args = []string{"-m", "sh", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 99; ` + script, string(d)}
	} else {
		chmod(t, d, 0o500, 0o400)
		defer chmod(t, d, 0o700, 0o600)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	if code := cmd.ProcessState.ExitCode(); code == 99 || code == 1 && strings.HasPrefix(string(out), "unshare:") {
		t.Skipf("nothing can be mounted here: %s", out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func chmod(t *testing.T, d datadir.Dir, folder, file os.FileMode) {
	t.Helper()
	for _, name := range d.Files() {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			if err := os.Chmod(name, file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(string(d), folder); err != nil {
		t.Fatal(err)
	}
}
