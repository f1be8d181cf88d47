package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    series
		want spread
	}{
		{"nothing", nil, spread{}},
		{"one", series{7}, spread{7, 7, 7, 1}},
		{"odd", series{9, 1, 5}, spread{5, 1, 9, 3}},
		{"even", series{4, 1, 2, 100}, spread{3, 1, 100, 4}},
	} {
		if got := c.s.spread(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	// A round in which the machine was slow slows both.
	if got := (series{100, 10, 120}).over("base", series{200, 20, 200}).Ratio.Median; got != 0.5 {
		t.Errorf("ratio %v, want that of the rounds, 0.5", got)
	}
	if got := (series{100}).over("base", series{0}).Ratio; got != (spread{}) {
		t.Errorf("ratio to nothing: %v", got)
	}
}

func TestMet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		own      float64
		must, am float64
		atMost   bool
		want     string
	}{
		{"no bounds", 1, 0, 0, false, metNone},
		{"below the must", 39, 0.4, 0.85, false, metNot},
		{"the must", 40, 0.4, 0.85, false, metMust},
		{"the aim", 85, 0.4, 0.85, false, metAim},
		{"above the must", 201, 2, 1.2, true, metNot},
		{"at the must", 200, 2, 1.2, true, metMust},
		{"at the aim", 120, 2, 1.2, true, metAim},
		{"not measured", 0, 2, 1.2, true, metNot},
		{"less than nothing, of memory", -1, 2, 1.2, true, metAim},
	} {
		a := series{c.own}.over("base", series{100})
		a.Must, a.Aim, a.AtMost = c.must, c.am, c.atMost
		if got := met([]against{a}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	b := bench{suite: suites()[0], report: &report{About: "A machine.", Checked: 7}}
	b.row("POST, 64 connections", "payments/s", series{12_345, 12_000, 14_000},
		series{12_345}.over(ceiling, series{20_000}), series{12_345}.over(ceilingPlus, series{15_000}), series{12_345}.over(bare, series{40_000}))
	b.row("something else", "KiB", series{3})
	want := `| what                 | figure            | of the rounds | held against                             | ratio              | must   | aim    | met  |
| ---                  | ---               | ---           | ---                                      | ---                | ---    | ---    | ---  |
| POST, 64 connections | 12.3 k payments/s | 12 k–14 k     | ceiling 20 k / ceiling+ 15 k / bare 40 k | 0.62 / 0.82 / 0.31 | ≥ 0.40 | ≥ 0.85 | must |
| something else       | 3 KiB             |               |                                          |                    |        |        | -    |

A machine. The load itself took 0 µs of CPU for each answer. 7 acknowledged payments were read again afterwards.
`
	if diff := cmp.Diff(want, b.report.markdown()); diff != "" {
		t.Error(diff)
	}

	file := filepath.Join(t.TempDir(), "page.md")
	for text, want := range map[string]string{
		"a\n" + tableBegin + "old\n" + tableEnd + "z\n": "a\n" + tableBegin + "new\n" + tableEnd + "z\n",
		"": "", tableBegin: tableBegin, tableEnd: tableEnd, tableEnd + tableBegin: tableEnd + tableBegin,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := update(file, func() string { return "new\n" })
		got, readErr := os.ReadFile(file)
		if string(got) != want || readErr != nil || (err == nil) != (text != want) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}
