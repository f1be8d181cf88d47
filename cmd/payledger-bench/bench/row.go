package bench

import (
	"slices"
)

// Row is one figure of the report, with what it is held against.
type Row struct {
	Suite  string       `json:"suite"`
	Name   string       `json:"name"`
	Unit   string       `json:"unit"`
	Figure float64      `json:"figure"`
	Beside []Comparison `json:"beside,omitempty"` // baselines that set no goal
	Must   *Goal        `json:"must,omitempty"`
	Aim    *Goal        `json:"aim,omitempty"`
	Note   string       `json:"note,omitempty"`
}

// Comparison holds a figure against a baseline's of the same run.
type Comparison struct {
	Baseline string  `json:"baseline,omitempty"` // empty: the figure stands for itself
	Value    float64 `json:"baseline_figure,omitzero"`
	Ratio    float64 `json:"ratio"`
}

// Goal is a bound on the ratio of a comparison, or on a figure that stands for
// itself.
type Goal struct {
	Comparison

	Want   float64 `json:"want"`
	AtMost bool    `json:"at_most"` // Want is the highest that will do, not the lowest
	Met    bool    `json:"met"`
}

// The verdicts on a row.
const (
	VerdictNone   = "-"    // no goal, only a figure
	VerdictMissed = "no"   // not what it must be
	VerdictMust   = "must" // what it must be
	VerdictAim    = "aim"  // what it should be
)

// Verdict says which of its goals the row has reached.
func (r Row) Verdict() string {
	switch {
	case r.Must == nil:
		return VerdictNone
	case !r.Must.Met:
		return VerdictMissed
	case r.Aim != nil && r.Aim.Met:
		return VerdictAim
	}
	return VerdictMust
}

// series is one quantity, measured once a round.
type series []float64

// median is that of what was measured; 0 of nothing.
func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// over is the median of the ratios round by round: what disturbed the machine
// for longer than a round disturbed both.
func (s series) over(base series) float64 {
	var ratios series
	for i := range min(len(s), len(base)) {
		if base[i] > 0 {
			ratios = append(ratios, s[i]/base[i])
		}
	}
	return ratios.median()
}

// beside compares a series with a baseline's.
func (s series) beside(name string, base series) Comparison {
	return Comparison{Baseline: name, Value: base.median(), Ratio: s.over(base)}
}

// atLeast wants a series to be so many times a baseline's, or more.
func (s series) atLeast(want float64, name string, base series) *Goal {
	return judged(Goal{Comparison: s.beside(name, base), Want: want})
}

// atMost wants a series to be so many times a baseline's, or less.
func (s series) atMost(want float64, name string, base series) *Goal {
	return judged(Goal{Comparison: s.beside(name, base), Want: want, AtMost: true})
}

// figureAtLeast wants a figure to be so much or more, whatever the machine.
func figureAtLeast(want, figure float64) *Goal {
	return judged(Goal{Comparison: Comparison{Ratio: figure}, Want: want})
}

// figureAtMost wants a figure to be so much or less.
func figureAtMost(want, figure float64) *Goal {
	return judged(Goal{Comparison: Comparison{Ratio: figure}, Want: want, AtMost: true})
}

// judged never passes a ratio that could not be measured.
func judged(g Goal) *Goal {
	if g.AtMost {
		g.Met = g.Ratio > 0 && g.Ratio <= g.Want
	} else {
		g.Met = g.Ratio >= g.Want
	}
	return &g
}
