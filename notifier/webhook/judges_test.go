package webhook_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// judgesVariable names the directory whose node_modules has the official
// packages.
const judgesVariable = "PAYLEDGER_WEBHOOK_JUDGES"

// nodeJudges lets the official packages for Node judge, and answers what they
// see otherwise than the trials. Without them the test is skipped, or fails
// where PAYLEDGER_REQUIRE_TOOLS says that they must be there.
func nodeJudges(t *testing.T, trials []trial) []string {
	t.Helper()
	missing := ""
	dir := os.Getenv(judgesVariable)
	node, err := exec.LookPath("node")
	if err != nil {
		missing = "node is not installed: install the package nodejs"
	} else if dir == "" {
		missing = judgesVariable + " names no directory with the npm packages standardwebhooks and svix"
	}
	if missing != "" {
		if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
			t.Fatal(missing + ", and PAYLEDGER_REQUIRE_TOOLS is set")
		}
		t.Skip(missing)
	}
	in, err := json.Marshal(trials)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), node, filepath.Join("testdata", "judge.cjs"), dir)
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, &stderr)
	}
	var otherwise []string
	if err := json.Unmarshal(out, &otherwise); err != nil {
		t.Fatalf("node said %q: %v", out, err)
	}
	return otherwise
}

// TestSignaturesOfficialNode lets the packages standardwebhooks and svix
// judge.
func TestSignaturesOfficialNode(t *testing.T) {
	t.Parallel()
	for i, what := range nodeJudges(t, trials(t)) {
		if t.Error(what); i == 10 {
			t.Fatal("and so on")
		}
	}
}

// TestNodeJudgesBite tells the packages the opposite of the truth: they must
// contradict every time, both of them.
func TestNodeJudgesBite(t *testing.T) {
	t.Parallel()
	lies := trials(t)[:11]
	for i := range lies {
		lies[i].Good = !lies[i].Good
	}
	otherwise := nodeJudges(t, lies)
	if len(otherwise) != 2*len(lies) || slices.ContainsFunc(otherwise, func(s string) bool { return strings.Contains(s, "broken") }) {
		t.Errorf("%d of %d lies were contradicted: %q", len(otherwise), 2*len(lies), otherwise)
	}
}
