package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/salvage"
	"payledger/eventstore/translog"
)

// salvageCmd makes a new log of what is readable of a damaged one and its
// copies.
type salvageCmd struct {
	Source      []string `arg:"" optional:"" help:"Data directory, ledger.db or backup (damaged or not), bundle, export in JSON Lines, or nats/ directory; as many as there are."`
	NATSURL     string   `help:"External NATS server whose EVENTS is read too." name:"nats-url" placeholder:"URL"`
	Output      string   `help:"File for the new log; \"payledger restore\" takes it." short:"o" required:"" placeholder:"FILE"`
	Checkpoint  []string `help:"Signed checkpoint to prove the log with; may be given more than once. Those of directories and bundles need not be named." placeholder:"FILE"`
	VerifierKey []string `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directories, or of the bundles." placeholder:"KEY|FILE" sep:"none"`
	Partial     bool     `help:"Write the log although events are missing: up to the first that is; what is readable behind it goes to FILE.rest.jsonl."`
	Unproved    bool     `help:"Take events that nothing proves too."`
	Force       bool     `help:"Replace FILE if it is there."`
}

// Help is shown by --help.
func (salvageCmd) Help() string {
	return `For a log that no backup replaces. Every copy is read as far as it goes: a ledger.db byte by
byte, each record judged by its own checksum, whatever has become of the file's structure;
EVENTS, which is a copy of the log; exports and backups of any age. Position by position the
copies complete each other. Where they differ, the one with which the newest checkpoint comes
out right is taken; where no checkpoint tells, the position is refused. The new log is proved
like "payledger verify" does, and what is missing is named: positions, and the payments of
which later events are there.

  payledger salvage DIR --output saved.db                    a stopped data directory with its nats/
  payledger salvage DIR backup.db export.jsonl -o saved.db   and older copies
  payledger salvage DIR --nats-url nats://HOST:4222 -o saved.db
  payledger restore saved.db --data DIR --force              then put it in place

The sources are opened for reading only, and JetStream runs on a copy of its files beside the
output, which takes as much room as they do; the source never changes.

Proved is what a signed checkpoint covers. Behind it counts a record on a page that the
ledger.db uses, an event in EVENTS, and what two exports say alike. All else, such as a line of
one export or a record in a part of the file that is out of use, needs --unproved: it may have
been altered, or never acknowledged.

Exit codes: 0 the log is whole and proved; 7 events are missing, or not proved: without
--partial or --unproved nothing was written, with them the message says what is not there; 3
nothing of a log can be read; 4 a source is in use.`
}

// Validate refuses a call without sources.
func (c salvageCmd) Validate() error {
	if len(c.Source) == 0 && c.NATSURL == "" {
		return errors.New("name what is left of the log: a data directory, files, --nats-url")
	}
	return nil
}

// salvaging is a salvage under way.
type salvaging struct {
	*app
	salvageCmd

	work    *scratch
	sources []*salvage.Source
	closers []func() error
	points  []signedPoint
	keys    []string // verifier keys that are trusted
	brought []string // verifier keys that came with bundles
	unread  []unreadSource

	log       domain.ID
	verifiers []*translog.Verifier
	opened    []signedPoint
}

// signedPoint is a checkpoint that was found.
type signedPoint struct {
	name   string
	signed []byte
	size   eventstore.Position // once it is opened
}

// unreadSource is a source that gave nothing.
type unreadSource struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Run makes the log.
func (c salvageCmd) Run(a *app) (err error) {
	if err := c.mayWrite(); err != nil {
		return err
	}
	defer roomyHeap()() //nolint:errcheck // it answers none
	s := &salvaging{app: a, salvageCmd: c}
	if s.work, err = newScratch(filepath.Dir(c.Output)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(); err != nil {
		return err
	}
	checkpoints, err := s.checkpoints()
	if err != nil {
		return err
	}
	plan, err := salvage.MakePlan(a.ctx, s.sources, salvage.Options{
		Checkpoints: checkpoints, Unproved: c.Unproved, Progress: newProgress(a.stderr, "Comparing the copies"),
	})
	if err != nil {
		return err
	}
	built, err := s.build(plan)
	if err != nil {
		return err
	}
	report := s.report(plan, built)
	return s.finish(plan, built, report)
}

func (c salvageCmd) mayWrite() error {
	for _, name := range []string{c.Output, restOf(c.Output)} {
		for _, source := range c.Source {
			if same(source, name) || same(dataDir(source).ledger(), name) {
				return exitWith(exitUsage, "%s is a source: choose another name", name)
			}
		}
		if _, err := os.Lstat(name); err == nil && !c.Force {
			return errThere(name)
		}
	}
	return nil
}

func restOf(output string) string { return output + ".rest.jsonl" }

func (s *salvaging) close() (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c())
	}
	return errors.Join(err, s.work.remove())
}

// builtLog is the new log and what is known of it.
type builtLog struct {
	file, rest string
	audit      *audit.Report
	behind     salvage.Rest
}

// build writes the log and the rest into the scratch directory, and checks the
// log without trusting the plan.
func (s *salvaging) build(plan *salvage.Plan) (b builtLog, err error) {
	b.file, b.rest = s.work.file("ledger.db"), s.work.file("rest.jsonl")
	show := newProgress(s.stderr, "Writing the log")
	_, err = bolt.Build(s.ctx, b.file, s.log, func(yield func(eventstore.Stored, error) bool) {
		for r, err := range plan.Records(s.ctx) {
			show(r.Position, plan.Cut)
			if !yield(r, err) {
				return
			}
		}
	})
	if err != nil {
		return b, fmt.Errorf("writing the log: %w", err)
	}
	store, err := bolt.OpenReadOnly(b.file)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	o := audit.Options{
		Codec: eventstore.NewCodec(), Structure: store.VerifyStructure, Total: plan.Cut, Progress: newProgress(s.stderr, "Checking the log"),
		Origin: translog.Origin(s.log), Verifiers: s.verifiers,
	}
	for _, p := range s.opened {
		if p.size <= plan.Cut { // of the others the plan tells
			o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.name, Signed: p.signed})
		}
	}
	if b.audit, err = audit.Check(s.ctx, audit.Of(s.ctx, store), o); err != nil {
		return b, err
	}
	b.behind, err = s.writeRest(plan, store, b.rest)
	return b, err
}

func (s *salvaging) writeRest(plan *salvage.Plan, store *bolt.Store, name string) (rest salvage.Rest, err error) {
	f, err := createPrivate(name)
	if err != nil {
		return rest, err
	}
	out := bufio.NewWriterSize(f, exportBuffer)
	rest, err = plan.WriteRest(s.ctx, out, func(of eventstore.Stream) (uint64, error) { return lastSequence(s.ctx, store, of) })
	return rest, errors.Join(err, out.Flush(), f.Sync(), f.Close())
}

func lastSequence(ctx context.Context, store *bolt.Store, of eventstore.Stream) (last uint64, err error) {
	for r, err := range store.Load(ctx, of) {
		if err != nil {
			return 0, err
		}
		last = r.Sequence
	}
	return last, nil
}

// finish gives the log its name if it may, and says how it stands.
func (s *salvaging) finish(plan *salvage.Plan, built builtLog, report salvageReport) error {
	partial := len(plan.Faults) > 0
	doubtful := !partial && !report.Whole
	if (partial && s.Partial) || (!partial && (!doubtful || s.Unproved)) {
		if err := give(built.file, s.Output, s.Force); err != nil {
			return err
		}
		report.Written = s.Output
		if report.RestEvents > 0 {
			if err := give(built.rest, restOf(s.Output), s.Force); err != nil {
				return err
			}
			report.Rest = restOf(s.Output)
		}
	}
	if err := s.print(report); err != nil {
		return err
	}
	wrote := cmp.Or(report.Written, "nothing") + " was written"
	switch {
	case report.Whole:
		return nil
	case report.Found == 0:
		return exitWith(exitDirectory, "nothing of a log can be read in these sources: %s", wrote)
	case partial && report.Written == "":
		return exitWith(exitVerify, "the log is not whole: %s. --partial writes what is there before position %d, and the rest into a file of its own; "+
			"--unproved takes what is called unproved or contradicted", wrote, plan.Cut+1)
	case partial:
		return exitWith(exitVerify, "the log is not whole: %s, up to position %d", wrote, plan.Cut)
	case report.Written == "":
		return exitWith(exitVerify, "the log is not proved: %s. Give a checkpoint with --checkpoint, or take it as it is with --unproved", wrote)
	}
	return exitWith(exitVerify, "the log is not proved: %s all the same", wrote)
}
