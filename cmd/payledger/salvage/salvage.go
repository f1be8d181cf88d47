// Package salvage makes a new log from the readable parts of a damaged log and
// its copies. It opens the sources and writes the new log. The choice of a source
// for each event is in payledger/eventstore/salvage.
package salvage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/salvage"
	"payledger/eventstore/translog"
	"payledger/notifier/bus"
)

// salvaging is the state of a running salvage.
type salvaging struct {
	Options

	work    *datadir.Scratch
	sources []*salvage.Source
	closers []func() error
	points  []signedPoint
	keys    []string // verifier keys of data directories, trusted
	brought []string // verifier keys in bundles
	unread  []UnreadSource

	log       domain.ID
	verifiers []*translog.Verifier
	opened    []signedPoint
}

// Options say what to read and what to write.
type Options struct {
	Sources      []string // directories and files
	NATS         bus.External
	Output       string   // file for the new log
	Checkpoints  []string // files of checkpoints
	VerifierKeys []string // their keys, or files that hold them
	Partial      bool     // write a log even if events are missing
	Unproved     bool     // take events that nothing proves
	Force        bool     // replace Output
	Stderr       io.Writer
}

// signedPoint is a checkpoint from a source or an option.
type signedPoint struct {
	name   string
	signed []byte
	size   eventstore.Position // set when it is opened
}

// UnreadSource is a source from which nothing could be read.
type UnreadSource struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Run makes a new log from the sources. Report.Written is "" if no log was written.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if err := o.mayWrite(); err != nil {
		return r, err
	}
	s := &salvaging{Options: o}
	if s.work, err = datadir.NewScratch(filepath.Dir(o.Output)); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return r, err
	}
	checkpoints, err := s.checkpoints()
	if err != nil {
		return r, err
	}
	plan, err := salvage.MakePlan(ctx, s.sources, salvage.Options{
		Checkpoints: checkpoints, Unproved: o.Unproved, Progress: cli.Progress(o.Stderr, "Comparing the copies"),
	})
	if err != nil {
		return r, err
	}
	built, err := s.build(ctx, plan)
	if err != nil {
		return r, err
	}
	r = s.report(plan, built)
	err = s.place(built, &r)
	return r, err
}

func (o Options) mayWrite() error {
	for _, name := range []string{o.Output, restOf(o.Output)} {
		for _, source := range o.Sources {
			if datadir.SameFile(source, name) || datadir.SameFile(datadir.Dir(source).Ledger(), name) {
				return cli.Errorf(cli.ExitUsage, "%s is a source: choose another name", name)
			}
		}
		if _, err := os.Lstat(name); err == nil && !o.Force {
			return datadir.ErrExists(name)
		}
	}
	return nil
}

func restOf(output string) string { return output + ".rest.jsonl" }

func (s *salvaging) close() (err error) {
	for _, c := range s.closers {
		err = errors.Join(err, c())
	}
	return errors.Join(err, s.work.Remove())
}

// builtLog is the new log and the results of its checks.
type builtLog struct {
	file, rest string
	audit      *audit.Report
	behind     salvage.Rest
}

// build writes the log and the rest into the scratch directory, and audits the
// log independently of the plan.
func (s *salvaging) build(ctx context.Context, plan *salvage.Plan) (b builtLog, err error) {
	b.file, b.rest = s.work.File("ledger.db"), s.work.File("rest.jsonl")
	show := cli.Progress(s.Stderr, "Writing the log")
	_, err = bolt.Build(ctx, b.file, s.log, func(yield func(eventstore.Stored, error) bool) {
		for r, err := range plan.Records(ctx) {
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
		Codec: eventstore.NewCodec(), Structure: store.VerifyStructure, Total: plan.Cut, Progress: cli.Progress(s.Stderr, "Checking the log"),
		Origin: translog.Origin(s.log), Verifiers: s.verifiers,
	}
	for _, p := range s.opened {
		if p.size <= plan.Cut { // the plan reports the larger ones
			o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.name, Signed: p.signed})
		}
	}
	if b.audit, err = audit.Check(ctx, audit.Of(ctx, store), o); err != nil {
		return b, err
	}
	b.behind, err = s.writeRest(ctx, plan, store, b.rest)
	return b, err
}

func (s *salvaging) writeRest(ctx context.Context, plan *salvage.Plan, store *bolt.Store, name string) (rest salvage.Rest, err error) {
	f, err := datadir.CreatePrivate(name)
	if err != nil {
		return rest, err
	}
	out := bufio.NewWriterSize(f, 1<<18)
	rest, err = plan.WriteRest(ctx, out, func(of eventstore.Stream) (uint64, error) { return lastSequence(ctx, store, of) })
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

// place renames the log to Output if it is whole or the options accept its
// faults.
func (s *salvaging) place(built builtLog, r *Report) error {
	if may := r.Whole || (r.Partial() && s.Partial) || (!r.Partial() && s.Unproved); !may {
		return nil
	}
	if err := datadir.MoveInto(built.file, s.Output, s.Force); err != nil {
		return err
	}
	r.Written = s.Output
	if r.RestEvents > 0 {
		if err := datadir.MoveInto(built.rest, restOf(s.Output), s.Force); err != nil {
			return err
		}
		r.Rest = restOf(s.Output)
	}
	return nil
}
