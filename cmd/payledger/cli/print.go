// Package cli is what a command has at hand: its context and streams, the forms in which
// it prints, progress, exit codes, the client of the admin interface and the flags of NATS.
//
// It describes the commands from their one source, kong's model of the command tree: as words that
// a shell completes, and as manual pages. No library for kong does as much. kongplete and
// kong-completion are built on posener/complete of 2019: no help texts with the words, no folders,
// zsh through the emulation of bash, four more modules. mango-kong makes one page of all commands,
// sets each line as a paragraph and leaves the arguments out.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/go-json-experiment/json"

	"payledger/eventstore"
	httpadmin "payledger/httpapi/admin"
)

// App is what every command's Run gets.
type App struct {
	Ctx    context.Context // ends when the process is asked to stop
	Stdout io.Writer
	Stderr io.Writer
	JSON   bool   // --json
	As     string // the actor's name: --as, or else ThisUser
}

// ThisUser is who runs this process, by name or else by number.
func ThisUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "uid:" + strconv.Itoa(os.Getuid())
}

// Actor is the actor, as in the log.
func (a *App) Actor() (string, error) {
	actor, err := eventstore.OperatorActor(a.As)
	if err != nil {
		return "", fmt.Errorf("--as: %w", err)
	}
	return actor, nil
}

// PrintJSON prints one line of JSON.
func (a *App) PrintJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", b)
	return err
}

// Print prints one line of JSON, or the text without --json.
func (a *App) Print(v any, text string, args ...any) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	_, err := fmt.Fprintf(a.Stdout, text, args...)
	return err
}

// PrintTable prints rows under a heading, in aligned columns. Where there are none
// it says so on stderr, so that a program that reads the rows finds none.
func (a *App) PrintTable(none string, heading []string, rows [][]string) error {
	if len(rows) == 0 {
		return a.Note(none)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, cell := range r {
			cells[i] = Visible(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// Visible is a text that others wrote, such as a provider, a receiver or another node,
// without what a terminal would obey: each control character becomes U+FFFD.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Note says something to a person that is no data.
func (a *App) Note(sentence string) error {
	_, err := fmt.Fprintln(a.Stderr, sentence)
	return err
}

// PrintRows prints names with their values, in two columns. Rows without a value
// are left out.
func (a *App) PrintRows(rows [][2]string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", r[0], Visible(r[1]))
		}
	}
	return w.Flush()
}

// Showing passes lines on to emit, except lines of progress, which it displays.
func (a *App) Showing(emit func(httpadmin.Line) error) func(httpadmin.Line) error {
	steps := make(map[string]func(done, total eventstore.Position))
	return func(l httpadmin.Line) error {
		p := l.Progress
		if p == nil {
			return emit(l)
		}
		if steps[p.Step] == nil {
			steps[p.Step] = Progress(a.Stderr, p.Step)
		}
		steps[p.Step](p.Done, p.Total)
		return nil
	}
}

// Count is a number of things: "1 event", "2 events". The plural has an s.
func Count[N ~int | ~uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
