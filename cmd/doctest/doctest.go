// Package doctest runs the commands of a document as a reader would paste them.
// Tests of the programs in cmd import it, and nothing else does.
//
// A command is the content of a block fenced as ```sh. Other blocks, and words in backquotes, are
// not run. All such blocks below one heading of the second level ("## Webhooks"), up to the next
// one, are one script for bash, which ends at the first command that fails. The programs must be on
// the PATH; package testscript puts those of the test's own package there.
//
// A test has one row for each heading that has commands:
//
//	doctest.Run(t, "../../README.md",
//		doctest.Section{
//			Heading: "Five minutes with curl",
//			Start:   func(t *testing.T) []string { … start a server …; return []string{"BASE=" + s.BaseURL} },
//			Want:    []string{`"status":"created"`, `"status":"paid"`},
//		},
//	)
//
// A heading with commands and no row fails the test, and so does a row whose
// heading has no commands. To add a document, call Run for it in the package
// whose program it is about. What a test has to change is a reason to change the
// document first; where that is impossible, Edit does it (a directory of the
// system becomes one of the test, a server goes to the background), an
// environment variable in Env makes a long command short, and Elsewhere says
// which test runs commands that never end.
package doctest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Section is how the commands below one heading are run.
type Section struct {
	Heading string   // without its "## "
	Tools   []string // programs besides bash without which the test is skipped
	Env     []string // NAME=VALUE, added to this process's environment
	Before  string   // shell code of an earlier section on which this one depends
	After   string   // shell code that prints what the commands made
	Dir     string   // where it runs; "": in an empty directory

	Edit      *strings.Replacer // of the commands, and of what Before and After say
	Elsewhere string            // not run here: the name of the test that does the same

	Want []string // what stdout and stderr together hold, in this order

	// Start starts what the commands talk to, until the test's end, and answers
	// more of the environment.
	Start func(*testing.T) []string
}

// Run runs a document's commands, one section after the other.
func Run(t *testing.T, document string, sections ...Section) {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	scripts := Scripts(string(content))
	for _, s := range sections {
		script, ok := scripts[s.Heading]
		if !ok {
			t.Errorf("%s has no commands below %q", document, s.Heading)
			continue
		}
		delete(scripts, s.Heading)
		if s.Elsewhere != "" {
			continue
		}
		t.Run(s.Heading, func(t *testing.T) { s.run(t, script) })
	}
	for heading := range scripts {
		t.Errorf("%s: no test runs the commands below %q", document, heading)
	}
}

// Scripts are the commands of a Markdown document by the heading of the second
// level above them.
func Scripts(markdown string) map[string]string {
	scripts := make(map[string]string)
	heading, fence := "", ""
	for line := range strings.Lines(markdown) {
		text := strings.TrimRight(line, "\r\n")
		switch {
		case fence == "" && strings.HasPrefix(text, "```"):
			fence = strings.TrimPrefix(text, "```") + "\n" // never empty
		case text == "```":
			fence = ""
		case fence == "sh\n":
			scripts[heading] += line
		case fence == "" && strings.HasPrefix(text, "## "):
			heading = strings.TrimPrefix(text, "## ")
		}
	}
	return scripts
}

func (s Section) run(t *testing.T, script string) {
	t.Helper()
	for _, tool := range append(s.Tools, "bash") {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
				t.Fatal(err)
			}
			t.Skipf("the commands need %s: %v", tool, err)
		}
	}
	env := append(os.Environ(), s.Env...)
	if s.Start != nil {
		env = append(env, s.Start(t)...)
	}
	script = "set -euo pipefail\n" + s.Before + "\n" + script + "\n" + s.After
	if s.Edit != nil {
		script = s.Edit.Replace(script)
	}
	ctx := t.Context()
	if end, ok := t.Deadline(); ok { // of all tests: until then a command that hangs says nothing
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second // its children may continue
	cmd.Env, cmd.Dir = env, s.Dir
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range s.Want {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not after what was wanted before it:\n%s", want, out)
		}
		rest = after
	}
}
