package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestReadmeDefendsDependencies finds every module this one asks for in the
// README.
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
