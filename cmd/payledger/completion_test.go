package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCompletion types part of a command into each shell and presses Tab.
func TestCompletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := exec.Command("mkdir", dir+"/data.d").Run(); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		typed    []string
		some     []string
		unwanted string
	}{
		{[]string{""}, []string{"demo", "serve", "project", "completion"}, "__words"},
		{[]string{"se"}, []string{"serve"}, "demo"},
		{[]string{"project", ""}, []string{"create", "list", "change", "disable"}, "serve"},
		{[]string{"serve", "--lo"}, []string{"--log-level", "--log-format"}, "--listen"},
		{[]string{"serve", "--log-format", ""}, []string{"json", "console"}, "--listen"},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}, "demo"},
		{[]string{"project", "create", "--require"}, []string{"--require-idempotency-key"}, "--data"},
		{[]string{"serve", "--data", "dat"}, []string{"data.d"}, "--data"},
	}
	for shell, press := range map[string]func(typed []string) (script string){
		"bash": func(typed []string) string {
			return `source <(payledger completion bash); COMP_WORDS=(payledger ` + shellWords(typed) + `); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); ` +
				`compopt() { :; }; _payledger payledger "${COMP_WORDS[COMP_CWORD]}"; printf '%s\n' "${COMPREPLY[@]}"`
		},
		"zsh": func(typed []string) string {
			// The completion system needs a terminal. So the two functions that show
			// words are replaced; they print the words that begin with what is
			// typed.
			return `compdef() { :; }; _describe() { print -l -- "${(@M)${(@P)2%%:*}:#${words[CURRENT]}*}"; }; ` +
				`_files() { print -l -- *(/); }; words=(payledger ` + shellWords(typed) + `); CURRENT=$#words; ` +
				`source <(payledger completion zsh); _payledger`
		},
		"fish": func(typed []string) string {
			return `payledger completion fish | source; complete -C "payledger ` + strings.Join(typed, " ") + `"`
		},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			program := requireTool(t, shell, shell)
			for _, c := range cases {
				args := map[string][]string{"bash": {"--norc", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[shell]
				cmd := exec.Command(program, append(args, press(c.typed))...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%q: %v\n%s", c.typed, err, out)
				}
				var found []string
				for line := range strings.Lines(string(out)) {
					word := strings.TrimSpace(line)
					if end := strings.IndexAny(word, "\t:/"); end >= 0 {
						word = word[:end]
					}
					found = append(found, word)
				}
				for _, want := range c.some {
					if !slices.Contains(found, want) {
						t.Errorf("%q lacks %s: %q", c.typed, want, found)
					}
				}
				if slices.Contains(found, c.unwanted) {
					t.Errorf("%q has %s: %q", c.typed, c.unwanted, found)
				}
			}
		})
	}
}

func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + w + "'"
	}
	return strings.Join(quoted, " ")
}

// TestManualPages checks every page with mandoc.
func TestManualPages(t *testing.T) {
	t.Parallel()
	mandoc := requireTool(t, "mandoc", "mandoc")
	dir := t.TempDir()
	done(t, "man", "--output", dir)
	out, _ := exec.Command("sh", "-c", `cd "$1" && exec "$2" -Tlint -W warning *.1`, "sh", dir, mandoc).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") {
			t.Error(line)
		}
	}
	text, err := exec.Command(mandoc, "-Tascii", dir+"/payledger-serve.1").Output()
	if err != nil || !strings.Contains(string(text), "shutdown") {
		t.Errorf("%v\n%s", err, text)
	}
}
