package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"payledger/cmd/payledger/bench"
	"payledger/cmd/payledger/bench/baseline"
	"payledger/eventstore"
)

// benchCmd measures the service and baselines beside it.
type benchCmd struct {
	Suite       []string      `help:"What to measure: names of suites, quick (post and read), http (all but those with a long log), or all." default:"all" placeholder:"NAME,…"`
	Duration    time.Duration `help:"Length of each run." default:"2s"`
	Rounds      int           `help:"Rounds in which the service and the baselines take turns; figures are medians over them." default:"3" placeholder:"N"`
	Connections []int         `help:"Connections of the closed loops of POST." default:"1,16,64,256" placeholder:"N,…"`
	Payments    int           `help:"Payments in the long log of the suites replay, relay and growth." default:"100000" placeholder:"N"`
	Events      int           `help:"Events each payment of the long log has: ${enum}. With 5 it is paid and refunded, with 3 it is paid." default:"5" enum:"3,5"`
	SyncDelay   time.Duration `help:"Let each sync of the service's log and of the ceilings' file take this much longer, as on a slower disk." placeholder:"DURATION"`
	Postgres    string        `help:"Measure POST beside net/http, pgx and this PostgreSQL database too; a schema is made in it and dropped." placeholder:"URL"`
	Profile     string        `help:"Write CPU profiles of the service to this directory, one for each load." placeholder:"DIR"`
	Dir         string        `help:"Where the data directories are made, and removed at the end. Default: the system's directory for temporary files." placeholder:"DIR"`
	Markdown    bool          `help:"Print the report as a Markdown table."`
	Update      string        `help:"Write the Markdown table into this file, between the lines <!-- payledger bench --> and <!-- end of payledger bench -->." placeholder:"FILE"`
	Strict      bool          `help:"Exit with 1 when a figure is not what it must be."`
}

// Help is shown by --help.
func (benchCmd) Help() string {
	var b strings.Builder
	b.WriteString(`Starts this same program on new data directories, with everything switched on but the
rate limits, and loads it over HTTP on loopback. Beside it, in turns, run programs that
do less and set the scale:

  bare      HTTP and the key's check, nothing is kept
  map       the same with payments in memory
  bbolt     the same with payments in a bbolt file
  ceiling   the same behind a group commit to a plain file: one append, one sync for all
            that wait
  ceiling+  the ceiling with an embedded JetStream behind it: two publishes and two
            deliveries for each payment

Each row shows a figure, what it is held against, their ratio, and what the ratio must
and should be. Suites:

`)
	for _, s := range bench.Suites() {
		fmt.Fprintf(&b, "  %-10s%s\n", s.Name, s.About)
	}
	b.WriteString(`
Every payment that was acknowledged is read again at the end; one that is missing is
exit code 7. All takes about five minutes; for a first look: --suite quick --duration 1s.
Files on tmpfs are never synced: choose a --dir on the disk you want to know about.
--postgres needs a program of its own, so that this one depends on no database driver:
go build -C cmd/payledger/bench/postgres -o DIR/payledger-bench-postgres . and DIR in PATH.`)
	return b.String()
}

// Run measures.
func (c benchCmd) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Progress = benchProgress(a.stderr)
	report, err := bench.Run(a.ctx, o)
	if report == nil {
		return err
	}
	if printErr := c.print(a, report); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil {
		return benchError(err)
	}
	if err := c.update(report); err != nil {
		return err
	}
	if missed := report.Missed(); c.Strict && len(missed) > 0 {
		return exitWith(exitFailed, "%d figures are not what they must be, the first is %q", len(missed), missed[0].Name)
	}
	return nil
}

func (c benchCmd) options() (bench.Options, error) {
	o := bench.Options{
		Connections: c.Connections, Duration: c.Duration, Rounds: c.Rounds, Payments: c.Payments, Events: c.Events, SyncDelay: c.SyncDelay,
		Postgres: c.Postgres, Profile: c.Profile, Dir: c.Dir,
	}
	switch {
	case c.Duration <= 0 || c.Rounds < 1 || c.Payments < 10 || c.SyncDelay < 0:
		return o, exitWith(exitUsage, "want --duration above 0, --rounds of 1 or more, --payments of 10 or more, and no negative --sync-delay")
	case len(c.Connections) == 0 || slices.Min(c.Connections) < 1 || slices.Max(c.Connections) > maxConnections:
		return o, exitWith(exitUsage, "--connections: want numbers from 1 to %d", maxConnections)
	}
	var err error
	if o.Suites, err = suites(c.Suite); err != nil {
		return o, err
	}
	if c.Update != "" {
		if _, _, err := tableIn(c.Update); err != nil {
			return o, err
		}
	}
	for _, dir := range []string{c.Profile, c.Dir} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return o, exitWith(exitUsage, "%w", err)
		}
	}
	if o.Program, err = os.Executable(); err != nil {
		return o, err
	}
	if o.Postgres != "" {
		if _, err := bench.FindPostgres(o.Program); err != nil {
			return o, exitWith(exitUsage, "--postgres: %w", err)
		}
	}
	return o, nil
}

const maxConnections = 1024

// suites resolves the names that stand for several.
func suites(names []string) ([]string, error) {
	var all []string
	for _, s := range bench.Suites() {
		all = append(all, s.Name)
	}
	groups := map[string][]string{
		"all": all, "quick": {"post", "read"}, "http": {"post", "read", "latency", "life", "webhooks", "slow-disk"},
	}
	var chosen []string
	for _, n := range names {
		switch group, ok := groups[n]; {
		case ok:
			chosen = append(chosen, group...)
		case slices.Contains(all, n):
			chosen = append(chosen, n)
		default:
			return nil, exitWith(exitUsage, "--suite %s: want all, http, quick, or some of %s", n, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}

func (c benchCmd) print(a *app, r *bench.Report) error {
	switch {
	case a.json:
		return a.printJSON(r)
	case c.Markdown:
		return r.WriteMarkdown(a.stdout)
	}
	return r.WriteTable(a.stdout)
}

// update writes the table into the file of --update.
func (c benchCmd) update(r *bench.Report) error {
	if c.Update == "" {
		return nil
	}
	before, behind, err := tableIn(c.Update)
	if err != nil {
		return err
	}
	var table strings.Builder
	if err := r.WriteMarkdown(&table); err != nil {
		return err
	}
	return os.WriteFile(c.Update, []byte(before+table.String()+behind), 0o644) //nolint:gosec // a README is for everyone
}

func tableIn(name string) (before, behind string, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", "", exitWith(exitUsage, "--update: %w", err)
	}
	before, behind, err = bench.TableIn(string(b))
	if err != nil {
		return "", "", exitWith(exitUsage, "--update %s: %w", name, err)
	}
	return before, behind, nil
}

// benchError gives lost payments the exit code of a verification that failed.
func benchError(err error) error {
	if errors.As(err, new(*bench.LostError)) {
		return &exitError{exitVerify, err}
	}
	return err
}

// benchProgress shows each step: a bar on a terminal, a line elsewhere.
func benchProgress(w io.Writer) func(done, total int, what string) {
	if !isTerminal(w) {
		return func(done, total int, what string) {
			fmt.Fprintf(w, "payledger: bench: %d of %d: %s\n", done+1, total, what)
		}
	}
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	return func(done, total int, what string) {
		bar.ChangeMax(total)
		bar.Describe(what)
		bar.Set(done) //nolint:errcheck // a bar that cannot be drawn harms nobody
	}
}

// benchBaselineCmd is one baseline, as a process of bench.
type benchBaselineCmd struct {
	Name      string        `arg:"" help:"Which one."`
	Dir       string        `help:"Where it keeps what it keeps." required:"" placeholder:"DIR"`
	SyncDelay time.Duration `help:"Added to each sync." placeholder:"DURATION"`
}

// Run serves until the process is asked to stop.
func (c benchBaselineCmd) Run(a *app) error {
	if !slices.Contains(baseline.Names(), c.Name) {
		return exitWith(exitUsage, "baseline %q: want one of %s", c.Name, strings.Join(baseline.Names(), ", "))
	}
	return baseline.Run(a.ctx, baseline.Options{Name: c.Name, Dir: c.Dir, SyncDelay: c.SyncDelay},
		func(r baseline.Ready) error { return a.printJSON(r) })
}

// benchFillCmd writes a long log, as a process of bench.
type benchFillCmd struct {
	inDirectory
	Project  string `help:"Whose payments." required:"" placeholder:"PROJECT_ID"`
	Payments int    `help:"How many." required:"" placeholder:"N"`
	Events   int    `help:"Of each: ${enum}." default:"5" enum:"3,5"`
}

// Run writes.
func (c benchFillCmd) Run(a *app) error {
	progress := newProgress(a.stderr, "Writing payments")
	filled, err := bench.Fill(a.ctx, c.Data, c.Project, c.Payments, c.Events, func(done int) {
		if done%1000 == 0 {
			progress(eventstore.Position(done), eventstore.Position(c.Payments))
		}
	})
	if err != nil {
		return err
	}
	return a.printJSON(filled)
}
