package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"payledger/cmd/payledger-bench/baseline"
)

// compareCmd measures two versions of payledger in turns.
type compareCmd struct {
	Old      string        `help:"The older payledger." required:"" placeholder:"FILE"`
	New      string        `help:"The newer one. Default: one that is built from the source in this folder." placeholder:"FILE"`
	Rounds   int           `help:"Rounds in which the two take turns." default:"9" placeholder:"N"`
	Duration time.Duration `help:"Length of each run." default:"2s"`
	Strict   bool          `help:"Exit with 1 when the newer one is worse."`
}

// Help is shown by --help.
func (compareCmd) Help() string {
	return `Both are driven from outside, by commands and over HTTP, so they may differ in everything
else. They take turns on new data directories: each load runs on one and then on the other,
and from round to round the other one begins.

Figures are medians over the rounds with the lowest and highest round, ratios those of the
rounds, new to old. POST and GET must be 0.95 of the old one's or better; nothing else may
be worse than the old one's worst round, or 2 %. A ratio above 1 is better where figures are
rates, and worse where they are times and sizes.

The default of 9 rounds takes about eleven minutes.`
}

// Run compares.
func (c compareCmd) Run(a *app) (err error) {
	if c.Duration <= 0 || c.Rounds < 1 {
		return &usageError{"want --duration above 0 and --rounds of 1 or more"}
	}
	b := &bench{duration: c.Duration, rounds: c.Rounds}
	if err := b.open(a); err != nil {
		return err
	}
	programs := [2]string{c.Old, c.New}
	if programs[1], err = a.program(c.New, b.dir); err == nil {
		err = b.compare(a.ctx, programs)
	}
	if err := b.close(a, err); err != nil {
		return err
	}
	if missed := b.report.missed(); c.Strict && len(missed) > 0 {
		return fmt.Errorf("the newer one is worse: %s", strings.Join(missed, "; "))
	}
	return nil
}

// figure is one quantity of both programs.
type figure struct {
	name, unit string
	must       float64   // of the ratio; 0: see compared
	lower      bool      // lower is better
	rounds     [2]series // of the old program and the new one
}

// contest measures some figures of a service that is started for it.
type contest struct {
	figures []figure
	start   func(ctx context.Context, program, name string) (*target, error)
	run     func(context.Context, *target) ([]float64, error) // one for each figure
}

// contests are all there is to compare. The sink takes the webhooks.
func (b *bench) contests(sink *target) []contest {
	post := func(n int) figure {
		return figure{name: "POST, " + connections(n), unit: "payments/s", must: 0.95}
	}
	p99 := func(rate int) figure {
		return figure{name: fmt.Sprintf("POST at %d/s: p99", rate), unit: "ms", lower: true}
	}
	service := func(ctx context.Context, program, name string) (*target, error) { return b.service(ctx, program, name) }
	// The number of lives is fixed, so that both programs keep as much after it.
	lives := max(int(2000*b.duration.Seconds()), 64)
	return []contest{
		{[]figure{post(1), post(16)}, service, b.rates(1, 16)},
		{[]figure{post(64), post(256), {name: "GET, 64 connections", unit: "payments/s", must: 0.95}}, service, b.ratesAndGET(64, 256)},
		{[]figure{p99(1000), p99(4000)}, service, b.p99s(1000, 4000)},
		{
			[]figure{
				{name: "whole life, 64 connections", unit: "payments/s"},
				{name: fmt.Sprintf("live heap after %d lives", lives), unit: "MiB", lower: true},
				{name: fmt.Sprintf("resident memory after %d lives", lives), unit: "MiB", lower: true},
				{name: "disk for a payment of a whole life", unit: "KiB", lower: true},
				{name: "JetStream's disk for such a payment", unit: "KiB", lower: true},
			},
			service, b.lives(lives),
		},
		{
			[]figure{
				{name: "webhook deliveries", unit: "deliveries/s"},
				{name: "POST of merchants with webhooks, " + connections(b.merchants()), unit: "payments/s"},
			},
			func(ctx context.Context, program, name string) (*target, error) {
				return b.shops(ctx, program, name, func(merchant int) string { return fmt.Sprintf("http://%s/%d", sink.addr, merchant) })
			},
			func(ctx context.Context, t *target) ([]float64, error) {
				var posted measured
				rate, err := b.deliver(ctx, "deliveries", load{connections: b.merchants()}, t, sink, &posted)
				return append([]float64{rate}, posted.rate...), err
			},
		},
	}
}

// rates are those of POST, at these numbers of connections.
func (b *bench) rates(connections ...int) func(context.Context, *target) ([]float64, error) {
	return func(ctx context.Context, t *target) ([]float64, error) {
		var m measured
		for _, n := range connections {
			if err := b.once(ctx, "POST", load{connections: n}, entrant{t.name, t, creating}, &m); err != nil {
				return nil, err
			}
		}
		return m.rate, nil
	}
}

func (b *bench) ratesAndGET(connections ...int) func(context.Context, *target) ([]float64, error) {
	return func(ctx context.Context, t *target) ([]float64, error) {
		rates, err := b.rates(connections...)(ctx, t)
		if err != nil {
			return nil, err
		}
		var m measured
		err = b.once(ctx, "GET", load{connections: 64}, entrant{t.name, t, getting}, &m)
		return append(rates, m.rate...), err
	}
}

// p99s are those of POST, at these rates.
func (b *bench) p99s(rates ...int) func(context.Context, *target) ([]float64, error) {
	return func(ctx context.Context, t *target) ([]float64, error) {
		var m measured
		for _, rate := range rates {
			if err := b.once(ctx, "POST", load{connections: openConnections, rate: rate}, entrant{t.name, t, creating}, &m); err != nil {
				return nil, err
			}
		}
		return m.p99, nil
	}
}

// lives takes payments through their whole life and measures their size on disk. The files of an
// empty service are not counted.
func (b *bench) lives(n int) func(context.Context, *target) ([]float64, error) {
	return func(ctx context.Context, t *target) ([]float64, error) {
		ledgerBefore, jetStreamBefore, err := t.disk()
		if err != nil {
			return nil, err
		}
		o, err := t.drive(ctx, load{connections: 64}, times(n, (*client).life))
		if err != nil {
			return nil, err
		}
		if err := sleep(ctx, 2*time.Second); err != nil { // until the views are written and JetStream has everything
			return nil, err
		}
		heap, resident, err := t.memory(ctx)
		if err != nil {
			return nil, err
		}
		ledger, jetStream, err := t.disk()
		return []float64{o.rate, heap, resident, (ledger - ledgerBefore) / float64(n), (jetStream - jetStreamBefore) / float64(n)}, err
	}
}

// compare measures two programs, the old one first.
func (b *bench) compare(ctx context.Context, programs [2]string) error {
	sink, err := b.baseline(ctx, baseline.Sink)
	if err != nil {
		return err
	}
	contests := b.contests(sink)
	defer func() {
		for _, c := range contests {
			for _, f := range c.figures {
				b.compared(f)
			}
		}
	}()
	for round := range b.rounds {
		for _, c := range contests {
			for turn := range programs {
				i := (turn + round) % 2
				if err := b.play(ctx, c, programs[i], i, round); err != nil {
					return fmt.Errorf("round %d: %w", round+1, err)
				}
			}
		}
	}
	return nil
}

// play runs a contest once, on a new service of a program.
func (b *bench) play(ctx context.Context, c contest, program string, i, round int) error {
	name := []string{"old", "new"}[i]
	b.step("round %d of %d: %s: %s", round+1, b.rounds, c.figures[0].name, name)
	t, err := c.start(ctx, program, name)
	if err != nil {
		return err
	}
	measured, err := c.run(ctx, t)
	if err != nil {
		return err
	}
	for at, v := range measured {
		c.figures[at].rounds[i] = append(c.figures[at].rounds[i], v)
	}
	n, err := t.verify(ctx)
	b.report.Checked += n
	return errors.Join(err, b.end(t, (*target).stop), os.RemoveAll(t.data))
}

// tolerance is how much worse a ratio may be however close the rounds are.
const tolerance = 0.02

// compared adds a figure's row to the report.
func (b *bench) compared(f figure) {
	older, newer := f.rounds[0], f.rounds[1]
	if len(newer) == 0 {
		return
	}
	a := newer.over("old", older)
	switch s := older.spread(); {
	case f.must > 0:
		a.Must = f.must
	case f.lower:
		a.Must, a.AtMost = max(s.High/s.Median, 1+tolerance), true
	default:
		a.Must = min(s.Low/s.Median, 1-tolerance)
	}
	b.report.add("compare", f.name, f.unit, newer, a)
}
