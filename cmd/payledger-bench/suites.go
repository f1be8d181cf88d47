package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"payledger/cmd/payledger-bench/baseline"
)

// suite is a part of the benchmark that can be run by itself.
type suite struct {
	Name   string  `json:"name"`
	What   string  `json:"what"`
	Bounds []bound `json:"bounds"`
	run    func(*bench, context.Context) error
}

// bound is what a row's ratio must and should be. The first one counts whose
// Row is how the row's name begins.
type bound struct {
	Row     string  `json:"row"`
	Against string  `json:"against,omitempty"` // empty: the figure itself
	Must    float64 `json:"must,omitzero"`
	Aim     float64 `json:"aim,omitzero"`
	AtMost  bool    `json:"at_most,omitzero"` // both are upper bounds
}

const atMost = true

const (
	bare        = baseline.Bare
	inMap       = baseline.Map
	inBolt      = baseline.Bolt
	ceiling     = baseline.Ceiling
	ceilingPlus = baseline.CeilingNATS
	postgres    = baseline.Postgres
)

// suites lists all there is, in the order in which they run.
func suites() []suite {
	return []suite{
		{"post", "POST of payments in closed loops, and what is left to do after it", []bound{
			{"POST, 1 ", ceiling, 0.50, 0, false},
			{"POST, 1 ", ceilingPlus, 0, 0.63, false},
			{"POST, ", ceiling, 0.40, 0, false},
			{"POST, ", ceilingPlus, 0, 0.85, false},
			{"POST until awaiting_payment", "answered", 0.95, 0.98, false},
			{"POST for each server core", ceiling, 0.35, 0, false},
			{"POST for each server core", ceilingPlus, 0, 0.80, false},
			{"POST beside PostgreSQL, 64", postgres, 2.5, 4, false},
			{"POST beside PostgreSQL, 256", postgres, 2.5, 4, false},
		}, (*bench).post},
		{"read", "GET of payments, and repeats of idempotency keys", []bound{
			{"GET", inMap, 0.75, 0.95, false},
			{"repeat of a key", "GET", 0.70, 0.90, false},
		}, (*bench).read},
		{"latency", "p99 of POST at fixed rates, and of GET while POST runs", []bound{
			{"POST at", ceiling, 2, 1.2, atMost},
			{"GET while POST", "GET alone", 3, 1.5, atMost},
		}, (*bench).latency},
		{"life", "whole lives of payments (four requests, five events), and refunds", []bound{
			{"whole life", "POST", 0.25, 0.40, false},
		}, (*bench).life},
		{"webhooks", "signed notifications to a receiver, and POST meanwhile", []bound{
			{"webhook deliveries", "", 4000, 15_000, false},
			{"POST of merchants with webhooks", "without", 0.70, 0.85, false},
		}, (*bench).webhooks},
		{"holes", "how long notifications take while other receivers never answer", []bound{
			{"notification beside", "without", 1.1, 0, atMost},
		}, (*bench).blackHoles},
		{"disk", "POST where each sync takes a millisecond longer", []bound{
			{"POST on a slow disk", "without", 0.85, 0.97, false},
		}, (*bench).slowDisk},
		{"replay", "what reads a long log from its first event: replay and verify", []bound{
			{"replay", "", 200_000, 1_000_000, false},
			{"verify,", "", 250_000, 1_000_000, false},
		}, (*bench).replay},
		{"relay", "a long log's way into JetStream", []bound{
			{"backlog of 100 k events", "", 10, 4, atMost},
		}, (*bench).relay},
		{"growth", "POST, memory and disk with a long log, and the start after a crash", []bound{
			{"resident memory for each million", "", 450, 320, atMost},
			{"disk", "", 5, 2, atMost},
			{"POST", "short log", 0.85, 0.95, false},
			{"p99 of POST", "short log", 1.5, 1.1, atMost},
			{"ready after kill -9", "", 3, 0.5, atMost},
		}, (*bench).growth},
	}
}

// bench is one run of the benchmark.
type bench struct {
	duration time.Duration // of each run
	rounds   int           // in which the targets take turns
	payments int           // in the long log
	postgres string        // URL of a database; "": left out
	profile  string        // directory for CPU profiles; "": none

	program string // the payledger that is measured
	self    string // this program, which runs the baselines
	dir     string // of all files
	say     func(step string)
	report  *report

	suite   suite
	running []*target
	long    *directory // the long log, once a suite needed it
	made    int        // data directories
}

// runCmd measures a payledger and baselines beside it.
type runCmd struct {
	Suite    []string      `arg:"" optional:"" help:"What to measure, as --list names it. Default: everything."`
	List     bool          `help:"List the suites with what their figures must and should be, and measure nothing." env:"-"`
	Program  string        `help:"The payledger to measure. Default: one that is built from the source in this folder." placeholder:"FILE"`
	Duration time.Duration `help:"Length of each run." default:"2s"`
	Rounds   int           `help:"Rounds in which payledger and the baselines take turns; figures are medians over them." default:"3" placeholder:"N"`
	Payments int           `help:"Payments in the long log of replay, relay and growth." default:"100000" placeholder:"N"`
	Postgres string        `help:"Measure POST beside net/http, pgx and this PostgreSQL database too. The schema payledger_bench is made in it and dropped." placeholder:"URL"`
	Profile  string        `help:"Write CPU profiles of payledger to this directory, one for each load." placeholder:"DIR"`
	Update   string        `help:"Also write the report as a table into this Markdown file, between the lines <!-- payledger-bench --> and <!-- end of payledger-bench -->." placeholder:"FILE"`
	Strict   bool          `help:"Exit with 1 when a figure is not what it must be."`
}

// Help is shown by --help.
func (runCmd) Help() string {
	return `Starts payledger on new data directories, with everything switched on but the rate limits,
and loads it over HTTP on loopback. Beside it, in turns, run programs that do less and set
the scale:

  bare        HTTP and the key's check; nothing is kept
  map         the same with payments in memory
  bbolt       the same with payments in a bbolt file
  ceiling     the same behind a group commit to a plain file: one append, one sync for all
              that wait
  ceiling+    the ceiling with an embedded JetStream behind it: two publishes and two
              deliveries for each payment
  PostgreSQL  the same with a payment, an idempotency key and an outbox in one transaction

Each row shows a figure, its lowest and highest round, what it is held against, their ratio,
and what the ratio must and should be.

Every payment that was acknowledged is read again at the end. All suites take about six
minutes; for a first look: payledger-bench post --duration 500ms --rounds 1.`
}

// Run measures.
func (c runCmd) Run(a *app) (err error) {
	chosen, err := c.chosen()
	if err != nil {
		return err
	}
	if c.List {
		return list(a, chosen)
	}
	if c.Update != "" {
		if err := update(c.Update, nil); err != nil {
			return err
		}
	}
	b := &bench{
		duration: c.Duration, rounds: c.Rounds, payments: c.Payments, postgres: c.Postgres, profile: c.Profile,
	}
	if err := b.open(a); err != nil {
		return err
	}
	if b.program, err = a.program(c.Program, b.dir); err == nil {
		for _, s := range chosen {
			if err = b.run(a.ctx, s); err != nil {
				break
			}
		}
	}
	if err := b.close(a, err); err != nil {
		return err
	}
	if c.Update != "" {
		if err := update(c.Update, b.report.markdown); err != nil {
			return err
		}
	}
	if missed := b.report.missed(); c.Strict && len(missed) > 0 {
		return fmt.Errorf("not what they must be: %s", strings.Join(missed, "; "))
	}
	return nil
}

// chosen are the suites that were asked for, in their order.
func (c runCmd) chosen() (chosen []suite, err error) {
	if c.Duration <= 0 || c.Rounds < 1 || c.Payments < 10 {
		return nil, &usageError{"want --duration above 0, --rounds of 1 or more and --payments of 10 or more"}
	}
	names := slices.Clone(c.Suite)
	for _, s := range suites() {
		if i := slices.Index(names, s.Name); i >= 0 || len(c.Suite) == 0 {
			chosen = append(chosen, s)
			names = slices.DeleteFunc(names, func(n string) bool { return n == s.Name })
		}
	}
	if len(names) > 0 {
		return nil, &usageError{fmt.Sprintf("there is no suite %s: see payledger-bench run --list", names[0])}
	}
	return chosen, nil
}

// list prints suites with their bounds.
func list(a *app, chosen []suite) error {
	if a.json {
		return printJSON(a.stdout, chosen)
	}
	for _, s := range chosen {
		fmt.Fprintf(a.stdout, "%-9s %s\n", s.Name, s.What)
		for _, b := range s.Bounds {
			sign, words := "≥", ""
			if b.AtMost {
				sign = "≤"
			}
			if b.Must > 0 {
				words += fmt.Sprintf(", must be %s %s", sign, number(b.Must))
			}
			if b.Aim > 0 {
				words += fmt.Sprintf(", should be %s %s", sign, number(b.Aim))
			}
			if b.Against != "" {
				words += " of " + b.Against
			}
			fmt.Fprintf(a.stdout, "          %s%s\n", strings.TrimRight(b.Row, ", "), words)
		}
	}
	return nil
}

// open prepares a directory and the report.
func (b *bench) open(a *app) (err error) {
	runtime.GOMAXPROCS(runtime.NumCPU() + pacers)
	for _, dir := range []string{a.dir, b.profile} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return &usageError{err.Error()}
		}
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(a.dir, "payledger-bench-"); err != nil {
		return err
	}
	b.say = progress(a.stderr)
	b.report, err = newReport(b.dir, b.duration)
	return err
}

// close ends what still runs, prints the report, and removes all files unless
// a payment was lost. It returns the error that ended the benchmark.
func (b *bench) close(a *app, err error) error {
	b.stopAll()
	if len(b.report.Rows) > 0 {
		err = errors.Join(err, a.print(b.report))
	}
	if _, lost := errors.AsType[*lostError](err); lost {
		return fmt.Errorf("%w; all files are in %s", err, b.dir)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *bench) run(ctx context.Context, s suite) error {
	b.suite = s
	if err := s.run(b, ctx); err != nil {
		return fmt.Errorf("suite %s: %w", s.Name, err)
	}
	for _, t := range b.running {
		if t.admin == "" {
			continue
		}
		b.step("reading again what was acknowledged")
		n, err := t.verify(ctx)
		b.report.Checked += n
		if err != nil {
			return fmt.Errorf("suite %s: %w", s.Name, err)
		}
	}
	b.stopAll()
	return nil
}

func (b *bench) stopAll() {
	for _, t := range b.running {
		_ = t.stop() // what matters of it has been checked
	}
	b.running = nil
}

// step tells of the next step.
func (b *bench) step(format string, args ...any) {
	b.say(cmp.Or(b.suite.Name, "compare") + ": " + fmt.Sprintf(format, args...))
}

// row adds a row to the report, with the bounds of its suite.
func (b *bench) row(name, unit string, figure series, all ...against) {
	for i := range all {
		a := &all[i]
		for _, bound := range b.suite.Bounds {
			if strings.HasPrefix(name, bound.Row) && bound.Against == a.Name && a.Must == 0 && a.Aim == 0 {
				a.Must, a.Aim, a.AtMost = bound.Must, bound.Aim, bound.AtMost
			}
		}
	}
	b.report.add(b.suite.Name, name, unit, figure, all...)
}

// measured is what a target did in each round of one load.
type measured struct {
	rate      series // answers a second
	p99       series // milliseconds
	sustained series // answers a second until nothing was left to do
	perCore   series // answers for each second of the server's CPU time until then
}

// entrant is a target and what it is loaded with.
type entrant struct {
	name string
	t    *target
	work func(*target) operation // asked for before each run
}

// measure runs one load on the entrants in turn, round after round.
func (b *bench) measure(ctx context.Context, what string, l load, entrants ...entrant) ([]measured, error) {
	all := make([]measured, len(entrants))
	for round := range b.rounds {
		for i, e := range entrants {
			b.step("%s, round %d of %d: %s", what, round+1, b.rounds, e.name)
			if err := b.once(ctx, what, l, e, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// once runs one load on one entrant, waits until nothing is left to do for it,
// and adds what was measured.
func (b *bench) once(ctx context.Context, what string, l load, e entrant, m *measured) error {
	l.warm, l.duration = b.duration/8, b.duration
	profiled := make(chan error, 1)
	if b.profile != "" && e.t.admin != "" && len(m.rate) == 0 {
		name := strings.NewReplacer(" ", "-", "/", "-", ",", "").Replace(b.suite.Name + " " + what + " " + e.name)
		go func() { profiled <- e.t.profile(ctx, filepath.Join(b.profile, name+".pprof"), l.duration) }()
	} else {
		profiled <- nil
	}
	cpu, start := e.t.cpu(), time.Now()
	o, err := e.t.drive(ctx, l, e.work(e.t))
	if err == nil {
		err = e.t.settle(ctx)
	}
	if err := errors.Join(err, <-profiled); err != nil {
		return err
	}
	m.rate, m.p99 = append(m.rate, o.rate), append(m.p99, o.p99)
	m.sustained = append(m.sustained, float64(o.all)/time.Since(start).Seconds())
	m.perCore = append(m.perCore, float64(o.all)/max(e.t.cpu()-cpu, time.Millisecond).Seconds())
	if l.rate == 0 {
		b.report.answers += o.all
		b.report.loadCPU += o.cpu
	}
	return nil
}

// baseline starts a baseline.
func (b *bench) baseline(ctx context.Context, name string) (*target, error) {
	dir, err := os.MkdirTemp(b.dir, "baseline-")
	if err != nil {
		return nil, err
	}
	t, err := launch(ctx, name, filepath.Join(dir, "log"), []string{"PAYLEDGER_BENCH_POSTGRES=" + b.postgres}, b.self, "baseline", name, dir)
	if err == nil {
		b.running = append(b.running, t)
	}
	return t, err
}

// entrants starts payledger on a new data directory, and these baselines.
func (b *bench) entrants(ctx context.Context, work func(*target) operation, baselines ...string) ([]entrant, error) {
	service, err := b.service(ctx, b.program, "payledger")
	if err != nil {
		return nil, err
	}
	all := []entrant{{service.name, service, work}}
	for _, name := range baselines {
		t, err := b.baseline(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, entrant{name, t, work})
	}
	return all, nil
}

// connections names the number of connections of a closed loop.
func connections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}
