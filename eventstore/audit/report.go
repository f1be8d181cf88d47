package audit

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// Kind is the kind of a finding. Kinds are part of the interface to auditors:
// they are never renamed.
type Kind string

// The kinds of findings about integrity: the log contains something that is not
// as it was written.
const (
	DamagedRecord   Kind = "damaged_record"   // its checksum is wrong, or it cannot be read
	WrongPosition   Kind = "wrong_position"   // a position that is not greater than the one before
	BrokenStream    Kind = "broken_stream"    // it does not follow the record before it in its stream
	BadEvent        Kind = "bad_event"        // the body is not a known event, or is that of another record
	BadEventID      Kind = "bad_event_id"     // the id is a duplicate, or its time is not plausible
	BadClaim        Kind = "bad_claim"        // its idempotency key or reference was claimed before, or differs in record and event
	ImpossibleEvent Kind = "impossible_event" // the rules of the domain do not lead to it
	WrongRoot       Kind = "wrong_root"       // the tree's root differs from the checkpoint's
	BadCheckpoint   Kind = "bad_checkpoint"   // not signed by a given key, or of another log
	DamagedIndex    Kind = "damaged_index"    // an index of the store does not match the records
	BadManifest     Kind = "bad_manifest"     // a file of a bundle differs from its manifest
	BadJournal      Kind = "bad_journal"      // a bundle's journal differs from its events
	Unwitnessed     Kind = "unwitnessed"      // too few witnesses vouch for a checkpoint of the log
	KeptDetails     Kind = "kept_details"     // a payment's details are there, although they were erased
)

// The kinds of findings about completeness: something that was written is
// missing.
const (
	Gap       Kind = "gap"       // positions are missing
	Truncated Kind = "truncated" // the log ends before the last position of a checkpoint or projection

	MissingDetails Kind = "missing_details" // a payment's details are not there, although they were not erased
)

// Completes reports whether findings of this kind are about completeness.
func (k Kind) Completes() bool { return k == Gap || k == Truncated || k == MissingDetails }

// Finding is one fault. It is at Position, or somewhere from Position to Through
// when only the range is known. Position 0 is the log as a whole.
type Finding struct {
	Kind     Kind                `json:"kind"`
	Position eventstore.Position `json:"position"`
	Through  eventstore.Position `json:"through"`
	Stream   string              `json:"stream,omitempty"`
	Detail   string              `json:"detail"`

	// Checkpoint is the name of the checkpoint that the log contradicts.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// String is the finding as one line of text.
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

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	OK         Outcome = "ok"
	Failed     Outcome = "failed"
	NotChecked Outcome = "not_checked"
)

// Verdict is an outcome and the reason for it in words.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
}

// CheckpointResult is the result for one checkpoint.
type CheckpointResult struct {
	Name    string  `json:"name"`
	Size    uint64  `json:"size"`
	Outcome Outcome `json:"outcome"`
	// Witnesses are those whose keys were given, in their order.
	Witnesses []WitnessResult `json:"witnesses,omitempty"`
}

// Vouching is how many witnesses cosigned the checkpoint.
func (c CheckpointResult) Vouching() (n int) {
	for _, w := range c.Witnesses {
		if w.At != nil {
			n++
		}
	}
	return n
}

// WitnessResult says whether a witness vouches for a checkpoint: it compared it
// with its own copy of the log and cosigned it.
type WitnessResult struct {
	Name string     `json:"name"`
	At   *time.Time `json:"at"` // by the witness's clock, in whole seconds; null: it does not
}

// Report is the result of Check.
type Report struct {
	// Integrity: nothing was altered. Completeness: nothing is missing.
	Integrity    Verdict `json:"integrity"`
	Completeness Verdict `json:"completeness"`
	// Projections: the projections match the log. Failed here says nothing
	// against the log itself.
	Projections Verdict `json:"projections"`

	Events   uint64              `json:"events"`            // number of readable records, opaque ones among them
	Project  string              `json:"project,omitempty"` // the only one whose events are not opaque; "": all
	Opaque   uint64              `json:"opaque,omitempty"`  // number of events of which only the leaf's hash is known
	Payments uint64              `json:"payments"`          // number of payment streams
	Projects uint64              `json:"projects"`
	Last     eventstore.Position `json:"last"`           // the greatest position seen
	Root     *tlog.Hash          `json:"root,omitempty"` // of the tree over all events; absent when an event cannot be read

	// NoDetails is the number of payments whose details were not in what the log was restored from.
	NoDetails uint64 `json:"no_details,omitempty"`

	// FirstBad is the lowest position of a finding, 0 if no finding has one.
	FirstBad    eventstore.Position `json:"first_bad"`
	Found       int                 `json:"found"`             // number of findings
	Findings    []Finding           `json:"findings"`          // the first ones
	Lacking     []Lack              `json:"lacking,omitempty"` // the first streams with events after missing ones
	Checkpoints []CheckpointResult  `json:"checkpoints"`

	unlisted eventstore.Position // the lowest of a finding that is only counted
}

// Lack is a range of a stream's events that are missing, although a later one is
// there.
type Lack struct {
	Stream  string              `json:"stream"`
	From    uint64              `json:"from_sequence"`
	Through uint64              `json:"through_sequence"`
	Before  eventstore.Position `json:"before"` // position of the next event of the stream
}

// String is the lack as one line of text.
func (l Lack) String() string {
	if l.From == l.Through {
		return fmt.Sprintf("%s lacks its event %d, before position %d", l.Stream, l.From, l.Before)
	}
	return fmt.Sprintf("%s lacks its events %d to %d, before position %d", l.Stream, l.From, l.Through, l.Before)
}

// OK reports whether no check failed.
func (r *Report) OK() bool {
	return r.Integrity.Outcome != Failed && r.Completeness.Outcome != Failed && r.Projections.Outcome != Failed
}

// maxFindings bounds Report.Findings, of which further ones are only counted, and
// Report.Lacking.
const maxFindings = 100

// Add adds a finding.
func (r *Report) Add(f Finding) {
	f.Through = max(f.Through, f.Position)
	r.Found++
	r.FirstBad = lower(r.FirstBad, f.Position)
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	} else {
		r.unlisted = lower(r.unlisted, f.Position)
	}
	verdict := &r.Integrity
	if f.Kind.Completes() {
		verdict = &r.Completeness
	}
	if verdict.Outcome != Failed {
		*verdict = Verdict{Outcome: Failed, Reason: f.String()}
	}
}

// narrow replaces the range of the WrongRoot findings by the position of the
// first different event, which is known.
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
	r.FirstBad = r.unlisted
	for _, f := range r.Findings {
		r.FirstBad = lower(r.FirstBad, f.Position)
	}
}

// lower is the lower one of two positions, of which 0 is none.
func lower(a, b eventstore.Position) eventstore.Position {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
