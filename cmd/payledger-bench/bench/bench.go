package bench

import (
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

// Options say what to measure and how.
type Options struct {
	Program     string        // the payledger to measure
	Self        string        // this program, which runs the baselines
	Suites      []string      // names of Suites
	Connections []int         // of the closed loops of payments
	Duration    time.Duration // of each run
	Rounds      int           // of runs that take turns
	Payments    int           // in the log of suites that need a long one
	Events      int           // of each of them; see Fill
	SyncDelay   time.Duration // added to each sync of the service's log and the ceilings' file
	Postgres    string        // URL of a PostgreSQL database for its baseline; none: left out
	Profile     string        // directory for CPU profiles of the service; none: no profiles
	Dir         string        // where all files go, "": the system's directory for temporary files

	// Progress hears of each step before it begins.
	Progress func(done, total int, what string)
}

// bench is one run of the benchmark.
type bench struct {
	Options
	dir     string
	suite   string // that is running
	running []*target
	report  *Report
	long    *directory // the long log, once a suite needed it
	done    int
	total   int
}

// Suite is a part of the benchmark that can be run by itself.
type Suite struct {
	Name  string
	About string
	steps func(*bench) int
	run   func(*bench, context.Context) error
}

// Suites lists all there is, in the order in which they run.
func Suites() []Suite {
	return []Suite{
		{"post", "POST of payments in closed loops, and what is left to do after it", stepsPost, (*bench).post},
		{"read", "GET of payments and repeats of idempotency keys", stepsRead, (*bench).read},
		{"latency", "latency at fixed rates, in open loops", stepsLatency, (*bench).latency},
		{"life", "whole lives of payments, and refunds", stepsLife, (*bench).life},
		{"webhooks", "signed notifications to a sink, and POST meanwhile", stepsWebhooks, (*bench).webhooks},
		{"slow-disk", "POST of payments where each sync takes longer", stepsSlowDisk, (*bench).slowDisk},
		{"replay", "reading a long log: replay and verify", stepsReplay, (*bench).replay},
		{"relay", "a long log's way into JetStream", stepsRelay, (*bench).relay},
		{"growth", "POST, memory and disk with a long log, and the start after a crash", stepsGrowth, (*bench).growth},
	}
}

// Run measures. The report holds what was measured until an error ended it,
// which is a *LostError when the service lost a payment.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + pacers))
	b := &bench{Options: o, report: newReport(o)}
	if b.dir, err = os.MkdirTemp(o.Dir, "payledger-bench-"); err != nil {
		return nil, err
	}
	keep := false
	defer func() {
		b.stopAll()
		if !keep {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	if err := b.report.describe(b.dir); err != nil {
		return nil, err
	}
	var chosen []Suite
	for _, s := range Suites() {
		if slices.Contains(o.Suites, s.Name) {
			chosen = append(chosen, s)
			b.total += s.steps(b)
		}
	}
	for _, s := range chosen {
		start := time.Now()
		b.suite = s.Name
		if err := s.run(b, ctx); err != nil {
			var lost *LostError
			if keep = errors.As(err, &lost); keep {
				err = fmt.Errorf("%w; all files are in %s", err, b.dir)
			}
			return b.report, fmt.Errorf("suite %s: %w", s.Name, err)
		}
		b.stopAll()
		b.report.Took[s.Name] = time.Since(start).Seconds()
	}
	return b.report, b.report.refusals()
}

// stopAll ends what is still running, whatever it did.
func (b *bench) stopAll() {
	for _, t := range b.running {
		_ = t.stop() // what matters of it has been checked
	}
	b.running = nil
}

// step tells of the next step.
func (b *bench) step(format string, args ...any) {
	b.Progress(b.done, max(b.total, b.done), fmt.Sprintf(format, args...))
	b.done++
}

// baseline starts a baseline.
func (b *bench) baseline(ctx context.Context, name string) (*target, error) {
	dir, err := os.MkdirTemp(b.dir, strings.Trim(name, "+")+"-")
	if err != nil {
		return nil, err
	}
	t, err := launch(ctx, name, filepath.Join(dir, "log"), nil, b.Self,
		"baseline", name, "--dir", dir, "--sync-delay", b.SyncDelay.String())
	if err != nil {
		return nil, err
	}
	t.baseline = true
	b.running = append(b.running, t)
	return t, nil
}

// baselines starts several.
func (b *bench) baselines(ctx context.Context, names ...string) ([]*target, error) {
	var all []*target
	for _, name := range names {
		t, err := b.baseline(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// measured is what a target did in each round of one load.
type measured struct {
	rate, perCore, p99, sustained series

	outcomes []outcome
}

// entrant is a target with the work it is loaded with. The work is asked for
// before each run.
type entrant struct {
	name string
	t    *target
	work func() work
}

// creators load each target with the creation of payments.
func creators(targets ...*target) []entrant {
	var all []entrant
	for _, t := range targets {
		all = append(all, entrant{t.name, t, func() work { return create(&t.acks) }})
	}
	return all
}

// getters load each target with reads of what it has acknowledged.
func getters(targets ...*target) []entrant {
	var all []entrant
	for _, t := range targets {
		all = append(all, entrant{t.name, t, func() work { return get(t.acks.all()) }})
	}
	return all
}

// measure runs one load on the entrants in turn, round after round. After each
// run it waits until nothing is left to do for it.
func (b *bench) measure(ctx context.Context, what string, l load, entrants []entrant) ([]measured, error) {
	all := make([]measured, len(entrants))
	for round := range b.Rounds {
		for i, e := range entrants {
			b.step("%s, round %d: %s", what, round+1, e.name)
			if err := b.one(ctx, what, round, l, e, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (b *bench) one(ctx context.Context, what string, round int, l load, e entrant, m *measured) error {
	t := e.t
	l.Warm, l.Duration = b.Duration/8, b.Duration
	profiled := make(chan error, 1)
	if b.Profile != "" && t.Admin != "" && round == 0 {
		name := strings.NewReplacer(" ", "-", "/", "-", ",", "").Replace(strings.Join([]string{b.suite, what, e.name}, " "))
		go func() { profiled <- t.profile(ctx, b.Profile, name, l.Duration) }()
	} else {
		profiled <- nil
	}
	cpu, start := t.cpu(), time.Now()
	o, err := drive(ctx, t, l, e.work())
	if err == nil && !l.ReadOnly {
		err = t.settled(ctx)
	}
	if err := errors.Join(err, <-profiled, t.running()); err != nil {
		return err
	}
	whole := time.Since(start)
	b.report.add(Sample{
		What: what, Target: e.name, Round: round + 1, Connections: l.Connections, Rate: l.Rate,
		PerSecond: o.rate(), Latency: o.Latency, Late: o.Late, Refused: o.Refused, Refusal: o.Refusal,
		ServerCPU: per(o.ServerCPU.Seconds()*1e6, float64(o.Answered)), OwnCPU: per(o.OwnCPU.Seconds()*1e6, float64(o.Answered)),
		Settled: (whole - l.Warm - o.Elapsed).Seconds(),
	})
	m.rate = append(m.rate, o.rate())
	m.p99 = append(m.p99, o.Latency.P99)
	m.perCore = append(m.perCore, per(float64(o.All), (t.cpu()-cpu).Seconds()))
	m.sustained = append(m.sustained, per(float64(o.All), whole.Seconds()))
	m.outcomes = append(m.outcomes, o)
	return nil
}

// row adds a row to the report.
func (b *bench) row(r Row) { b.report.Rows = append(b.report.Rows, r) }

// checkAcks reads everything again that a service acknowledged.
func (b *bench) checkAcks(ctx context.Context, t *target) error {
	b.step("reading again what was acknowledged")
	n, err := t.verify(ctx)
	b.report.Checked += n
	return err
}

// closed is a closed loop.
func closed(connections int) string {
	if connections == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", connections)
}

// The baselines as they are named in reports.
const (
	bare     = baseline.Bare
	inMap    = baseline.Map
	inBolt   = baseline.Bolt
	ceiling  = baseline.Ceiling
	ceiling2 = baseline.CeilingNATS
)
