// Package exporttest asks hledger about journals.
package exporttest

import (
	"context"
	"encoding/csv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Hledger runs hledger on a journal. Without the program the test is skipped,
// or fails where PAYLEDGER_REQUIRE_TOOLS says that it must be there.
func Hledger(t *testing.T, journal string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("hledger")
	if err != nil {
		if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
			t.Fatal("hledger is not installed, and PAYLEDGER_REQUIRE_TOOLS asks for it: install the package hledger")
		}
		t.Skip("hledger is not installed: install the package hledger to check the journal with it")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, append(args, "-f", journal)...)
	cmd.Env = append(os.Environ(), "LANG=C.UTF-8", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("hledger %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// HledgerBalances reads hledger's own balances, as "account amount commodity".
func HledgerBalances(t *testing.T, journal string) []string {
	t.Helper()
	out := Hledger(t, journal, "balance", "--flat", "--empty", "--no-total", "--layout=bare", "-O", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var all []string
	for _, row := range rows[1:] {
		amount := row[2]
		if !strings.Contains(amount, ".") {
			amount += ".00"
		}
		all = append(all, row[0]+" "+amount+" "+row[1])
	}
	slices.Sort(all)
	return all
}

// EqualUnlessZero compares balances; hledger leaves the commodity of a zero
// away.
func EqualUnlessZero(got, want []string) bool {
	zero := func(s string) bool { return strings.Contains(s, " 0.00 ") }
	return slices.Equal(slices.DeleteFunc(slices.Clone(got), zero), slices.DeleteFunc(slices.Clone(want), zero))
}
