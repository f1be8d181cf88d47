package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"payledger/cmd/payledger/cli"
)

// The error of a file without permission names the user who tried.
func TestDeniedFilesNameTheUser(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	denied := cli.Errorf(cli.ExitDirectory, "opening the event log: %w", &fs.PathError{Op: "open", Path: "d/ledger.db", Err: syscall.EACCES})
	if code := report(&said, denied); code != cli.ExitDirectory || !strings.Contains(said.String(), "user "+strconv.Itoa(os.Geteuid())+":") {
		t.Errorf("%d %s", code, said.String())
	}
}

func commandTree(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&commandLine{}, kong.Name("payledger"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// TestEveryCommandHasAScript fails while an added command is incomplete: each
// has a line of help, and a script in testdata/script runs it.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(b)
	}
	leaves := commandTree(t).Leaves(true)
	if len(leaves) < 20 {
		t.Fatalf("only %d commands", len(leaves))
	}
	for _, c := range leaves {
		command := strings.TrimPrefix(c.FullPath(), "payledger ")
		if c.Help == "" {
			t.Errorf("%s has no help in the list of commands", command)
		}
		for _, f := range c.Flags {
			if f.HasDefault && f.PlaceHolder != "" && !strings.Contains(f.Help, "Default: ") { // it stands there in place of the default
				t.Errorf("the help of %s --%s does not tell the default %s", command, f.Name, f.Default)
			}
		}
		// Long-running commands are started by words of the scripts.
		word := map[string]string{"demo": "server demo", "serve": "server serve", "listen": "receiver"}[command]
		run := regexp.MustCompile(`(?m)^.*\bpayledger ` + regexp.QuoteMeta(command) + `\b`)
		if !run.MatchString(scripts.String()) && (word == "" || !strings.Contains(scripts.String(), "\n"+word)) {
			t.Errorf("no script in testdata/script runs payledger %s", command)
		}
	}
}
