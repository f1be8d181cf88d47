package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	httpadmin "payledger/httpapi/admin"
	"payledger/projections/check"
)

// replayCmd folds the log from its first event.
type replayCmd struct {
	Data string `help:"Data directory, of a running server or a stopped one." placeholder:"DIR"`
	File string `arg:"" optional:"" help:"In place of --data: a copy of a ledger.db, or an exported bundle."`
	admincmd.Trust
	Check   bool   `help:"Compare the projections with a rebuild from the log, byte for byte."`
	AsOf    string `help:"Print the state as of this position, or this time." placeholder:"POSITION|TIME"`
	Payment string `help:"Print this payment only." placeholder:"PAYMENT_ID"`
}

// Help is shown by --help.
func (replayCmd) Help() string {
	return `Prints every project and payment as the log defines them, at its end or at a past moment.
As of a time means: before the first event that is later. With --json each line is
{"project":…} or {"payment":…}. Nothing is changed; the work is done in the system's
directory for temporary files. Exit code 7: --check found a difference.`
}

// Run replays.
func (c replayCmd) Run(a *cli.App) error {
	path := cmp.Or(c.File, c.Data)
	q, err := c.request()
	if err != nil {
		return err
	}
	if path == "" {
		return cli.Errorf(cli.ExitUsage, "name what to replay: --data DIR, a copy of a ledger.db, or a bundle")
	}
	if c.File == "" && c.Given() {
		return cli.Errorf(cli.ExitUsage, "--checkpoint and --verifier-key are for a file: \"payledger verify\" compares a directory with them")
	}
	given, err := c.Anchors()
	if err != nil {
		return err
	}
	e, err := service.OpenEvidence(a.Ctx, path, given, a.Stderr)
	if err != nil {
		return err
	}
	defer e.Close() //nolint:errcheck // only read
	// A replay allocates much and keeps little: collecting garbage less often
	// saves a quarter of its CPU time.
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	var comparison *check.Comparison
	out, to := bufio.NewWriterSize(a.Stdout, 1<<18), *a
	to.Stdout = out
	err = e.Replay(a.Ctx, q, a.Showing(func(l httpadmin.Line) error {
		switch {
		case l.Comparison != nil:
			comparison = l.Comparison
		case l.Project != nil:
			return printState(&to, l, l.Project.ID, l.Project.Name, projectState(*l.Project))
		case l.Payment != nil:
			p := l.Payment
			return printState(&to, l, p.ID.String(), string(p.Status), fmt.Sprintf("%s %s %s%s", p.Amount, p.Currency, p.Project, refundStates(*p)))
		}
		return nil
	}))
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil || comparison == nil {
		return service.RefusedLocally(err)
	}
	return printComparison(a, *comparison)
}

func (c replayCmd) request() (q httpadmin.ReplayRequest, err error) {
	q.Check = c.Check
	if c.Check && (c.AsOf != "" || c.Payment != "") {
		return q, cli.Errorf(cli.ExitUsage, "--check compares everything there is now: leave --as-of and --payment out")
	}
	if c.Payment != "" {
		id, ok := domain.ParseID(c.Payment)
		if !ok {
			return q, cli.Errorf(cli.ExitUsage, "--payment %q: want a payment's id, 26 characters in upper case", c.Payment)
		}
		q.Payment = &id
	}
	if c.AsOf == "" {
		return q, nil
	}
	if n, err := strconv.ParseUint(c.AsOf, 10, 63); err == nil {
		p := eventstore.Position(n)
		q.Position = &p
		return q, nil
	}
	var at domain.Instant
	if err := at.UnmarshalText([]byte(c.AsOf)); err != nil {
		return q, cli.Errorf(cli.ExitUsage, "--as-of %q: want a position, or a time such as 2026-11-20T10:15:30Z", c.AsOf)
	}
	q.Time = &at
	return q, nil
}

func printState(a *cli.App, l httpadmin.Line, columns ...string) error {
	line := []byte(strings.Join(columns, "  "))
	if a.JSON {
		var err error // a merchant's payload stays byte for byte as it was sent
		if line, err = json.Marshal(l, json.Deterministic(true), jsontext.PreserveRawStrings(true)); err != nil {
			return err
		}
	}
	_, err := a.Stdout.Write(append(line, '\n'))
	return err
}

func projectState(p projects.Project) string {
	live := 0
	for _, k := range p.Keys {
		if !k.Revoked {
			live++
		}
	}
	state := "active"
	if p.Disabled {
		state = "disabled"
	}
	return fmt.Sprintf("%s, %s", state, cli.Count(live, "live key"))
}

func refundStates(p domain.Payment) string {
	var b strings.Builder
	for _, r := range p.Refunds {
		fmt.Fprintf(&b, "  refund %s %s", r.ID, r.Status)
	}
	return b.String()
}

func printComparison(a *cli.App, c check.Comparison) error {
	if a.JSON {
		if err := a.PrintJSON(c); err != nil {
			return err
		}
	} else if c.Same() {
		fmt.Fprintf(a.Stdout, "The projections at position %d are, byte for byte, what the log leads to: %s compared.\n", c.Position, cli.Count(c.Keys, "key"))
		if c.Position < c.Last {
			fmt.Fprintf(a.Stdout, "The next start folds %s after it.\n", cli.Count(c.Last-c.Position, "event"))
		}
	}
	switch {
	case c.Same():
		return nil
	case c.Missing:
		return cli.Errorf(cli.ExitDirectory, "there is no projections.db to compare; the next start builds it")
	case c.Other:
		return cli.Errorf(cli.ExitDirectory, "projections.db is of another log or another version of the program; the next start rebuilds it")
	case c.Damage != "":
		return cli.Errorf(cli.ExitVerify, "projections.db is damaged, delete it and the next start rebuilds it: %s", c.Damage)
	case c.Ahead():
		return cli.Errorf(cli.ExitVerify, "the projections have seen position %d, the log ends at %d: its end is missing", c.Position, c.Last)
	}
	err := errors.New("the projections differ from what the log leads to; delete projections.db and the next start rebuilds it")
	for _, d := range c.Differences {
		err = fmt.Errorf("%w\n  %s, key %s: %s", err, d.View, d.Key, d.What)
	}
	return cli.WithCode(cli.ExitVerify, err)
}
