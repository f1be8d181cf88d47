package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion prints the script that a shell completes with.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help is shown by --help.
func (Completion) Help() string {
	return `The script asks this program for the words, so it needs no renewal with a new version.

bash:  payledger completion bash > /etc/bash_completion.d/payledger

zsh:   payledger completion zsh > "${fpath[1]}/_payledger"

fish:  payledger completion fish > ~/.config/fish/completions/payledger.fish

For the shell that runs: source <(payledger completion bash), the same with zsh, or
payledger completion fish | source.`
}

// Run prints the script.
func (c Completion) Run(a *App) error {
	script := map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[c.Shell]
	return a.Print(map[string]string{"shell": c.Shell, "script": script}, "%s", script)
}

// Words prints the possible next words, each with its help after a tab.
type Words struct {
	Typed []string `arg:"" optional:"" passthrough:""`
}

// Run prints the words.
func (c Words) Run(a *App, k *kong.Kong) error {
	typed := c.Typed
	if len(typed) > 0 && typed[0] == "--" {
		typed = typed[1:]
	}
	var out strings.Builder
	for _, w := range next(k.Model.Node, typed) {
		fmt.Fprintf(&out, "%s\t%s\n", w.text, strings.ReplaceAll(w.help, "\n", " "))
	}
	_, err := fmt.Fprint(a.Stdout, out.String())
	return err
}

// The scripts call "payledger __words -- WORD…" with the words up to the cursor.
const (
	bash = `# bash completion of payledger
_payledger() {
	local word help
	COMPREPLY=()
	while IFS=$'\t' read -r word help; do
		case $word in
		:files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
		:folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
		"${2#=}"*) COMPREPLY+=("$word") ;;
		esac
	done < <("$1" __words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _payledger payledger
`
	zsh = `#compdef payledger
# zsh completion of payledger
_payledger() {
	local word help
	local -a found
	while IFS=$'\t' read -r word help; do
		case $word in
		:files) _files; return ;;
		:folders) _files -/; return ;;
		*) found+=("${word//:/\\:}:$help") ;;
		esac
	done < <("${words[1]}" __words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	(( $#found )) && _describe payledger found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
	_payledger "$@"
else
	compdef _payledger payledger
fi
`
	fish = `# fish completion of payledger
function __payledger_words
	set -l typed (commandline -opc) (commandline -ct)
	set -l found ($typed[1] __words -- $typed[2..-1] 2>/dev/null)
	switch "$found[1]"
		case ':files*'
			__fish_complete_path (commandline -ct)
		case ':folders*'
			__fish_complete_directories (commandline -ct)
		case '*'
			printf '%s\n' $found
	end
end
complete -c payledger -f -a '(__payledger_words)'
`
)
