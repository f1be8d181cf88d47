package salvage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// Options say what the copies are compared with.
type Options struct {
	Checkpoints []Checkpoint // the caller has checked their signatures
	// Unproved: also take events that nothing proves (see the package comment).
	Unproved bool
	// Progress, if set, is called every few thousand events.
	Progress func(done, total eventstore.Position)
}

// Checkpoint is a checkpoint with a name for messages.
type Checkpoint struct {
	translog.Checkpoint

	Name string
}

// Why is the reason why an event is not taken for the log.
type Why string

// The reasons.
const (
	Missing      Why = "missing"      // no copy has it
	Damaged      Why = "damaged"      // no copy of it can be used
	Conflict     Why = "conflict"     // copies differ, and no checkpoint decides which is right
	Unproved     Why = "unproved"     // no checkpoint covers it, and its sources are not sufficient
	Contradicted Why = "contradicted" // a checkpoint was signed for other events
)

// Fault is a range of positions without an event for the log.
type Fault struct {
	From    eventstore.Position `json:"from"`
	Through eventstore.Position `json:"through"`
	Why     Why                 `json:"why"`
	Detail  string              `json:"detail,omitempty"`
}

// Plan is the log that can be rebuilt from the copies.
type Plan struct {
	Sources []*Source
	Last    eventstore.Position // the greatest position in any source or checkpoint
	Proved  eventstore.Position // the events up to here are proved by a checkpoint
	Cut     eventstore.Position // the last position before the first fault
	Doubted bool                // events that nothing proves are taken: see Options.Unproved
	Faults  []Fault             // by position
	Choices []Choice            // where copies differ
	Checks  []Check             // one for each checkpoint, by size
	Alone   []uint64            // by source: number of events that no other source has

	codec  *eventstore.Codec
	chosen map[eventstore.Position]tlog.Hash
}

// Choice is a position at which copies differ.
type Choice struct {
	Position eventstore.Position `json:"position"`
	Copies   [][]string          `json:"copies"`          // names of the sources, grouped by equal copies
	Taken    []string            `json:"taken,omitempty"` // the sources with the right copy, if that is known
}

// Check is the result for one checkpoint.
type Check struct {
	Name    string              `json:"name"`
	Size    eventstore.Position `json:"size"`
	Outcome string              `json:"outcome"` // proved, contradicted, or unknown where events are missing
}

// maxListed bounds lists of positions in the report.
const maxListed = 10_000

// planner makes a plan.
type planner struct {
	*Plan

	options     Options
	checkpoints []Checkpoint // not yet reached, by size
	tree        tree
	broken      bool // an event is missing: the root is unknown
	open        []*choice
	choices     []*choice
	bad         []Checkpoint // contradicted
}

// MakePlan reads all copies in parallel and decides which events to take. It does
// not write.
func MakePlan(ctx context.Context, sources []*Source, o Options) (*Plan, error) {
	p := &planner{
		Plan: &Plan{
			Sources: sources, Alone: make([]uint64, len(sources)), codec: eventstore.NewCodec(),
			chosen: make(map[eventstore.Position]tlog.Hash),
		},
		options: o, checkpoints: slices.Clone(o.Checkpoints),
	}
	slices.SortStableFunc(p.checkpoints, func(a, b Checkpoint) int { return int(a.Size) - int(b.Size) })
	for _, s := range sources {
		if n := len(s.Places); n > 0 {
			p.Last = max(p.Last, s.Places[n-1].Position)
		}
	}
	total := p.Last
	if n := len(p.checkpoints); n > 0 {
		p.Last = max(p.Last, p.checkpoints[n-1].Size)
	}
	p.check()
	at := eventstore.Position(0)
	for here, err := range p.positions(ctx) {
		if err != nil {
			return nil, err
		}
		p.lacks(at+1, here.position-1, Missing, "")
		at = here.position
		p.take(here)
		p.check()
		if o.Progress != nil && at%4096 == 0 {
			o.Progress(at, total)
		}
	}
	p.lacks(at+1, p.Last, Missing, "")
	p.finish()
	return p.Plan, nil
}

// take decides which copy at a position to take.
func (p *planner) take(h here) {
	switch options := h.options(); {
	case len(options) == 0:
		p.lacks(h.position, h.position, Damaged, h.trouble)
	case len(options) == 1:
		o := options[0]
		p.tree.append(o.leaf)
		if len(o.from) == 1 {
			p.Alone[o.from[0]]++
		}
		if !o.firm() {
			p.fault(h.position, h.position, Unproved, "only "+p.names(o.from)[0]+" has it")
		}
	default:
		c := &choice{position: h.position, sole: soleDurable(options)}
		for _, o := range options {
			c.leaves, c.from = append(c.leaves, o.leaf), append(c.from, o.from)
		}
		c.taken = max(0, c.sole)
		p.tree.appendChoice(c)
		p.open, p.choices = append(p.open, c), append(p.choices, c)
		p.fault(h.position, h.position, Conflict, "")
	}
}

// lacks notes positions without a usable event.
func (p *planner) lacks(from, through eventstore.Position, why Why, detail string) {
	if from > through {
		return
	}
	p.broken = true
	p.fault(from, through, why, detail)
}

// fault adds a range; it extends the last fault if the range continues it.
func (p *planner) fault(from, through eventstore.Position, why Why, detail string) {
	if n := len(p.Faults); n > 0 {
		last := &p.Faults[n-1]
		if last.Through+1 == from && last.Why == why && (last.Detail == detail || why == Damaged) && why != Conflict {
			last.Through = through
			return
		}
	}
	p.Faults = append(p.Faults, Fault{from, through, why, detail})
}

// check compares the tree with the checkpoints of its current size.
func (p *planner) check() {
	for !p.broken && len(p.checkpoints) > 0 && p.checkpoints[0].Size == p.tree.size {
		c := p.checkpoints[0]
		p.checkpoints = p.checkpoints[1:]
		if !p.tree.settle(c.Root, p.open, len(p.Sources)) {
			p.bad = append(p.bad, c)
			p.Checks = append(p.Checks, Check{c.Name, c.Size, "contradicted"})
			continue
		}
		p.Proved = c.Size
		p.Checks = append(p.Checks, Check{c.Name, c.Size, "proved"})
		for _, o := range p.open {
			o.proved = true
		}
		p.open = nil
	}
}

// finish removes the faults that the proved checkpoints have resolved.
func (p *planner) finish() {
	for _, c := range p.checkpoints {
		p.Checks = append(p.Checks, Check{c.Name, c.Size, "unknown"})
	}
	var doubt eventstore.Position
	var name string
	for _, c := range p.bad {
		if c.Size > p.Proved {
			doubt, name = c.Size, c.Name
		}
	}
	settled := make(map[eventstore.Position]bool)
	for _, c := range p.choices {
		listed := Choice{Position: c.position}
		for _, from := range c.from {
			listed.Copies = append(listed.Copies, p.names(from))
		}
		if c.sole >= 0 && !c.proved {
			c.taken = c.sole
			settled[c.position] = true
		}
		if c.proved || c.sole >= 0 {
			p.chosen[c.position] = c.leaves[c.taken]
			listed.Taken = p.names(c.from[c.taken])
		}
		if len(p.Choices) < maxListed {
			p.Choices = append(p.Choices, listed)
		}
	}
	p.Doubted = p.options.Unproved && slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Why == Unproved && f.Through > p.Proved })
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return (f.Through <= p.Proved && (f.Why == Conflict || f.Why == Unproved)) || (p.options.Unproved && f.Why == Unproved) || (f.Why == Conflict && settled[f.From])
	})
	for i, f := range p.Faults {
		if f.Why == Unproved {
			p.Faults[i].From = max(f.From, p.Proved+1)
		}
	}
	if doubt > p.Proved && !p.options.Unproved {
		p.contradict(p.Proved+1, doubt, name)
	}
	p.Cut = p.Last
	if len(p.Faults) > 0 {
		p.Cut = p.Faults[0].From - 1
	}
}

// contradict replaces the doubtful faults within a range by one fault.
func (p *planner) contradict(from, through eventstore.Position, name string) {
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
		return f.From >= from && f.Through <= through && (f.Why == Unproved || f.Why == Conflict)
	})
	f := Fault{from, through, Contradicted, "somewhere in it " + name + " was signed for other events"}
	i, _ := slices.BinarySearchFunc(p.Faults, from, func(f Fault, at eventstore.Position) int { return int(f.From) - int(at) })
	p.Faults = slices.Insert(p.Faults, i, f)
}

func (p *Plan) names(sources []int) []string {
	all := make([]string, len(sources))
	for i, s := range sources {
		all[i] = p.Sources[s].Name
	}
	return all
}

// Whole reports whether no event is missing, refused or unproved and the newest
// checkpoint proves the events that it covers.
func (p *Plan) Whole() bool {
	n := len(p.Checks)
	return len(p.Faults) == 0 && !p.Doubted && n > 0 && p.Checks[n-1].Outcome == "proved" && p.Checks[n-1].Size == p.Proved
}

// LogID is the log id in the copies, zero if no copy has one. The error lists
// copies of different logs.
func LogID(sources []*Source) (id domain.ID, err error) {
	names := make(map[domain.ID]string)
	for _, s := range sources {
		if !s.Log.IsZero() {
			names[s.Log] = s.Name
			id = s.Log
		}
	}
	if len(names) > 1 {
		return id, fmt.Errorf("the copies are of different logs: %v", slices.Sorted(func(yield func(string) bool) {
			for id, name := range maps.All(names) {
				if !yield(name + " of " + id.String()) {
					return
				}
			}
		}))
	}
	return id, nil
}
