package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// Kind says what sort of fault a finding is. Kinds are part of the interface
// to auditors: they are never renamed.
type Kind string

// The kinds of findings about integrity: something is there that is not what
// was written.
const (
	DamagedRecord   Kind = "damaged_record"   // its checksum is wrong, or it cannot be read
	WrongPosition   Kind = "wrong_position"   // a position that was there before, or lies behind
	BrokenStream    Kind = "broken_stream"    // it does not follow the record before it in its stream
	BadEvent        Kind = "bad_event"        // the body is no known event, or that of another record
	BadEventID      Kind = "bad_event_id"     // the id came before, or its time is not plausible
	BadClaim        Kind = "bad_claim"        // its idempotency key or reference was claimed before, or differs in record and event
	ImpossibleEvent Kind = "impossible_event" // the rules of the domain do not lead to it
	WrongRoot       Kind = "wrong_root"       // the tree's root is not the checkpoint's
	BadCheckpoint   Kind = "bad_checkpoint"   // not signed by the key, or not of this log
	DamagedIndex    Kind = "damaged_index"    // what the store derives from the records does not match them
	BadManifest     Kind = "bad_manifest"     // a bundle's file is not the one its manifest names
	BadJournal      Kind = "bad_journal"      // a bundle's journal is not that of its events
)

// The kinds of findings about completeness: something that was written is not
// there.
const (
	Gap       Kind = "gap"       // positions are missing
	Truncated Kind = "truncated" // the log ends before what a checkpoint, or a projection, has seen
)

// Completes reports whether findings of this kind are about completeness.
func (k Kind) Completes() bool { return k == Gap || k == Truncated }

// Finding is one fault. Through is the last position it may concern; it equals
// Position unless only a range is known. Position 0 means the log as a whole.
type Finding struct {
	Kind     Kind                `json:"kind"`
	Position eventstore.Position `json:"position"`
	Through  eventstore.Position `json:"through"`
	Stream   string              `json:"stream,omitempty"`
	Detail   string              `json:"detail"`

	// Checkpoint is the name of the one that the log contradicts.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// String is the finding as a line for people.
func (f Finding) String() string {
	at := fmt.Sprintf("position %d", f.Position)
	switch {
	case f.Position == 0:
		at = "the log"
	case f.Through > f.Position:
		at = fmt.Sprintf("positions %d to %d", f.Position, f.Through)
	}
	if f.Stream != "" {
		at += " (" + f.Stream + ")"
	}
	return fmt.Sprintf("%s: %s: %s", at, f.Kind, f.Detail)
}

// Outcome is what a check came to.
type Outcome string

// The outcomes.
const (
	OK         Outcome = "ok"
	Failed     Outcome = "failed"
	NotChecked Outcome = "not_checked"
)

// Verdict is an outcome and, in words, what it rests on.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// CheckpointResult is what became of one checkpoint.
type CheckpointResult struct {
	Name    string  `json:"name"`
	Size    uint64  `json:"size"`
	Outcome Outcome `json:"outcome"`
}

// Report is the result of Check.
type Report struct {
	// Integrity: nothing was altered. Completeness: nothing is missing.
	Integrity    Verdict `json:"integrity"`
	Completeness Verdict `json:"completeness"`
	// Projections: what is derived from the log matches it. The log is no
	// worse when it does not.
	Projections Verdict `json:"projections"`

	Events   uint64              `json:"events"`   // records that could be read
	Payments uint64              `json:"payments"` // streams of payments
	Projects uint64              `json:"projects"`
	Last     eventstore.Position `json:"last"`           // the greatest position seen
	Root     *tlog.Hash          `json:"root,omitempty"` // of the tree over all events; absent when one cannot be read

	// FirstBad is the first position of any finding, 0 for none or when none
	// has one.
	FirstBad    eventstore.Position `json:"first_bad"`
	Found       int                 `json:"found"`    // how many findings there are
	Findings    []Finding           `json:"findings"` // the first of them
	Checkpoints []CheckpointResult  `json:"checkpoints"`
}

// OK reports whether no check failed.
func (r *Report) OK() bool {
	return r.Integrity.Outcome != Failed && r.Completeness.Outcome != Failed && r.Projections.Outcome != Failed
}

// maxFindings bounds the list in a report; the rest is only counted.
const maxFindings = 100

// Add puts a finding down.
func (r *Report) Add(f Finding) {
	f.Through = max(f.Through, f.Position)
	r.Found++
	if f.Position != 0 && (r.FirstBad == 0 || f.Position < r.FirstBad) {
		r.FirstBad = f.Position
	}
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
	verdict := &r.Integrity
	if f.Kind.Completes() {
		verdict = &r.Completeness
	}
	if verdict.Outcome != Failed {
		*verdict = Verdict{Outcome: Failed, Reason: f.String()}
	}
}

// narrow tells the findings about a wrong root, which know a range only, that
// the first event which differs is known.
func (r *Report) narrow(known Finding) {
	for i, f := range r.Findings {
		if f.Kind != WrongRoot || known.Position < f.Position || known.Position > f.Through {
			continue
		}
		f.Position, f.Through = known.Position, known.Position
		f.Detail += "; " + known.Detail
		if r.Integrity.Reason == r.Findings[i].String() {
			r.Integrity.Reason = f.String()
		}
		r.Findings[i] = f
	}
	r.FirstBad = 0
	for _, f := range r.Findings {
		if f.Position != 0 && (r.FirstBad == 0 || f.Position < r.FirstBad) {
			r.FirstBad = f.Position
		}
	}
}
