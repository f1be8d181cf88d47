package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/progress"
	"payledger/eventstore"
	httpadmin "payledger/httpapi/admin"
)

// printJSON prints one line of JSON.
func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

// printTable prints rows under a heading, in aligned columns.
func (a *app) printTable(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// showing passes lines on to emit, except lines of progress, which it displays.
func (a *app) showing(emit func(httpadmin.Line) error) func(httpadmin.Line) error {
	steps := make(map[string]func(done, total eventstore.Position))
	return func(l httpadmin.Line) error {
		p := l.Progress
		if p == nil {
			return emit(l)
		}
		if steps[p.Step] == nil {
			steps[p.Step] = progress.New(a.stderr, p.Step)
		}
		steps[p.Step](p.Done, p.Total)
		return nil
	}
}

// printRaw prints one line of JSON and keeps the bytes of a merchant's payload
// as they were sent.
func (a *app) printRaw(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

// joined joins texts of any kind.
func joined[T ~string](all []T, separator string) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, separator)
}
