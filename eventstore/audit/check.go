package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// Source yields the records after a position, in order. Damage is a
// *eventstore.CorruptError with the position of the record; after one, Source
// is called again to go on behind it. Any other error ends the check.
type Source func(after eventstore.Position) iter.Seq2[eventstore.Stored, error]

// Of reads a store.
func Of(ctx context.Context, s eventstore.Store) Source {
	return func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return s.Scan(ctx, after, eventstore.Filter{})
	}
}

// Options say what a log is checked against. Codec is needed.
type Options struct {
	Codec       *eventstore.Codec
	Checkpoints []Checkpoint
	Verifiers   []*translog.Verifier // open Checkpoints, any of them
	Origin      string               // of the log, if it is known apart from Verifiers
	// Missing are the times the log was opened without its checkpoint.
	Missing []eventstore.MissingCheckpoint
	// Bare: the records come from exported lines, which have no Prev and no
	// Claim of their own.
	Bare bool
	// Structure checks what the store derives from its records; nil: nothing.
	// The error is a *eventstore.CorruptError when that is damaged. It is called
	// while the records are checked.
	Structure func(context.Context) error
	// Projections compares what was derived from the log; nil: not checked.
	// A finding may say that the log ends before what the projections have
	// seen, or, of kind WrongRoot, at which event the tree they keep differs:
	// that narrows a range of positions, and counts for nothing by itself.
	Projections func(context.Context) (Verdict, *Finding, error)
	// Total is how many events are expected, for Progress.
	Total eventstore.Position
	// Progress, if set, is told every few thousand events and at the end.
	Progress func(done, total eventstore.Position)

	unpacked int // 0: unpackedLimit
}

// Check reads the whole log. The error is what kept it from doing so: the
// context's, or the source's; whatever is wrong with the log is in the report.
func Check(ctx context.Context, src Source, o Options) (*Report, error) {
	c := newChecker(o)
	structure := func() error { return nil }
	if o.Structure != nil { // reads the log too, meanwhile
		during, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- o.Structure(during) }()
		structure = sync.OnceValue(func() error { return <-ended })
		defer structure() //nolint:errcheck // has ended, or is not asked
		defer cancel()
	}
	if err := c.records(ctx, src); err != nil {
		return nil, err
	}
	c.finish()
	if err := c.structure(structure()); err != nil {
		return nil, err
	}
	r := c.report
	r.Projections = Verdict{NotChecked, "there are no projections beside this log"}
	if o.Projections != nil {
		verdict, finding, err := o.Projections(ctx)
		if err != nil {
			return nil, err
		}
		r.Projections = verdict
		if finding != nil && finding.Kind != WrongRoot {
			r.Add(*finding)
		} else if finding != nil {
			r.narrow(*finding)
		}
	}
	return r, nil
}

// structure adds what the store's own check finds, unless the records showed
// the same before.
func (c *checker) structure(err error) error {
	var corrupt *eventstore.CorruptError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &corrupt):
		return err
	}
	for _, f := range c.report.Findings {
		if corrupt.Position != 0 && f.Position == corrupt.Position {
			return nil
		}
	}
	c.report.Add(Finding{Kind: DamagedIndex, Position: corrupt.Position, Detail: corrupt.Reason})
	return nil
}

// checker is the state of a check between two records.
type checker struct {
	options Options
	report  *Report

	last       eventstore.Position
	lost       map[eventstore.Position]bool // positions of records that could not be read
	missing    bool                         // more are lost than lost lists
	tree       tree
	roots      roots
	ids        ids
	claims     claims
	references references
	streams    streams
}

func newChecker(o Options) *checker {
	c := &checker{
		options:    o,
		report:     &Report{Findings: []Finding{}, Checkpoints: []CheckpointResult{}},
		lost:       make(map[eventstore.Position]bool),
		ids:        newIDs(),
		claims:     newClaims(),
		references: make(references),
		streams:    newStreams(cmp.Or(o.unpacked, unpackedLimit)),
	}
	c.roots = newRoots(o, c.report)
	c.roots.reached(&c.tree, c.report)
	return c
}

// maxLost bounds how many lost positions are remembered one by one.
const maxLost = 1 << 16

// lose notes positions whose records are not known. The tree cannot be told
// any more, and the streams they belong to are not known.
func (c *checker) lose(from, to eventstore.Position) {
	c.tree.broken = true
	for p := from; p <= to; p++ {
		if len(c.lost) == maxLost {
			c.missing = true
			return
		}
		c.lost[p] = true
	}
}

// damaged takes the source's word that a record cannot be read.
func (c *checker) damaged(e *eventstore.CorruptError) {
	at := max(e.Position, c.last+1)
	c.skipTo(at)
	c.report.Add(Finding{Kind: DamagedRecord, Position: at, Detail: e.Reason})
	c.lose(at, at)
	c.last = at
}

// skipTo reports the positions between the last one and the next as missing.
func (c *checker) skipTo(next eventstore.Position) {
	from, to := c.last+1, next-1
	if from > to {
		return
	}
	c.report.Add(Finding{Kind: Gap, Position: from, Through: to, Detail: fmt.Sprintf("%d events are missing", to-from+1)})
	c.lose(from, to)
}

// take checks one record.
func (c *checker) take(i *item) {
	r := &i.record
	c.report.Events++
	if r.Position <= c.last {
		c.add(r, WrongPosition, "it follows position %d", c.last)
		c.tree.broken = true
		return
	}
	c.skipTo(r.Position)
	c.last = r.Position
	c.tree.add(i.leaf)
	c.roots.reached(&c.tree, c.report)
	if detail := c.ids.add(r.Commit); detail != "" {
		c.add(r, BadEventID, "%s", detail)
	}
	if i.err != nil {
		c.add(r, BadEvent, "%s", i.err.Reason)
	} else {
		c.checkClaim(i)
	}
	c.follow(i)
}

func (c *checker) add(r *eventstore.Stored, k Kind, format string, args ...any) {
	c.report.Add(Finding{
		Kind: k, Position: r.Position, Detail: fmt.Sprintf(format, args...),
		Stream: r.Stream.Project + "/" + r.Stream.Kind + "/" + r.Stream.ID,
	})
}

// finish compares the end of the log with the checkpoints and says what the
// verdicts rest on.
func (c *checker) finish() {
	r := c.report
	r.Last = c.last
	r.Payments, r.Projects = c.streams.payments, uint64(len(c.streams.projects))
	if !c.tree.broken {
		root := c.tree.edge.Root()
		r.Root = &root
	}
	covered := c.roots.finish(c.last, r)
	if r.Integrity.Outcome == "" {
		r.Integrity = Verdict{OK, fmt.Sprintf("%d events in order, each as the rules lead to it%s", r.Events, covered.integrity())}
	}
	switch {
	case r.Completeness.Outcome != "":
	case len(c.lost) > 0:
		r.Completeness = Verdict{NotChecked, "records cannot be read, so whether they are those that were written cannot be told"}
	default:
		r.Completeness = covered.completeness(c.last, c.options.Missing)
	}
}
