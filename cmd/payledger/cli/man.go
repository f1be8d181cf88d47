package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Man prints manual pages, or writes all of them.
type Man struct {
	Command []string `arg:"" optional:"" help:"The command, such as key create. Default: the page of the program."`
	Output  string   `help:"Write the pages of all commands to this directory." placeholder:"DIR" short:"o"`
}

// Help is shown by --help.
func (Man) Help() string {
	return `To read one: payledger man serve | man -l -

To install all: payledger man --output /usr/local/share/man/man1`
}

// Run prints or writes.
func (c Man) Run(a *App, k *kong.Kong) error {
	version := k.Model.Vars()["release"]
	if c.Output == "" {
		n := k.Model.Node
		for _, w := range c.Command {
			i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == w && !c.Hidden })
			if i < 0 {
				return Errorf(ExitUsage, "there is no command %q", strings.Join(c.Command, " "))
			}
			n = n.Children[i]
		}
		text := pageOf(n, version)
		return a.Print(map[string]string{"name": name(n) + ".1", "page": text}, "%s", text)
	}
	if len(c.Command) > 0 {
		return Errorf(ExitUsage, "--output writes the pages of all commands: leave the command out")
	}
	if err := os.MkdirAll(c.Output, 0o755); err != nil { //nolint:gosec // manuals are public
		return err
	}
	written := []string{}
	for _, n := range withPages(k.Model.Node) {
		file := filepath.Join(c.Output, name(n)+".1")
		if err := os.WriteFile(file, []byte(pageOf(n, version)), 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
		written = append(written, file)
	}
	return a.Print(written, "%s in %s.\n", Count(len(written), "page"), c.Output)
}

// withPages are the commands that have a page, the program first.
func withPages(n *kong.Node) []*kong.Node {
	all := []*kong.Node{n}
	for _, c := range n.Children {
		if !c.Hidden {
			all = append(all, withPages(c)...)
		}
	}
	return all
}
