package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

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
	var all sync.WaitGroup // nodes wait for each other when they are stopped one after the other
	for _, t := range b.running {
		all.Go(func() { _ = t.stop() }) // what matters of it has been checked
	}
	all.Wait()
	b.running = nil
}

// step reports the next step.
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

// entrant is a target and its load.
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
