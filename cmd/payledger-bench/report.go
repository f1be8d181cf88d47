package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// series is one quantity, measured once a round.
type series []float64

// spread sums up a series.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"lowest"`
	High   float64 `json:"highest"`
	Rounds int     `json:"rounds"`
}

func (s series) spread() spread {
	if len(s) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1], n}
}

func (s series) median() float64 { return s.spread().Median }

// row is one figure of the report.
type row struct {
	Suite   string    `json:"suite"`
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Figure  spread    `json:"figure"`
	Against []against `json:"against,omitempty"`
	Met     string    `json:"met"`
}

// against is what a figure is held against: another figure of the same run,
// with the ratio to it, or itself, where the ratio is the figure.
type against struct {
	Name   string  `json:"name,omitempty"` // empty: itself
	Figure float64 `json:"figure,omitzero"`
	Ratio  spread  `json:"ratio"`
	Must   float64 `json:"must,omitzero"`    // what the ratio must be at least; 0: no such bound
	Aim    float64 `json:"aim,omitzero"`     // what it should be at least
	AtMost bool    `json:"at_most,omitzero"` // both are upper bounds
}

// over holds a series against another one. The ratio is that of each round:
// what disturbed the machine for a round disturbed both.
func (s series) over(name string, base series) against {
	var ratios series
	for i, v := range base[:min(len(s), len(base))] {
		if v > 0 {
			ratios = append(ratios, s[i]/v)
		}
	}
	return against{Name: name, Figure: base.median(), Ratio: ratios.spread()}
}

// itself holds a figure against bounds that do not depend on the machine.
func (s series) itself() against { return against{Ratio: s.spread()} }

// meets reports whether the ratio keeps a bound. One that could not be measured
// does not.
func (a against) meets(bound float64) bool {
	if a.AtMost {
		return a.Ratio.Median != 0 && a.Ratio.Median <= bound
	}
	return a.Ratio.Median >= bound
}

// What a row has met.
const (
	metNone = "-"    // it has no bounds
	metNot  = "no"   // not what it must be
	metMust = "must" // what it must be
	metAim  = "aim"  // what it should be
)

func met(all []against) string {
	must, aim := false, false
	for _, a := range all {
		if a.Must > 0 {
			must = true
			if !a.meets(a.Must) {
				return metNot
			}
		}
		aim = aim || a.Aim > 0 && a.meets(a.Aim)
	}
	switch {
	case aim:
		return metAim
	case must:
		return metMust
	}
	return metNone
}

// report is everything that was measured.
type report struct {
	About   string `json:"about"` // the machine
	Rows    []row  `json:"rows"`
	Checked int    `json:"acknowledged_and_found"` // payments that were read again afterwards

	answers int           // of closed loops
	loadCPU time.Duration // that the load itself took for them
}

func newReport(dir string, duration time.Duration) (*report, error) {
	synced, err := syncTime(dir)
	return &report{Rows: []row{}, About: fmt.Sprintf("%s, %d cores, %s/%s, %s; a synced write of 4 KiB takes %.2f ms; %g s a run.",
		processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), synced, duration.Seconds())}, err
}

// syncTime is how many milliseconds it takes to append 4 KiB to a file and to
// sync it.
func syncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // gone with the directory
	var took series
	for range 100 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start))/1e6)
	}
	return took.median(), nil
}

// add adds a row.
func (r *report) add(suite, name, unit string, figure series, all ...against) {
	r.Rows = append(r.Rows, row{suite, name, unit, figure.spread(), all, met(all)})
}

// missed lists the rows that are not what they must be.
func (r *report) missed() (names []string) {
	for _, row := range r.Rows {
		if row.Met == metNot {
			names = append(names, row.Name)
		}
	}
	return names
}

func heading() []string {
	return []string{"what", "figure", "of the rounds", "held against", "ratio", "must", "aim", "met"}
}

// cells are a row's columns. Where it is held against several figures, each
// shows its own ratio, in the same order.
func (r row) cells() []string {
	var names, ratios, musts, aims []string
	for _, a := range r.Against {
		sign := "≥ "
		if a.AtMost {
			sign = "≤ "
		}
		if a.Name != "" {
			names, ratios = append(names, a.Name+" "+number(a.Figure)), append(ratios, number(a.Ratio.Median))
		}
		if a.Must > 0 {
			musts = append(musts, sign+number(a.Must))
		}
		if a.Aim > 0 {
			aims = append(aims, sign+number(a.Aim))
		}
	}
	if len(ratios) == 1 && r.Against[0].Ratio.Rounds > 1 {
		ratios[0] += " (" + between(r.Against[0].Ratio) + ")"
	}
	join := func(all []string) string { return strings.Join(all, " / ") }
	return []string{r.Name, number(r.Figure.Median) + " " + r.Unit, between(r.Figure), join(names), join(ratios), join(musts), join(aims), r.Met}
}

// between is the lowest and the highest figure of several rounds.
func between(s spread) string {
	if s.Rounds < 2 {
		return ""
	}
	return number(s.Low) + "–" + number(s.High)
}

// number writes about three significant digits.
func number(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, " M"
	case v >= 1e4:
		v, unit = v/1e3, " k"
	case v >= 100:
		return strconv.Itoa(int(math.Round(v)))
	}
	digits := 2
	switch {
	case v == math.Trunc(v) || v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// markdown is the report as a table in Markdown, its columns aligned.
func (r *report) markdown() string {
	lines := [][]string{heading(), slices.Repeat([]string{"---"}, len(heading()))}
	for _, row := range r.Rows {
		lines = append(lines, row.cells())
	}
	widths := make([]int, len(heading()))
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, cells := range lines {
		for i, c := range cells {
			fmt.Fprintf(&b, "| %-*s ", widths[i], c)
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "\n%s The load itself took %.0f µs of CPU for each answer. %d acknowledged payments were read again afterwards.\n",
		r.About, float64(r.loadCPU.Microseconds())/float64(max(r.answers, 1)), r.Checked)
	return b.String()
}

// The lines of a Markdown file around the table.
const (
	tableBegin = "<!-- payledger-bench -->\n"
	tableEnd   = "<!-- end of payledger-bench -->\n"
)

// update puts the table between the two lines of a Markdown file. Without a
// table it only checks that they are there.
func update(file string, table func() string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return &usageError{"--update: " + err.Error()}
	}
	before, rest, begun := strings.Cut(string(b), tableBegin)
	_, behind, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return &usageError{fmt.Sprintf("--update %s: want a line %q, and below it a line %q", file, tableBegin[:len(tableBegin)-1], tableEnd[:len(tableEnd)-1])}
	}
	if table == nil {
		return nil
	}
	return os.WriteFile(file, []byte(before+tableBegin+table()+tableEnd+behind), 0o644) //nolint:gosec // a README is for everyone
}
