package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

var updateMetrics = flag.Bool("update-metrics", false, "write the table of METRICS.md anew")

const monitoring = "deploy/prometheus/"

// family is a metric as /metrics describes it.
type family struct {
	typ, help string
	labels    map[string]bool
}

// familiesOf reads the text format of Prometheus.
func familiesOf(text []byte) map[string]*family {
	all := make(map[string]*family)
	of := func(name string) *family {
		if all[name] == nil {
			all[name] = &family{labels: make(map[string]bool)}
		}
		return all[name]
	}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			of(name).help = help
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, typ, _ := strings.Cut(rest, " ")
			of(name).typ = typ
			continue
		}
		name, rest, labelled := strings.Cut(line, "{")
		if !labelled {
			continue
		}
		f := all[familyName(all, name)]
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			f.labels[m[1]] = f.labels[m[1]] || m[1] != "le"
		}
		delete(f.labels, "le")
	}
	return all
}

// familyName is the metric that a series is part of.
func familyName(all map[string]*family, series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && all[name] != nil && all[name].typ == "histogram" {
			return name
		}
	}
	return series
}

// checkMetricsPage compares METRICS.md, the alerts and the dashboard with the
// metrics of a server.
func checkMetricsPage(t *testing.T, scraped []byte) {
	t.Helper()
	all := familiesOf(scraped)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; strings.HasPrefix(name, "payledger_") {
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, f.typ, strings.Join(slices.Sorted(maps.Keys(f.labels)), ", "), f.help)
		}
	}
	page, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if begin := strings.Index(text, "\n| metric |"); begin >= 0 { // a heading, not a part of one
		text = text[:begin+1]
	}
	if want := text + table.String(); *updateMetrics {
		if err := os.WriteFile("METRICS.md", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Error("METRICS.md is not what the server measures: run \"go generate ./cmd/payledger\"")
	}
	alerts, err := os.ReadFile(monitoring + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range namesIn(text) {
		if all[name] == nil {
			t.Errorf("METRICS.md speaks of %s, which the server does not have", name)
		}
	}
	for _, name := range namesIn(string(alerts)) {
		if all[familyName(all, name)] == nil && !strings.HasPrefix(name, "payledger_(") {
			t.Errorf("alerts.yml speaks of %s, which the server does not have", name)
		}
	}
	checkRunbookOf(t, string(alerts))
	_, parts, _ := strings.Cut(string(alerts), `__name__=~"`)
	parts, _, _ = strings.Cut(parts, `"`)
	for name := range all {
		if down := regexp.MustCompile("^" + parts + "$").MatchString(name); down != strings.HasSuffix(name, "_up") {
			t.Errorf("alerts.yml, PayledgerPartDown: it names %s: %t", name, down)
		}
	}
	for title, expr := range dashboardQueries(t) {
		names := namesIn(expr)
		for _, name := range names {
			if all[familyName(all, name)] == nil {
				t.Errorf("dashboard.json, %q asks for %s, which the server does not have", title, name)
			}
		}
		if len(names) == 0 && !strings.HasPrefix(expr, "up{") {
			t.Errorf("dashboard.json, %q asks for no metric: %s", title, expr)
		}
	}
}

// namesIn finds the names of metrics in a text.
func namesIn(text string) []string {
	return regexp.MustCompile(`\b(?:payledger|process|go)_[a-z0-9_]*[a-z0-9]\b`).FindAllString(text, -1)
}

// checkRunbookOf finds the sections of the runbook that alerts name.
func checkRunbookOf(t *testing.T, alerts string) {
	t.Helper()
	runbook, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^ *runbook: (.*)$`).FindAllStringSubmatch(alerts, -1)
	if len(sections) < 20 || len(sections) != strings.Count(alerts, "- alert:") {
		t.Errorf("%d of %d alerts name a section of the runbook", len(sections), strings.Count(alerts, "- alert:"))
	}
	for _, s := range sections {
		if !strings.Contains(string(runbook), "\n## "+s[1]+"\n") {
			t.Errorf("alerts.yml names the section %q, which the runbook does not have", s[1])
		}
	}
}

// dashboardQueries are the queries of the dashboard by the titles of their panels.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Targets []struct {
				Ref  string `json:"refId"`
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	queries := make(map[string]string)
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("dashboard.json has the id %d twice", p.ID)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			queries[p.Title+" "+q.Ref] = q.Expr
		}
	}
	if len(queries) < 20 {
		t.Errorf("%d queries: the search has gone blind", len(queries))
	}
	return queries
}

// TestAlerts checks the alerts and the queries of the dashboard with promtool.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := requireTool(t, "promtool", "prometheus")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("check", "rules", monitoring+"alerts.yml")
	run("test", "rules", monitoring+"alerts_test.yml")

	// Written as rules, the queries of the dashboard are checked too.
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	var rules []rule
	queries := dashboardQueries(t)
	for i, title := range slices.Sorted(maps.Keys(queries)) {
		queries[title] = variables.Replace(queries[title])
		rules = append(rules, rule{fmt.Sprintf("query:%d", i), queries[title]})
	}
	dir := t.TempDir()
	write := func(name string, content any) string {
		t.Helper()
		text, err := json.Marshal(content) // JSON is YAML
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	run("check", "rules", write("dashboard.yml", map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}))

	// Each node of a cluster counts what all of them record: the dashboard shows it once.
	type (
		series struct {
			Series string `json:"series"`
			Values string `json:"values"`
		}
		sample struct {
			Labels string  `json:"labels"`
			Value  float64 `json:"value"`
		}
		check struct {
			Expr string   `json:"expr"`
			At   string   `json:"eval_time"`
			Want []sample `json:"exp_samples"`
		}
	)
	var recorded []series
	for node, leads := range map[string]string{"a": "0x60", "b": "1x60", "c": "0x60"} {
		recorded = append(recorded,
			series{fmt.Sprintf(`payledger_cluster_leader{instance=%q}`, node), leads},
			series{fmt.Sprintf(`payledger_payments_total{instance=%q,status="awaiting_payment",route="r"}`, node), "0+2x60"},
			series{fmt.Sprintf(`payledger_payments_total{instance=%q,status="paid",route="r"}`, node), "0+1x60"},
			series{fmt.Sprintf(`payledger_refunds_total{instance=%q,status="succeeded",route="r"}`, node), "0+3x60"},
			series{fmt.Sprintf(`payledger_suspense_amount{instance=%q,currency="RUB"}`, node), "10.5x60"})
	}
	var checks []check
	for title, want := range map[string][]sample{
		"Payments a minute A":  {{"{}", 2}},
		"Payments by status A": {{`{status="awaiting_payment"}`, 10}, {`{status="paid"}`, 5}},
		"Paid by route A":      {{`{route="r"}`, 5}},
		"Refunds by status A":  {{`{status="succeeded"}`, 15}},
		"On suspense A":        {{`{currency="RUB"}`, 10.5}},
	} {
		if queries[title] == "" {
			t.Errorf("the dashboard has no query %q", title)
		}
		checks = append(checks, check{queries[title], "50m", want})
	}
	run("test", "rules", write("cluster.yml", map[string]any{
		"evaluation_interval": "1m",
		"tests":               []any{map[string]any{"interval": "1m", "input_series": recorded, "promql_expr_test": checks}},
	}))
}

// requireTool finds a program on PATH. Without it the test is skipped, or fails
// where PAYLEDGER_REQUIRE_TOOLS is set. debian is the name of its package.
func requireTool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
		t.Fatalf("%s (Debian package %s) is not installed, and PAYLEDGER_REQUIRE_TOOLS is set", name, debian)
	}
	t.Skipf("%s is not installed: Debian package %s", name, debian)
	return ""
}
