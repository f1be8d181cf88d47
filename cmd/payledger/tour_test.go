package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTour runs the README's tour as a reader would paste it.
func TestTour(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the tour is written for it", tool)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, found := strings.Cut(string(readme), "\n## Five minutes with curl\n")
	tour, _, ended := strings.Cut(tour, "\n## ")
	if !found || !ended {
		t.Fatal("the README has lost its tour")
	}
	script := "set -euo pipefail\n"
	for i, block := range strings.Split(tour, "```") {
		if code, ok := strings.CutPrefix(block, "sh\n"); ok && i%2 == 1 {
			script += code
		}
	}
	s := start(t, "demo")
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "BASE="+s.BaseURL, "PROJECT_ID="+s.ProjectID, "API_KEY="+s.APIKey)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{
		`"status":"created"`, `"instructions":{"type":"link"`, `"status":"paid"`, `"status":"pending"`, `"status":"succeeded"`,
		`"code":"refund_exists"`, `refund.succeeded`, `"code":"validation_failed"`, `#/amount`, `#/colour`,
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("the tour does not come to %s after what it printed before\n%s", want, out)
		}
		rest = after
	}
}
