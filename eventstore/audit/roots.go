package audit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// Checkpoint is a signed checkpoint to compare the log with.
type Checkpoint struct {
	Name   string `json:"name"` // for people, such as its file
	Signed string `json:"note"`
	// Beside: it is stored together with the log, so an attacker who can change
	// the log can also replace it by an older one.
	Beside bool `json:"beside"`
}

// tree is the Merkle tree over the records read so far.
type tree struct {
	edge   translog.Edge
	path   []tlog.Hash // reused
	broken bool        // a record could not be read: the root is unknown
}

func (t *tree) add(leaf tlog.Hash) {
	if !t.broken {
		t.path = t.edge.Append(t.path[:0], leaf)
	}
}

// pin is an opened checkpoint and its row in the report.
type pin struct {
	translog.Checkpoint
	name   string
	beside bool
	row    int
}

// roots compares the growing tree with the checkpoints.
type roots struct {
	pins []pin // not yet reached, by size
	good []pin // matched by the tree, by size
}

// newRoots opens the checkpoints. It reports those that no key opens or that are
// of another log.
func newRoots(o Options, r *Report) roots {
	var all roots
	for _, c := range o.Checkpoints {
		r.Checkpoints = append(r.Checkpoints, CheckpointResult{Name: c.Name, Outcome: Failed})
		opened, err := o.Open(c, o.Origin)
		if err != nil {
			r.Add(Finding{Kind: BadCheckpoint, Detail: err.Error()})
			continue
		}
		row := len(r.Checkpoints) - 1
		r.Checkpoints[row].Witnesses = cosigned([]byte(c.Signed), o.Witnesses)
		if c.Beside && r.Checkpoints[row].Vouching() == 0 {
			r.Checkpoints[row].Witnesses = nil // witnesses are about the published copies
		}
		r.Checkpoints[row].Size, r.Checkpoints[row].Outcome = uint64(opened.Size), NotChecked
		all.pins = append(all.pins, pin{opened, c.Name, c.Beside, row})
	}
	slices.SortStableFunc(all.pins, func(a, b pin) int { return int(a.Size) - int(b.Size) })
	return all
}

// cosigned asks which witnesses cosigned a checkpoint.
func cosigned(signed []byte, witnesses []*translog.Witness) (all []WitnessResult) {
	for _, w := range witnesses {
		result := WitnessResult{Name: w.Name()}
		if at, ok := w.Cosigned(signed); ok {
			result.At = &at
		}
		all = append(all, result)
	}
	return all
}

// vouched reports when too few witnesses vouch for every checkpoint that the log
// matches. It returns the most that vouch for one of them, and for which.
func (c *roots) vouched(quorum int, r *Report) (n int, size eventstore.Position) {
	for _, p := range c.good {
		if by := r.Checkpoints[p.row].Vouching(); by > 0 && by >= n {
			n, size = by, p.Size
		}
	}
	if n < quorum {
		r.Add(Finding{Kind: Unwitnessed, Detail: fmt.Sprintf("%d witnesses must vouch for a checkpoint of this log, %d do", quorum, n)})
	}
	return n, size
}

// Open opens a checkpoint of the log with this origin; empty: of any.
func (a Against) Open(c Checkpoint, origin string) (translog.Checkpoint, error) {
	opened, err := open([]byte(c.Signed), a.Verifiers)
	if err == nil && origin != "" && opened.Origin != origin {
		err = fmt.Errorf("it is of the log %s, this is %s", opened.Origin, origin)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.Name, err)
	}
	return opened, err
}

// open opens a checkpoint with the first key that can. The error is that of the
// first key.
func open(signed []byte, keys []*translog.Verifier) (translog.Checkpoint, error) {
	first := errors.New("there is no verifier key to check its signature with")
	for i, v := range keys {
		c, err := v.Open(signed)
		if err == nil {
			return c, nil
		}
		if i == 0 {
			first = err
		}
	}
	return translog.Checkpoint{}, first
}

// reached compares the tree with the checkpoints of its current size.
func (c *roots) reached(t *tree, r *Report) {
	for len(c.pins) > 0 && !t.broken && c.pins[0].Size == t.edge.Size() {
		p := c.pins[0]
		c.pins = c.pins[1:]
		row := &r.Checkpoints[p.row]
		if t.edge.Root() == p.Root {
			row.Outcome = OK
			c.good = append(c.good, p)
			continue
		}
		row.Outcome = Failed
		from := eventstore.Position(1)
		if n := len(c.good); n > 0 {
			from = c.good[n-1].Size + 1
		}
		r.Add(Finding{
			Kind: WrongRoot, Position: min(from, max(p.Size, 1)), Through: p.Size, Checkpoint: p.name,
			Detail: fmt.Sprintf("the events up to position %d are not those that %s was signed for", p.Size, p.name),
		})
	}
}

// cover is the part of the log that checkpoints prove.
type cover struct {
	given  bool
	beside pin // the newest stored with the log, if any
	apart  pin // the newest stored elsewhere, if any
}

// finish reports the checkpoints that are larger than the log.
func (c *roots) finish(last eventstore.Position, r *Report) cover {
	for _, p := range c.pins {
		if p.Size > last {
			r.Checkpoints[p.row].Outcome = Failed
			r.Add(Finding{
				Kind: Truncated, Position: last + 1, Through: p.Size, Checkpoint: p.name,
				Detail: fmt.Sprintf("the log ends at position %d, %s was signed for %d events", last, p.name, p.Size),
			})
		}
	}
	out := cover{given: len(r.Checkpoints) > 0}
	for _, p := range c.good {
		if p.beside {
			out.beside = p
		} else {
			out.apart = p
		}
	}
	return out
}

func (c cover) integrity() string {
	switch size := max(c.beside.Size, c.apart.Size); {
	case c.beside.name != "" || c.apart.name != "":
		return fmt.Sprintf("; the signed tree covers positions up to %d", size)
	case c.given:
		return "; no checkpoint could be compared, so events that were altered together with their checksums would not show"
	}
	return "; no checkpoint was given, so events that were altered together with their checksums would not show"
}

func (c cover) completeness(last eventstore.Position, missing []eventstore.MissingCheckpoint) Verdict {
	if n := len(missing); n > 0 {
		m := missing[n-1]
		return Verdict{NotChecked, fmt.Sprintf("no position is missing now, but the log was opened without its checkpoint %d times, most recently at %s with %d events: "+
			"if its end was cut off before that, later events have taken the lost positions; only an older checkpoint that was kept elsewhere can show it",
			n, m.At.Format(time.RFC3339), m.Size)}
	}
	behind := func(size eventstore.Position) string {
		if size >= last {
			return ""
		}
		return fmt.Sprintf("; it is unknown whether events are missing after position %d", last)
	}
	switch {
	case c.apart.name != "":
		reason := fmt.Sprintf("no position is missing, and the log holds all %d events of %s", c.apart.Size, c.apart.name)
		return Verdict{OK, reason + behind(c.apart.Size)}
	case c.beside.name != "":
		return Verdict{OK, fmt.Sprintf("no position is missing, and the log holds all %d events of %s; "+
			"that one is stored with the log and could be an older one: give a checkpoint that was kept elsewhere to be sure of the end",
			c.beside.Size, c.beside.name)}
	case c.given:
		return Verdict{NotChecked, "no position is missing; no checkpoint could be compared, so a missing end would not show"}
	}
	return Verdict{NotChecked, "no position is missing; without a checkpoint a missing end would not show"}
}
