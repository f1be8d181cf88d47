package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"payledger/cmd/payledger/datadir"
)

// TestReadmeDefendsDependencies finds every direct dependency in the README.
func TestReadmeDefendsDependencies(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, dependencies, _ := strings.Cut(string(readme), "\n## Dependencies\n")
	major := regexp.MustCompile(`(^github\.com/|/v[0-9]+$)`)
	for _, r := range module.Require {
		name := major.ReplaceAllString(r.Mod.Path, "")
		if !r.Indirect && !strings.Contains(dependencies, name) && !strings.Contains(dependencies, strings.TrimPrefix(name, "nats-io/")) {
			t.Errorf("the README does not say why %s is needed", r.Mod.Path)
		}
	}
}

// TestRunbookNamesDataFiles compares the runbook's table of the data directory with
// the files that are made there.
func TestRunbookNamesDataFiles(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(runbook), "\n## The data directory")
	table, _, _ = strings.Cut(table, "\n## ")
	s := start(t, "demo", "--nats-listen", "127.0.0.1:0", "--webhook")
	newConsumer(t, s, "books")
	entries, err := os.ReadDir(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string]bool)
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".tmp") { // it is being written
			continue
		}
		made[filepath.Join(s.Data, name)] = true
		if e.IsDir() {
			name += "/"
		}
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("the runbook does not say what %s is", name)
		}
	}
	for _, name := range datadir.Dir(s.Data).Files() {
		// The first is there from a restore to the next start, the second a minute after
		// a key was used, the third once a consumer has read, and the others in a cluster.
		d := datadir.Dir(s.Data)
		if slices.Contains([]string{d.Restored(), d.KeyTimes(), d.Consumers(), d.Cluster(), d.ClusterKey(), d.WitnessKey(), d.ClusterNATS()}, name) {
			if !strings.Contains(table, "`"+filepath.Base(name)) {
				t.Errorf("the runbook does not say what %s is", name)
			}
			continue
		}
		if !made[name] {
			t.Errorf("nothing makes %s", name)
		}
	}
}

// TestDocumentsNameFiles follows the documents' links within the repository.
func TestDocumentsNameFiles(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, document := range []string{
		"../../README.md", "RUNBOOK.md", "../payledger-bench/README.md", "../../eventstore/audit/README.md", "../../notifier/README.md",
	} {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(string(content), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), l[1])); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}
