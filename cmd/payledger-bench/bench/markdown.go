package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// heading names the columns of the tables.
func heading() []string {
	return []string{"what", "figure", "held against", "ratio", "must", "aim", "met"}
}

// cells are a row's columns. Where must and aim are held against two
// baselines, each shows its own.
func (r Row) cells() []string {
	var against, ratio []string
	for _, c := range r.comparisons() {
		against = append(against, c.Baseline+" "+number(c.Value))
		ratio = append(ratio, number(c.Ratio))
	}
	return []string{
		r.Name, number(r.Figure) + " " + r.Unit, strings.Join(against, " / "), strings.Join(ratio, " / "),
		r.Must.want(), r.Aim.want(), r.Verdict(),
	}
}

// comparisons lists those with different baselines.
func (r Row) comparisons() []Comparison {
	var all []Comparison
	for _, g := range []*Goal{r.Must, r.Aim} {
		if g != nil && g.Baseline != "" && !slices.ContainsFunc(all, func(c Comparison) bool { return c.Baseline == g.Baseline }) {
			all = append(all, g.Comparison)
		}
	}
	return append(all, r.Beside...)
}

func (g *Goal) want() string {
	switch {
	case g == nil:
		return ""
	case g.AtMost:
		return "≤ " + number(g.Want)
	}
	return "≥ " + number(g.Want)
}

// number writes about three significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10_000_000:
		return strconv.FormatFloat(v/1e6, 'f', 0, 64) + " M"
	case a >= 1_000_000:
		return strconv.FormatFloat(math.Round(v/1e4)/100, 'f', -1, 64) + " M"
	case a >= 10_000:
		return strconv.FormatFloat(v/1e3, 'f', precision(v/1e3), 64) + " k"
	case a >= 100 || (a >= 1 && v == math.Trunc(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// precision leaves the decimal away where there is none.
func precision(v float64) int {
	if v >= 100 || v == math.Trunc(v) {
		return 0
	}
	return 1
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(heading(), "\t"))
	for _, row := range r.Rows {
		fmt.Fprintln(t, strings.Join(row.cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.about())
	return err
}

// WriteMarkdown writes the report as a table for a README.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heading())
	b.WriteString(strings.Repeat("|---", len(heading())) + "|\n")
	for _, row := range r.Rows {
		line(row.cells())
	}
	b.WriteString("\n" + r.about() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// about says what the figures were measured on.
func (r *Report) about() string {
	m, s := r.Machine, r.Settings
	text := fmt.Sprintf("%s, %d cores, %s, %s; %s, a synced write of 4 KiB takes %.2f ms. %g s a run, %d rounds, a long log of %s payments, %d events each.",
		m.Processor, m.Cores, m.System, m.Go, m.FileSystem, m.Sync, s.Duration, s.Rounds, number(float64(s.Payments)), s.Events)
	if s.SyncDelay > 0 {
		text += fmt.Sprintf(" Each sync took %g ms longer.", s.SyncDelay)
	}
	if cost := r.loadCost(); cost > 0 {
		text += fmt.Sprintf(" The load took %.0f µs of CPU for each answer.", cost)
	}
	return text + fmt.Sprintf(" %d acknowledged payments were read again afterwards.", r.Checked)
}

// loadCost is what the load itself takes of the machine, in µs of CPU for each
// answer: the median over the closed loops.
func (r *Report) loadCost() float64 {
	var costs series
	for _, s := range r.Runs {
		if s.Rate == 0 && s.OwnCPU > 0 {
			costs = append(costs, s.OwnCPU)
		}
	}
	return costs.median()
}

// The lines of a Markdown file between which the table stands.
const (
	tableBegin = "<!-- payledger-bench -->\n"
	tableEnd   = "<!-- end of payledger-bench -->\n"
)

// TableIn finds the table in a Markdown file: what stands before it, with the
// line that begins it, and what stands behind.
func TableIn(markdown string) (before, behind string, err error) {
	before, rest, begun := strings.Cut(markdown, tableBegin)
	_, behind, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return "", "", fmt.Errorf("want a line %q, and below it a line %q", strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	return before + tableBegin, tableEnd + behind, nil
}
