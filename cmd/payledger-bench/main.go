// Command payledger-bench measures a payledger from outside, over HTTP on loopback, and in the same
// run programs that do less: see package baseline. An absolute figure says as much about the
// machine and its other load as about the program. The ratio to a baseline that was measured
// shortly before and after says something about the program.
//
// suites.go has the table of suites, compare.go the comparison of two versions. Everything under
// load is a separate process, so that its CPU time is counted separately. The service runs with
// everything switched on but rate limits. Its runs and the baselines' take turns; figures are
// medians over the rounds, ratios medians of the rounds' ratios.
//
// It is a separate program so that the product contains neither a load generator nor baselines.
// README.md says what each suite measures.
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
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger-bench/baseline"
)

// cli is the command tree. Each flag can be set by PAYLEDGER_BENCH_<FLAG> in
// the environment too.
type cli struct {
	JSON bool   `help:"Print the report as JSON." name:"json"`
	Dir  string `help:"Where data directories are made, and removed at the end. Default: the system's directory for temporary files." placeholder:"DIR"`

	Run      runCmd      `cmd:"" default:"withargs" help:"Measure payledger beside programs that do less."`
	Compare  compareCmd  `cmd:"" help:"Measure two versions of payledger in turns."`
	Baseline baselineCmd `cmd:"" hidden:"" help:"Run a baseline until it is interrupted."`
}

const description = `Measures payledger on this machine.

"payledger-bench" runs every suite, "payledger-bench post read" two of them, "payledger-bench
run --list" lists them. "payledger-bench compare --old FILE" measures an older payledger and a
new one in turns. Run it in the source's folder, where it builds the payledger it measures, or
name one with --program. Files on tmpfs are never synced: name a --dir on the disk you want to
know about.

Exit codes: 0 done, 1 failed, 2 wrong usage, 7 an acknowledged payment was lost.`

// app is what every command's Run gets.
type app struct {
	ctx    context.Context // ends when the process is asked to stop
	stdout io.Writer
	stderr io.Writer
	json   bool
	dir    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run parses the arguments, runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("payledger-bench"), kong.Description(description),
		kong.DefaultEnvars("PAYLEDGER_BENCH"), kong.Vars{"baselines": strings.Join(baseline.Names(), ",")},
		kong.Writers(stdout, stderr),
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
		return fail(stderr, &usageError{err.Error()})
	}
	return fail(stderr, parsed.Run(&app{ctx, stdout, stderr, c.JSON, c.Dir}))
}

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	exitLost   = 7
)

// usageError is a mistake in the arguments.
type usageError struct{ what string }

func (e *usageError) Error() string { return e.what }

// fail prints an error and returns its exit code.
func fail(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "payledger-bench: %v\n", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*lostError](err); ok {
		return exitLost
	}
	return exitFailed
}

// program is the payledger to measure: the one that is named, or one that is
// built in dir from this source.
func (a *app) program(named, dir string) (string, error) {
	if named != "" {
		return named, nil
	}
	built := filepath.Join(dir, "payledger")
	cmd := exec.CommandContext(a.ctx, "go", "build", "-o", built, "payledger/cmd/payledger") //nolint:gosec // all of it is ours
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building payledger (run this in its source's folder, or name a program): %w\n%s", err, out)
	}
	return built, nil
}

// print writes the report as it was asked for.
func (a *app) print(r *report) error {
	if a.json {
		return printJSON(a.stdout, r)
	}
	_, err := io.WriteString(a.stdout, r.markdown())
	return err
}

func printJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// progress shows each step with the time since the start, on a terminal in
// place of the step before.
func progress(w io.Writer) func(step string) {
	begin, end := "payledger-bench: ", "\n"
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			begin, end = "\r\033[K", ""
		}
	}
	start := time.Now()
	return func(step string) {
		fmt.Fprintf(w, "%s%5s %s%s", begin, time.Since(start).Round(time.Second), step, end)
	}
}

// baselineCmd is one baseline, as a separate process.
type baselineCmd struct {
	Name     string `arg:"" help:"Which one: ${enum}." enum:"${baselines}"`
	Files    string `arg:"" help:"The folder in which it keeps its files."`
	Postgres string `help:"The database of the baseline postgres." placeholder:"URL"`
}

// Run serves until the process is asked to stop.
func (c baselineCmd) Run(a *app) error {
	return baseline.Run(a.ctx, baseline.Options{Name: c.Name, Dir: c.Files, Postgres: c.Postgres},
		func(r baseline.Ready) error { return printJSON(a.stdout, r) })
}
