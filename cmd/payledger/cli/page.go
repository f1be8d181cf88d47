package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// page is a manual page in the macros of man(7).
type page struct{ strings.Builder }

// text writes a text, in which nothing is a command of roff.
func (p *page) text(s string) { p.WriteString(escaped(s)) }

// escaped is a text whose lines roff sets as they are.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func (p *page) section(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

// paragraphs writes a text whose paragraphs are divided by empty lines. Lines
// that are indented or hold two blanks in a row are set as they are.
func (p *page) paragraphs(s string) {
	for i, part := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if i > 0 {
			p.WriteString(".PP\n")
		}
		set := strings.HasPrefix(part, " ") || strings.Contains(part, "  ")
		if set {
			p.WriteString(".nf\n")
		}
		p.text(strings.TrimRight(part, "\n") + "\n")
		if set {
			p.WriteString(".fi\n")
		}
	}
}

// list writes a section of names, each in a macro of roff, and of what they mean.
func (p *page) list(section string, rows [][2]string) {
	if len(rows) > 0 {
		p.section(section)
	}
	for _, r := range rows {
		fmt.Fprintf(p, ".TP\n%s\n", r[0])
		p.text(r[1] + "\n")
	}
}

// name is that of a command's page: payledger-key-create.
func name(n *kong.Node) string { return strings.ReplaceAll(n.FullPath(), " ", "-") }

// pageOf writes the page of a command, or of the program.
func pageOf(n *kong.Node, version string) string {
	p := new(page)
	root := n.Parent == nil
	help, detail := n.Help, n.Detail
	if root {
		first, rest, _ := strings.Cut(n.Help, "\n\n")
		help, detail = first, rest
	}
	fmt.Fprintf(p, ".TH %s 1 \"\" %q %q\n", strings.ToUpper(escaped(name(n))), "payledger "+version, "payledger manual")
	p.section("NAME")
	p.text(name(n) + " - " + strings.TrimSuffix(help, ".") + "\n")
	p.section("SYNOPSIS")
	p.WriteString(".B ")
	p.text(n.FullPath() + strings.TrimPrefix(n.Summary(), n.Path()) + "\n")
	if detail != "" {
		p.section("DESCRIPTION")
		p.paragraphs(detail)
	}
	var arguments, commands, options [][2]string
	for _, v := range n.Positional {
		arguments = append(arguments, [2]string{".B " + escaped(v.Summary()), v.Help})
	}
	for _, c := range n.Children {
		if !c.Hidden {
			commands = append(commands, [2]string{".BR " + escaped(name(c)) + " (1)", c.Help})
		}
	}
	for _, f := range n.Flags { // the program's own are those that every command takes
		if !f.Hidden {
			options = append(options, [2]string{".B " + escaped(f.String()), kong.DefaultHelpValueFormatter(f.Value)})
		}
	}
	p.list("ARGUMENTS", arguments)
	p.list("COMMANDS", commands)
	p.list("OPTIONS", options)
	if root {
		p.section("ENVIRONMENT")
		p.paragraphs("A flag can be set by the variable that stands beside it, such as PAYLEDGER_PUBLIC_URL for --public-url. " +
			"The order is: flag, environment, the file of --config, default.")
	}
	p.section("SEE ALSO")
	p.WriteString(".BR payledger (1)\n")
	for up := n.Parent; up != nil && up.Parent != nil; up = up.Parent {
		fmt.Fprintf(p, ".BR %s (1)\n", escaped(name(up)))
	}
	return p.String()
}
