package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"payledger/cmd/doctest"
)

// TestMain puts the program on PATH as "payledger-bench".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"payledger-bench": main})
}

// TestScripts runs testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireUniqueNames: true})
}

// TestREADME runs the README's commands: every suite, and the comparison, far
// too short to mean anything.
func TestREADME(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAYLEDGER_LONG") == "" {
		t.Skip("it loads the machine for a minute: run with PAYLEDGER_LONG=1")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "payledger")
	env := []string{
		"TMPDIR=" + dir, "PAYLEDGER_BENCH_PROGRAM=" + program, "PAYLEDGER_BENCH_NEW=" + program,
		"PAYLEDGER_BENCH_DURATION=20ms", "PAYLEDGER_BENCH_ROUNDS=1", "PAYLEDGER_BENCH_PAYMENTS=50",
	}
	if out, err := exec.Command("go", "build", "-o", program, "payledger/cmd/payledger").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	short := strings.NewReplacer("go run ./cmd/payledger-bench", "payledger-bench", "--payments 1000000", "--payments 100",
		"post read --rounds 5", "replay relay --rounds 2") // post and read run with all the others
	doctest.Run(t, "README.md",
		doctest.Section{
			Heading: "Run it", Dir: "../..", Env: env, Edit: short, After: `ls "$TMPDIR"`,
			Want: []string{
				"growth    POST, memory and disk",
				"POST, 1 connection", "POST for each server core, 256 connections", "GET, 64 connections", "repeat of a key", "POST at 4000/s: p99",
				"GET while POST", "whole life", "POST of a refund", "webhook deliveries", "beside silent receivers", "on a slow disk",
				"replay, 200 events", "verify with its projections", "backlog", "resident memory", "disk for each payment", "ready after kill -9", "deliveries pending", "copy of 50 payments",
				"POST on three nodes", "GET on a follower", "when the leader is asked to end", "is killed", "is cut off",
				"read again afterwards", "replay, 200 events", "ready after kill -9 with 100 payments",
			},
		},
		doctest.Section{
			Heading: "Compare two versions", Dir: "../..", Env: env, Edit: short,
			Want: []string{"POST, 256 connections", "POST at 1000/s: p99", "whole life", "JetStream's disk", "webhook deliveries", "read again afterwards"},
		},
	)
}

// TestExitCodes: a payment that is not found again has a code of its own.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, err := range map[int]error{
		0: nil, exitFailed: &answerError{"refused"}, exitUsage: &usageError{"what?"},
		exitLost: fmt.Errorf("suite post: %w", &lostError{&answerError{"gone"}}),
	} {
		var stderr bytes.Buffer
		if got := fail(&stderr, err); got != code {
			t.Errorf("%v: exit code %d, want %d\n%s", err, got, code, &stderr)
		}
	}
}
