package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"payledger/cmd/doctest"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/notifier/health/healthtest"
)

// TestREADME runs the commands of the README as a reader would paste them.
func TestREADME(t *testing.T) {
	t.Parallel()
	webhooks := healthtest.FreeAddress(t)
	doctest.Run(t, "../../README.md",
		doctest.Section{Heading: "Two commands", Elsewhere: "TestScripts/demo"},
		doctest.Section{
			Heading: "Five minutes with curl", Tools: []string{"curl"}, Start: startDemo(),
			Want: []string{
				`"status":"awaiting_payment"`, `"instructions":{"type":"link"`, `"status":"paid"`, `"status":"pending"`, `"status":"succeeded"`,
				`"code":"refund_exists"`, `refund.succeeded`, `"code":"validation_failed"`, `#/amount`, `#/colour`,
			},
		},
		doctest.Section{
			Heading: "Webhooks", Tools: []string{"curl"}, Start: startDemo("--webhook-url", "http://"+webhooks+"/"),
			Before: "JSON='Content-Type: application/json'\nAUTH=\"Authorization: Bearer $PROJECT_ID:$API_KEY\"\n",
			Want:   []string{`"status":"paid"`, "payment.paid", "paid 1500.00 RUB", "sequence 2", "200"},
		},
		doctest.Section{
			Heading: "Three nodes", Tools: []string{"curl"}, Start: startDemo("--nodes", "3"),
			Before: "JSON='Content-Type: application/json'\nAUTH=\"Authorization: Bearer $PROJECT_ID:$API_KEY\"\n",
			Want:   []string{`"amount":"1500.00"`, `"amount":"2.00"`},
		},
		doctest.Section{
			Heading: "Running it",
			Edit: strings.NewReplacer("/var/lib/payledger", "data", "127.0.0.1:8080", "127.0.0.1:0", "--routes routes.json",
				"--routes routes.json --json > ready &\nuntil grep base_url ready; do sleep 0.1; done"),
			Before: `echo '[{"route":"acme"}]' > routes.json`,
			After:  "kill %1\nwait %1",
			Want:   []string{`"api_key":"sk_`},
		},
	)
}

// TestRunbook runs the operators' commands, on a running or a stopped server.
func TestRunbook(t *testing.T) {
	t.Parallel()
	nodes := doctest.Section{Heading: "Three nodes", Elsewhere: "the long form of this test"}
	if long() {
		nodes = clusterRunbook(t)
	}
	doctest.Run(t, "RUNBOOK.md",
		nodes,
		doctest.Section{
			Heading: "Back up", Start: startPaidDemo,
			After: "cat monday.db.keys",
			Want:  []string{"integrity     ok", "integrity     ok", "completeness  ok", "master.key"},
		},
		doctest.Section{
			Heading: "Read the books", Start: startPaidDemo,
			After: "cat events.jsonl",
			Want:  []string{"merchant_payable", "1500.00", "byte for byte", "payment.paid"},
		},
		doctest.Section{
			Heading: "Settle with providers", Start: startPaidDemo,
			Before: "printf 'kind,reference,gross,fee,net,currency,settled_on\\nfee,,0.00,5.00,-5.00,RUB,2020-02-20\\npayment,x,10.00,0.00,10.00,RUB,2020-02-20\\n' > week.csv",
			Want:   []string{"unknown_reference", "Nothing is recorded", "Recorded report sandbox:week: 2 lines", "Resolved line sandbox:week/2", "Nothing is open"},
		},
		doctest.Section{
			Heading: "Record payouts", Start: startPaidDemo,
			Want: []string{"Arrived: 1455.00 RUB", "Paid to the merchant: 1000.00 RUB, BANK-1043", "BANK-1042", "payout.merchant"},
		},
		doctest.Section{Heading: "Clear what lies in suspense", Elsewhere: "TestScripts/suspense"},
		doctest.Section{
			Heading: "Restore", Start: stoppedPaidDemo,
			Before: `payledger backup monday.db --data "$DATA"`,
			Want:   []string{"integrity     ok", "completeness  ok"},
		},
		doctest.Section{
			Heading: "Repair a damaged file", Start: damagedPaidDemo,
			Before: `cp "$MONDAY" monday.db`,
			Want: []string{
				"up to position 4", "monday.db: 2 events", "EVENTS: 4 events", "ledger.db: 2 events", "integrity     ok", "completeness  ok",
				"up to position 4", "ledger.db: 4 events", "EVENTS: 4 events", "integrity     ok", "completeness  ok",
			},
		},
		doctest.Section{Heading: "Signals and money", Start: startPaidDemo},
	)
}

// TestAuditorsREADME runs the auditors' commands on a running server.
func TestAuditorsREADME(t *testing.T) {
	t.Parallel()
	doctest.Run(t, "../../eventstore/audit/README.md", doctest.Section{
		Heading: "Check the log", Tools: []string{"tar"}, Start: startPaidDemo,
		After: "cat journal.hledger",
		Want:  []string{"integrity     ok", "completeness  ok", "merchant_payable", "Demo shop", "awaiting_payment", "1500.00 RUB"},
	}, doctest.Section{
		Heading: "With nothing but a file", Start: startPaidDemo,
		Before: `payledger log key --data "$DATA" > verifier.key
payledger export --data "$DATA" --format bundle --output books.tar`,
		Want: []string{"integrity     ok", "merchant_payable", "Nothing is open", "key.issued", "paid, 1500.00 RUB", "completeness  not checked: a receipt"},
	}, doctest.Section{
		Heading: "Witnesses", Start: startPaidDemo,
		Before: `payledger log key --data "$DATA" > verifier.key
payledger log checkpoint --data "$DATA" > monday.checkpoint
payledger export --data "$DATA" --format bundle --output books.tar`,
		Want: []string{"audit.example.com vouched for it", "integrity     ok", "1 of 1 witnesses vouch"},
	})
}

// TestNotifierREADME runs the commands that manage endpoints.
func TestNotifierREADME(t *testing.T) {
	t.Parallel()
	doctest.Run(t, "../../notifier/README.md",
		doctest.Section{
			Heading: "Consumers", Start: startPaidDemo,
			Want: []string{`"password":"`, "shown this once", "all payments"},
		},
		doctest.Section{
			Heading: "Webhooks", Start: startPaidDemo,
			Want: []string{`"secret":"whsec_`, "https://shop.example/hooks"},
		},
	)
}

// startDemo runs a demo with these flags as a reader does, and answers the
// variables that its export lines set.
func startDemo(flags ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		cmd := exec.Command("payledger", append([]string{"demo", "--listen", "127.0.0.1:0"}, flags...)...)
		var stdout, stderr healthtest.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		})
		eventually(t, "the demo is ready", func() bool {
			return strings.Contains(stdout.String(), "Watch the log") || cmd.Process.Signal(syscall.Signal(0)) != nil
		})
		var variables []string
		for line := range strings.Lines(stdout.String()) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
				variables = append(variables, v)
			}
		}
		if len(variables) == 0 {
			t.Fatalf("the demo prints no variables\n%s%s", &stdout, &stderr)
		}
		return variables
	}
}

// startPaidDemo runs a demo in which a payment was paid.
func startPaidDemo(t *testing.T) []string {
	t.Helper()
	s := start(t, "demo")
	s.paid(t)
	return s.environment()
}

// stoppedPaidDemo is the directory of a demo in which a payment was paid, and
// that has ended.
func stoppedPaidDemo(t *testing.T) []string {
	t.Helper()
	s := start(t, "demo", "--data", filepath.Join(t.TempDir(), "d"))
	s.paid(t)
	if code := s.stop(); code != 0 {
		t.Fatalf("the demo ended with %d", code)
	}
	return s.environment()
}

// damagedPaidDemo is stoppedPaidDemo with a backup from before the payment, and two
// events of the log damaged.
func damagedPaidDemo(t *testing.T) []string {
	t.Helper()
	s := start(t, "demo", "--admin-listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d"))
	monday := filepath.Join(t.TempDir(), "monday.db")
	if out, code := payledger(t, "backup", monday, "--data", s.Data); code != 0 {
		t.Fatal(out)
	}
	s.paid(t)
	eventually(t, "EVENTS has the payment", func() bool {
		return bytes.Contains(s.scrape(t), []byte("\npayledger_relay_lag_events 0\n"))
	})
	if code := s.stop(); code != 0 {
		t.Fatalf("the demo ended with %d", code)
	}
	if err := spoil(datadir.Dir(s.Data).Ledger(), func(at eventstore.Position) bool { return at == 1 || at == 3 }); err != nil {
		t.Fatal(err)
	}
	return append(s.environment(), "MONDAY="+monday)
}

func (s *server) environment() []string {
	return []string{
		"BASE=" + s.BaseURL, "PROJECT_ID=" + s.ProjectID, "API_KEY=" + s.APIKey, "DATA=" + s.Data, "WEBHOOK_SECRET=" + s.WebhookSecret,
	}
}

// TestDocuments finds the documents of the repository: each is run by a test.
func TestDocuments(t *testing.T) {
	t.Parallel()
	run := []string{
		"cmd/payledger-bench/README.md", // its own package
		"README.md",                     // TestREADME
		"cmd/payledger/RUNBOOK.md",
		"eventstore/audit/README.md",
		"notifier/README.md",
	}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" && !slices.Contains(run, name) {
			content, err := fs.ReadFile(root, name)
			if err == nil && len(doctest.Scripts(string(content))) > 0 {
				t.Errorf("no test runs the commands of %s: see package doctest", name)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
