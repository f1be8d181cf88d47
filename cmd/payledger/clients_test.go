package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"payledger/httpapi/docs"
)

// clientTools answers the directory that PAYLEDGER_CLIENT_TOOLS names, which
// ".ci/run setup" fills: node_modules with the npm packages that judge the
// documents and make a client, and python, a virtual environment with
// openapi-python-client. Without a program on the PATH, or a file in that
// directory, the test is skipped, or fails where PAYLEDGER_REQUIRE_TOOLS says
// that it must be there. What setup could not install it explains in NAME.missing.
func clientTools(t *testing.T, needs ...string) string {
	t.Helper()
	dir := os.Getenv("PAYLEDGER_CLIENT_TOOLS")
	missing := func(what string) {
		t.Helper()
		if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	if dir == "" {
		missing("PAYLEDGER_CLIENT_TOOLS names no directory: see .ci/run")
	}
	for _, need := range needs {
		name, _, inside := strings.Cut(need, "/")
		if !inside {
			if _, err := exec.LookPath(need); err != nil {
				missing(need + " is not installed")
			}
			continue
		}
		if why, err := os.ReadFile(filepath.Join(dir, name+".missing")); err == nil {
			t.Skipf("%s is not there: %s", need, why)
		}
		if _, err := os.Stat(filepath.Join(dir, need)); err != nil {
			missing(need + " is not in " + dir + ": see .ci/run setup")
		}
	}
	return dir
}

// TestClients runs the commands and the code of the page on clients, each in an
// empty directory, against one sandbox. What the commands would download is already
// there. With the client in TypeScript it compiles one more use of the lists.
func TestClients(t *testing.T) {
	t.Parallel()
	needs := map[string][]string{
		"go":         {"go"},
		"typescript": {"node", "npm", "node_modules/openapi-fetch/package.json", "node_modules/typescript/package.json"},
		"python":     {"python/bin/openapi-python-client"},
		"php":        {"php"},
	}
	clients, err := docs.Clients()
	if err != nil {
		t.Fatal(err)
	}
	if len(clients) != len(needs) {
		t.Fatalf("%d clients, want %d", len(clients), len(needs))
	}
	lists, err := os.ReadFile(filepath.Join("testdata", "judges", "lists.ts"))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, "demo")
	for _, c := range clients {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			tools := clientTools(t, needs[c.ID]...)
			dir := t.TempDir()
			for name, content := range map[string][]byte{"openapi.yaml": docs.OpenAPI, c.File: []byte(c.Code), "lists.ts": lists} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.ID == "typescript" {
				if err := os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			commands := strings.NewReplacer(
				"npm install", "npm ls >/dev/null || true # ",
				"python3 -m venv .venv", "ln -s "+filepath.Join(tools, "python")+" .venv",
				".venv/bin/pip install", "true",
				"shop.ts #", "shop.ts lists.ts #",
			).Replace(c.Commands)
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", commands)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), append(s.environment(), "GOFLAGS=-mod=mod", "GOWORK=off", "PYTHONDONTWRITEBYTECODE=1")...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := `send the customer to http://\S+/p/\S+\npaid [1-4] pending whsec_\S+`
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("%s does not match %s", out, want)
			}
		})
	}
}

// TestDocumentsPassJudges checks the OpenAPI document with the usual linters and the
// other one with AsyncAPI's own parser: no error and no warning.
func TestDocumentsPassJudges(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	openapi := filepath.Join(root, "httpapi", "docs", "openapi.yaml")
	for _, judge := range []struct {
		name, needs string
		command     []string
		clean       string // what stands in the answer about a clean document
	}{
		{
			"spectral", "node_modules/@stoplight/spectral-cli/package.json",
			[]string{"node_modules/.bin/spectral", "lint", "--fail-severity", "hint", "--ruleset", "testdata/judges/spectral.yaml", openapi},
			"No results with a severity",
		},
		{
			"redocly", "node_modules/@redocly/cli/package.json",
			[]string{"node_modules/.bin/redocly", "lint", "--config", "testdata/judges/redocly.yaml", openapi},
			"Your API description is valid",
		},
		{
			"asyncapi", "node_modules/@asyncapi/parser/package.json",
			[]string{"node", "testdata/judges/asyncapi.cjs", filepath.Join(root, "notifier", "asyncapi.yaml")},
			"nothing to say",
		},
	} {
		t.Run(judge.name, func(t *testing.T) {
			t.Parallel()
			tools := clientTools(t, "node", judge.needs)
			args := judge.command
			for i, arg := range args {
				if strings.HasPrefix(arg, "testdata/") {
					args[i] = filepath.Join(root, "cmd", "payledger", arg)
				}
			}
			if strings.HasPrefix(args[0], "node_modules/") {
				args[0] = filepath.Join(tools, args[0])
			}
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = tools
			cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(tools, "node_modules"), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), judge.clean) || strings.Contains(string(out), "You have") { // You have 2 warnings.
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
