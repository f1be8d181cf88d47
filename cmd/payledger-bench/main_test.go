package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"payledger/cmd/payledger-bench/bench"
)

// TestMain puts the program on PATH as "payledger-bench".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"payledger-bench": main})
}

// TestScripts runs testdata/script/*.txtar against a payledger that is built
// from this source.
func TestScripts(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "payledger")
	if out, err := exec.Command("go", "build", "-o", program, "payledger/cmd/payledger").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PAYLEDGER_BENCH_PROGRAM", program)
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
	})
}

// TestBenchLost: a payment that is not found afterwards fails the run with a
// code of its own.
func TestBenchLost(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	err := fmt.Errorf("suite post: %w", &bench.LostError{Target: "payledger", Checked: 9, Lost: 1, First: []string{"01M7W78FJBM8T4R7B5N0C1D2E3"}})
	if code := report(&stderr, benchError(err)); code != exitVerify || !strings.Contains(stderr.String(), "01M7W78FJBM8T4R7B5N0C1D2E3") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	if code := report(&stderr, benchError(&bench.RefusedError{})); code != exitFailed {
		t.Errorf("exit code %d of refused requests", code)
	}
}
