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
	script := readmeScript(t, "Five minutes with curl")
	s := start(t, "demo")
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "BASE="+s.BaseURL, "PROJECT_ID="+s.ProjectID, "API_KEY="+s.APIKey)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantInOrder(t, string(out),
		`"status":"created"`, `"instructions":{"type":"link"`, `"status":"paid"`, `"status":"pending"`, `"status":"succeeded"`,
		`"code":"refund_exists"`, `refund.succeeded`, `"code":"validation_failed"`, `#/amount`, `#/colour`)
}

// TestAuditorsWalk runs the README's commands for auditors on a running server.
func TestAuditorsWalk(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the walk is written for it", tool)
		}
	}
	s := start(t, "demo")
	s.paid(t)
	cmd := exec.Command("bash", "-c", readmeScript(t, "For auditors")+"cat journal.hledger\n")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "DATA="+s.Data)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantInOrder(t, string(out), "integrity     ok", "completeness  ok", "merchant_payable", "Demo shop", "created", "1500.00 RUB")
}

// readmeScript is all of a section's shell code.
func readmeScript(t *testing.T, section string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "\n## "+section+"\n")
	text, _, ended := strings.Cut(text, "\n## ")
	if !found || !ended {
		t.Fatalf("the README has lost its section %q", section)
	}
	script := "set -euo pipefail\n"
	for i, block := range strings.Split(text, "```") {
		if code, ok := strings.CutPrefix(block, "sh\n"); ok && i%2 == 1 {
			script += code
		}
	}
	return script
}

// wantInOrder fails unless out has all of these, one after the other.
func wantInOrder(t *testing.T, out string, all ...string) {
	t.Helper()
	rest := out
	for _, want := range all {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("there is no %s after what was printed before\n%s", want, out)
		}
		rest = after
	}
}

// TestWebhooksTour runs the README's commands that show a webhook arrive.
func TestWebhooksTour(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the tour is written for it", tool)
		}
	}
	addr := freeAddress(t)
	s := start(t, "demo", "--webhook-url", "http://"+addr+"/")
	const variables = "JSON='Content-Type: application/json'\nAUTH=\"Authorization: Bearer $PROJECT_ID:$API_KEY\"\n"
	cmd := exec.Command("bash", "-c", variables+readmeScript(t, "Webhooks"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "BASE="+s.BaseURL, "PROJECT_ID="+s.ProjectID, "API_KEY="+s.APIKey,
		"WEBHOOK_ADDR="+addr, "WEBHOOK_SECRET="+s.WebhookSecret)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantInOrder(t, string(out), `"status":"paid"`, "payment.paid", "paid 1500.00 RUB", "sequence 3", "200")
}
