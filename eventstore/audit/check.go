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

// Source yields the records after a position, in order. A damaged record is a
// *eventstore.CorruptError with its position; Check then calls Source again to
// continue after it. Any other error ends the check.
type Source func(after eventstore.Position) iter.Seq2[eventstore.Stored, error]

// Of reads a store.
func Of(ctx context.Context, s eventstore.Store) Source {
	return func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return s.Scan(ctx, after, eventstore.Filter{})
	}
}

// Against is what is known of a log from elsewhere.
type Against struct {
	Verifiers   []*translog.Verifier `json:"verifier_keys"` // any one of them may open a checkpoint
	Checkpoints []Checkpoint         `json:"checkpoints"`
	Witnesses   []*translog.Witness  `json:"witness_keys"` // whose cosignatures of the checkpoints are checked
	Quorum      int                  `json:"quorum"`       // how many of them must vouch for one that the log matches
}

// Options say what the log is checked against. Codec is required.
type Options struct {
	Codec *eventstore.Codec
	Against
	Origin string // of the log, if known from another source than Verifiers
	// Missing lists when the log was opened without its checkpoint.
	Missing []eventstore.MissingCheckpoint
	// Bare: the records come from exported lines, which have no Prev and no Claim.
	Bare bool
	// Project says that the records are those of one project and the ones that move its money; the
	// others are opaque.
	Project string
	// Restored is up to where the log was put in the place of another, if that is not recorded yet:
	// what it was made from may have been without details. The log says so later.
	Restored eventstore.Position
	// Structure checks the indexes that the store derives from its records; nil:
	// no check. The error is a *eventstore.CorruptError when they are damaged.
	// Structure runs in parallel with the check of the records.
	Structure func(context.Context) error
	// Projections compares the projections with the log; nil: not checked. A
	// finding says that the log ends before the last position in the projections,
	// or, with kind WrongRoot, at which event their tree differs: that only
	// narrows the range of other WrongRoot findings.
	Projections func(context.Context) (Verdict, *Finding, error)
	// Total is the expected number of events, for Progress.
	Total eventstore.Position
	// Progress, if set, is called every few thousand events and at the end.
	Progress func(done, total eventstore.Position)

	decoded int // 0: decodedLimit
}

// Check reads the whole log. Faults of the log are in the report. The error is
// that of ctx, of the source or of a function in Options: the check did not
// finish.
func Check(ctx context.Context, src Source, o Options) (*Report, error) {
	c := newChecker(o)
	structure := func() error { return nil }
	if o.Structure != nil { // runs in parallel with the check of the records
		during, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- o.Structure(during) }()
		structure = sync.OnceValue(func() error { return <-ended })
		defer structure() //nolint:errcheck // only waits: the error was read, or is not needed
		defer cancel()
	}
	if err := c.records(ctx, src); err != nil {
		return nil, err
	}
	if !o.Bare {
		if err := c.details.finish(src, &c.streams, c.report); err != nil {
			return nil, err
		}
	}
	c.finish()
	if err := c.structure(structure()); err != nil {
		return nil, err
	}
	r := c.report
	r.Projections = Verdict{NotChecked, "there are no projections next to this log"}
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

// structure reports the error of Options.Structure, unless there is a finding at
// the same position already.
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

// checker is the state of a running check.
type checker struct {
	options Options
	report  *Report

	last       eventstore.Position
	lost       map[eventstore.Position]bool // positions of records that could not be read
	missing    bool                         // lost is full: more positions are lost
	tree       tree
	roots      roots
	ids        ids
	claims     claims
	references references
	streams    streams
	details    details
}

func newChecker(o Options) *checker {
	c := &checker{
		options:    o,
		report:     &Report{Findings: []Finding{}, Checkpoints: []CheckpointResult{}, Project: o.Project},
		lost:       make(map[eventstore.Position]bool),
		ids:        newIDs(),
		claims:     newClaims(),
		references: make(references),
		details:    newDetails(o.Restored),
		streams:    newStreams(cmp.Or(o.decoded, decodedLimit)),
	}
	c.roots = newRoots(o, c.report)
	c.roots.reached(&c.tree, c.report)
	return c
}

// maxLost bounds the size of checker.lost.
const maxLost = 1 << 16

// lose notes positions whose records cannot be read. From here on the tree has no
// root, and any stream may lack a record.
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

// damaged reports a record that the source cannot read.
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
	if _, opaque := r.OpaqueLeaf(); opaque {
		c.report.Opaque++
		if c.options.Project == "" {
			c.report.Add(Finding{Kind: BadEvent, Position: r.Position, Detail: "it is opaque, in a log that should be whole"})
		}
		return
	}
	if detail := c.ids.add(r.Commit); detail != "" {
		c.add(r, BadEventID, "%s", detail)
	}
	if i.err != nil {
		c.add(r, BadEvent, "%s", i.err.Reason)
	} else {
		c.checkClaim(i)
	}
	if c.ofProject(r) {
		c.follow(i)
	}
	c.streams.payouts.book(i)
}

// ofProject reports whether the record's stream is there as a whole.
func (c *checker) ofProject(r *eventstore.Stored) bool {
	return c.options.Project == "" || r.Stream.Project == c.options.Project
}

// unseen reports whether there are events whose content is not known.
func (c *checker) unseen() bool { return len(c.lost) > 0 || c.options.Project != "" }

func (c *checker) add(r *eventstore.Stored, k Kind, format string, args ...any) {
	c.report.Add(Finding{
		Kind: k, Position: r.Position, Detail: fmt.Sprintf(format, args...),
		Stream: nameOf(r.Stream),
	})
}

func nameOf(s eventstore.Stream) string { return s.Project + "/" + s.Kind + "/" + s.ID }

// finish compares the end of the log with the checkpoints and writes the
// verdicts.
func (c *checker) finish() {
	r := c.report
	r.Last = c.last
	r.Payments, r.Projects = c.streams.payments, uint64(len(c.streams.projects))
	if !c.tree.broken {
		root := c.tree.edge.Root()
		r.Root = &root
	}
	covered := c.roots.finish(c.last, r)
	vouching, upTo := c.roots.vouched(c.options.Quorum, r)
	if r.Integrity.Outcome == "" {
		reason := fmt.Sprintf("%d events in order, each as the rules lead to it%s", r.Events-r.Opaque, covered.integrity())
		if r.Project != "" {
			reason = fmt.Sprintf("%s; %d events are opaque, only the hashes of their leaves are there: "+
				"one of project %s among them would show, unless it were the last of its stream", reason, r.Opaque, r.Project)
		}
		if vouching > 0 {
			reason += fmt.Sprintf("; %d of %d witnesses vouch for positions up to %d", vouching, len(c.options.Witnesses), upTo)
		}
		r.Integrity = Verdict{OK, reason}
	}
	switch {
	case r.Completeness.Outcome != "":
	case len(c.lost) > 0:
		r.Completeness = Verdict{NotChecked, "some records cannot be read, so it is unknown whether they are the original ones"}
	default:
		r.Completeness = covered.completeness(c.last, c.options.Missing)
		if r.NoDetails > 0 {
			r.Completeness.Reason += fmt.Sprintf("; what the log was restored from had no details of %d of the payments", r.NoDetails)
		}
	}
}
