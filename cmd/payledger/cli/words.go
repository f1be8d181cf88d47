package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// What a shell completes itself.
const (
	files   = ":files"
	folders = ":folders"
)

// word is a possible next word of a command line.
type word struct{ text, help string }

// next lists the words that can replace the last of these, which follow the program's name. The
// shell keeps those that begin with what is typed.
func next(app *kong.Node, typed []string) []word {
	// bash splits --flag=value at the sign.
	typed = slices.DeleteFunc(slices.Clone(typed), func(w string) bool { return w == "=" })
	if len(typed) == 0 {
		typed = []string{""}
	}
	node, last := app, typed[len(typed)-1]
	var open *kong.Flag // the flag whose value is next
	arguments := 0
	for _, w := range typed[:len(typed)-1] {
		switch {
		case open != nil:
			open = nil
		case strings.HasPrefix(w, "-"):
			if !strings.Contains(w, "=") {
				open = valueFlag(node, w)
			}
		default:
			if i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == w }); i >= 0 {
				node = node.Children[i]
			} else {
				arguments++
			}
		}
	}
	switch {
	case open != nil:
		return valuesOf(open.Value, open.PlaceHolder)
	case strings.HasPrefix(last, "-"):
		return flagsOf(node)
	case len(node.Children) > 0:
		var out []word
		for _, c := range node.Children {
			if !c.Hidden {
				out = append(out, word{c.Name, c.Help})
			}
		}
		return out
	case len(node.Positional) > 0:
		v := node.Positional[min(arguments, len(node.Positional)-1)]
		return valuesOf(v, v.Name)
	}
	return flagsOf(node)
}

// flagsOf lists the flags of a command and of those above it.
func flagsOf(node *kong.Node) []word {
	var out []word
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			out = append(out, word{"--" + f.Name, f.Help})
			if f.Tag.Negatable != "" {
				out = append(out, word{"--no-" + f.Name, f.Help})
			}
		}
	}
	return out
}

// valueFlag finds a flag that takes its value from the next word.
func valueFlag(node *kong.Node, typed string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if (typed == "--"+f.Name || f.Short != 0 && typed == "-"+string(f.Short)) && !f.IsBool() && !f.IsCounter() {
				return f
			}
		}
	}
	return nil
}

// valuesOf lists what a flag or an argument can be. Its name says whether that is
// a file.
func valuesOf(v *kong.Value, name string) []word {
	if v.Enum != "" {
		var out []word
		for _, e := range v.EnumSlice() {
			out = append(out, word{e, ""})
		}
		return out
	}
	switch name = strings.ToUpper(name); {
	case strings.Contains(name, "DIR"):
		return []word{{folders, ""}}
	case strings.Contains(name, "FILE"), strings.Contains(name, "BACKUP"), strings.Contains(name, "BUNDLE"):
		return []word{{files, ""}}
	}
	return nil
}
