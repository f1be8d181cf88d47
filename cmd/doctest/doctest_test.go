package doctest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const document = "Text.\n```sh\necho first\n```\n" +
	"## One\n\n    indented\n\n```sh\necho one\n```\n```json\n## Not a heading\n```\n### Below\n```sh\necho two\n```\n" +
	"## None\n```\nfor reading\n```\n## Two\n```sh\necho three"

func TestScripts(t *testing.T) {
	t.Parallel()
	want := map[string]string{"": "echo first\n", "One": "echo one\necho two\n", "Two": "echo three"}
	if diff := cmp.Diff(want, Scripts(document)); diff != "" {
		t.Error(diff)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	Run(t, "testdata/document.md",
		Section{Heading: "Greeting", Env: []string{"NAME=reader"}, Want: []string{"hello reader", "bye"}, After: "echo bye"},
		Section{Heading: "Server", Start: func(*testing.T) []string { return []string{"BASE=here"} }, Before: "SAID=yes", Edit: strings.NewReplacer("$SAID", "${SAID}!"), Want: []string{"here yes!"}},
		Section{Heading: "Never ends", Elsewhere: "TestRun"},
	)
}
