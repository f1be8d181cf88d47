package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"payledger/cmd/payledger/bench"
)

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
