package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"payledger/cmd/payledger-bench/baseline"
)

// suite is a part of the benchmark that can be run separately.
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
	replicated  = baseline.Replicated
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
		{"life", "whole lives of payments (four requests, four events), and refunds", []bound{
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
		{"growth", "POST, memory and disk with a long log, and the start after a crash, also with deliveries pending", []bound{
			{"resident memory for each million", "", 450, 320, atMost},
			{"live heap for each million", "", 40, 0, atMost},
			{"disk", "", 3.7, 2, atMost},
			{"POST", "short log", 0.85, 0.95, false},
			{"p99 of POST", "short log", 1.5, 1.1, atMost},
			{"ready after kill -9", "", 3, 0.5, atMost},
			{"start with", "", 1, 0, atMost},
		}, (*bench).growth},
		{"copy", "the copy of a long log by a node that joins: a million payments in 90 s are 11 k/s", []bound{
			{"copy of", "", 11_111, 0, false},
		}, (*bench).copies},
		{"cluster", "POST and GET on three nodes, which share this machine, beside one that has it for itself", []bound{
			{"POST on three nodes", "one node", 0.25, 0, false},
			{"GET on a follower, ", "one node", 0.2, 0, false},
			{"GET on a follower beside", "", 25, 0, atMost},
		}, (*bench).cluster},
		{"handover", "how long POSTs wait at the other two nodes while the leader goes", []bound{
			{"longest wait for a 201 when the leader is asked", "", 0.5, 0, atMost},
			{"longest wait for a 201 when the leader is killed", "", 5, 0, atMost},
			{"longest wait for a 201 when the leader is cut", "", 12, 0, atMost},
		}, (*bench).handOver},
	}
}

// runCmd measures a payledger and baselines.
type runCmd struct {
	Suite    []string      `arg:"" optional:"" help:"What to measure, as --list names it. Default: everything."`
	List     bool          `help:"List the suites with what their figures must and should be, and measure nothing." env:"-"`
	Program  string        `help:"The payledger to measure. Default: one that is built from the source in this folder." placeholder:"FILE"`
	Duration time.Duration `help:"Length of each run." default:"2s"`
	Rounds   int           `help:"Rounds in which payledger and the baselines take turns; figures are medians over them." default:"3" placeholder:"N"`
	Payments int           `help:"Payments in the long log of replay, relay, growth and copy." default:"100000" placeholder:"N"`
	Postgres string        `help:"Measure POST against net/http, pgx and this PostgreSQL database too. The schema payledger_bench is made in it and dropped." placeholder:"URL"`
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
  ceiling+    the ceiling with an embedded JetStream behind it: a publish and a delivery
              for each payment
  R3          the same behind a group commit to a JetStream stream on three servers: one
              synced publish for all that wait
  PostgreSQL  the same with a payment, an idempotency key and an outbox in one transaction

Each row shows a figure, its lowest and highest round, what it is held against, their ratio,
and what the ratio must and should be.

Every payment that was acknowledged is read again at the end. All suites take about ten
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
