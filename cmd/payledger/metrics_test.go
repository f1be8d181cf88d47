package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestMetrics reads the metrics of a server as Prometheus does: their names follow
// its conventions, every metric named in the code is among them, and the page, the
// alerts and the dashboard describe them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	routes, secret := filepath.Join(t.TempDir(), "routes.json"), filepath.Join(t.TempDir(), "secret")
	for file, content := range map[string]string{
		secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n",
		routes: `{"rules":[{"route":"sandbox"}],"connectors":{"sandbox":{"type":"sandbox"},` +
			`"acme":{"type":"http","url":"http://127.0.0.1:9","secret_file":"` + secret + `"}}}`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "demo", "--routes", routes, "--webhook", "--data", filepath.Join(t.TempDir(), "data"), "--admin-listen", "127.0.0.1:0")
	refunded := s.paid(t)
	s.do(t, 201, "POST", "/v1/refunds", `{"payment_id":"`+refunded+`"}`)
	late := s.do(t, 201, "POST", "/v1/payments", `{"amount":"10.50"}`).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+late, `{"outcome":"failed"}`)
	s.do(t, 409, "POST", "/v1/sandbox/payments/"+late, `{"outcome":"paid"}`)
	for _, line := range []string{
		`payledger_payments_total{route="sandbox",status="awaiting_payment"} 2`,
		`payledger_payments_total{route="sandbox",status="paid"} 1`,
		`payledger_payments_total{route="sandbox",status="failed"} 1`,
		`payledger_refunds_total{route="sandbox",status="pending"} 1`,
		`payledger_suspense_amount{currency="RUB"} 10.5`,
		`payledger_payment_oldest_unrouted_age_seconds 0`,
		`payledger_webhook_oldest_pending_age_seconds 0*[.]?0*[1-9]`,
		`payledger_log_commit_group_size_count [1-9]`,
		`payledger_log_commit_duration_seconds_count [1-9]`,
		`payledger_disk_free_bytes [1-9]`,
		`payledger_disk_free_min_bytes 2.68435456e\+08`,
		`payledger_routing_rules 1`,
		`payledger_relay_lag_seconds [0-9]`,
		`payledger_build_info{go="go1[^"]*",revision="[^"]*",version="[^"]*"} 1`,
	} {
		pattern := regexp.MustCompile("(?m)^" + line)
		eventually(t, line, func() bool { return pattern.Match(s.scrape(t)) })
	}
	text := s.scrape(t)
	checkMetricsPage(t, text)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			families[name] = true
			if !strings.HasPrefix(name, "payledger_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s: of whom?", name)
			}
		}
	}
	named := namedMetrics(t)
	for name, where := range named {
		if !families[name] {
			t.Errorf("%s names the metric %s, which the server does not have", where, name)
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "payledger_") && !strings.HasSuffix(name, "_up") && named[name] == "" {
			t.Errorf("the metric %s is named in no file: it was not looked for", name)
		}
	}
	for _, part := range []string{"expirer", "enforcer", "checkpoints", "relay"} {
		up := "payledger_" + part + "_up 1\n"
		eventually(t, part+" is up", func() bool { return bytes.Contains(s.scrape(t), []byte(up)) })
	}
	if wrong, err := promlint.New(strings.NewReader("# TYPE payledger_relay_count gauge\npayledger_relay_count 1\n")).Lint(); err != nil || len(wrong) == 0 {
		t.Errorf("a metric without help passes: %v", err)
	}
}

func (s *server) scrape(t *testing.T) []byte {
	t.Helper()
	resp, err := http.Get("http://" + s.AdminAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", resp.StatusCode, text, err)
	}
	return text
}

// namedMetrics finds the names of metrics in the code, each with its file.
func namedMetrics(t *testing.T) map[string]string {
	t.Helper()
	name := regexp.MustCompile(`^payledger_[a-z0-9_]*[a-z0-9]$`)
	found := map[string]string{}
	for _, room := range []string{"httpapi", "notifier", "cmd/payledger"} {
		err := filepath.WalkDir(filepath.Join("..", "..", room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(src, []byte("client_golang/prometheus")) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && name.MatchString(text) {
						found[text] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 20 {
		t.Errorf("%d metrics are named: the search has gone blind", len(found))
	}
	return found
}
