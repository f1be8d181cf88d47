// Command payledger-bench measures a payledger from outside, beside programs
// that do less. It is a program of its own, so that the product carries neither
// a load generator nor baselines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/schollz/progressbar/v3"

	"payledger/cmd/payledger-bench/baseline"
	"payledger/cmd/payledger-bench/bench"
)

// cli is the command tree. Each flag can be set by PAYLEDGER_BENCH_<FLAG> in
// the environment too.
type cli struct {
	Run      benchCmd    `cmd:"" default:"withargs" help:"Measure payledger beside programs that do less."`
	Baseline baselineCmd `cmd:"" hidden:"" help:"Run a baseline."`
}

// app is what every command's Run gets.
type app struct {
	ctx    context.Context // ends when the process is asked to stop
	stdout io.Writer
	stderr io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run parses the arguments, runs the command and answers the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("payledger-bench"), kong.DefaultEnvars("PAYLEDGER_BENCH"), kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(code int) { exited = code }),
	)
	if err != nil {
		panic(err) // the command tree itself is wrong
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return report(stderr, exitWith(exitUsage, "%w", err))
	}
	return report(stderr, parsed.Run(&app{ctx, stdout, stderr}))
}

// Exit codes, as those of payledger.
const (
	exitFailed = 1
	exitUsage  = 2
	exitVerify = 7
)

// exitError is an error with the exit code it leads to.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// report prints an error and answers its exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "payledger-bench: %v\n", err)
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitFailed
}

func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// benchCmd measures the service and baselines beside it.
type benchCmd struct {
	Program     string        `help:"The payledger to measure. Default: one built from this source with go build." placeholder:"FILE"`
	JSON        bool          `help:"Print the report as JSON." name:"json"`
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
	Update      string        `help:"Write the Markdown table into this file, between the lines <!-- payledger-bench --> and <!-- end of payledger-bench -->." placeholder:"FILE"`
	Strict      bool          `help:"Exit with 1 when a figure is not what it must be."`
}

// Help is shown by --help.
func (benchCmd) Help() string {
	var b strings.Builder
	b.WriteString(`Starts payledger on new data directories, with everything switched on but the
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
--postgres needs a program of its own, so that this module depends on no database driver:
go build -C cmd/payledger-bench/postgres -o DIR/payledger-bench-postgres . and DIR in PATH.`)
	return b.String()
}

// Run measures.
func (c benchCmd) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if o.Program == "" {
		built, err := build(a.ctx)
		if err != nil {
			return err
		}
		defer os.RemoveAll(filepath.Dir(built)) //nolint:errcheck // of temporary files
		o.Program = built
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
		Program: c.Program, Connections: c.Connections, Duration: c.Duration, Rounds: c.Rounds, Payments: c.Payments, Events: c.Events, SyncDelay: c.SyncDelay,
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
	if o.Self, err = os.Executable(); err != nil {
		return o, err
	}
	if o.Postgres != "" {
		if _, err := bench.FindPostgres(o.Self); err != nil {
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
	case c.JSON:
		return printJSON(a.stdout, r)
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
			fmt.Fprintf(w, "payledger-bench: %d of %d: %s\n", done+1, total, what)
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

// build makes a payledger from this source.
func build(ctx context.Context) (program string, err error) {
	dir, err := os.MkdirTemp("", "payledger-bench-build-")
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "payledger")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "payledger/cmd/payledger") //nolint:gosec // the name is ours
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w\n%s", cmd, err, out), os.RemoveAll(dir))
	}
	return program, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// baselineCmd is one baseline, as a process of its own.
type baselineCmd struct {
	Name      string        `arg:"" help:"Which one."`
	Dir       string        `help:"Where it keeps what it keeps." required:"" placeholder:"DIR"`
	SyncDelay time.Duration `help:"Added to each sync." placeholder:"DURATION"`
}

// Run serves until the process is asked to stop.
func (c baselineCmd) Run(a *app) error {
	if !slices.Contains(baseline.Names(), c.Name) {
		return exitWith(exitUsage, "baseline %q: want one of %s", c.Name, strings.Join(baseline.Names(), ", "))
	}
	return baseline.Run(a.ctx, baseline.Options{Name: c.Name, Dir: c.Dir, SyncDelay: c.SyncDelay},
		func(r baseline.Ready) error { return printJSON(a.stdout, r) })
}
