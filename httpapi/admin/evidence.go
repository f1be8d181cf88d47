package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/check"
)

// Evidence is a log that is to be verified or replayed: that of a running
// server, or one that was opened for reading.
type Evidence struct {
	Ledger eventstore.Ledger
	LogID  domain.ID
	// Structure checks what the store derives from its records.
	Structure func(context.Context) error
	// Missing are the times the log was opened without its checkpoint; nil where
	// that is not known.
	Missing func(context.Context) ([]eventstore.MissingCheckpoint, error)
	// Restored is up to where the log was put in the place of another, if it does not say so yet.
	Restored eventstore.Position
	// Compare compares the projections with the log; nil where there are none.
	Compare func(context.Context, Progress) (check.Comparison, error)
}

// Progress is called now and then during long work, with how much of it is done.
type Progress = func(done, total eventstore.Position)

// MaxVerifyRequest bounds what a log is to be verified against as it is sent, in bytes: some
// checkpoints of the longest kind.
const MaxVerifyRequest = 1 << 20

// ReplayRequest asks for the state the log leads to, at its end or as of a
// position or a time; of one payment, or of all. With Check it asks instead
// for the comparison of the projections with the log.
type ReplayRequest struct {
	Check    bool                 `json:"check,omitzero"`
	Position *eventstore.Position `json:"position,omitempty"`
	Time     *domain.Instant      `json:"time,omitempty"`
	Payment  *domain.ID           `json:"payment,omitempty"`
}

// Line is one line of the answer of a verification or a replay: how
// far it has come, or a part of the result. Done is the last line; without
// it the answer is not whole.
type Line struct {
	Progress   *LineProgress     `json:"progress,omitempty"`
	Report     *audit.Report     `json:"report,omitempty"`
	Comparison *check.Comparison `json:"comparison,omitempty"`
	Project    *projects.Project `json:"project,omitempty"`
	Payment    *domain.Payment   `json:"payment,omitempty"`
	Done       *LineDone         `json:"done,omitempty"`
}

// LineProgress says how far which step has come.
type LineProgress struct {
	Step  string              `json:"step"`
	Done  eventstore.Position `json:"done"`
	Total eventstore.Position `json:"total"`
}

// LineDone says up to which position the log was read.
type LineDone struct {
	Position eventstore.Position `json:"position"`
}

// Verify checks the log and emits the report. The error says why it could not be checked, or is
// emit's.
func (e Evidence) Verify(ctx context.Context, q audit.Against, emit func(Line) error) error {
	if slices.Contains(q.Verifiers, nil) || slices.Contains(q.Witnesses, nil) {
		return edge.BadParameter("verifier_keys", "a key is null")
	}
	last, err := e.Ledger.Store.Last(ctx)
	if err != nil {
		return err
	}
	o := audit.Options{
		Codec: e.Ledger.Codec, Against: q, Structure: e.Structure, Restored: e.Restored, Total: last, Progress: telling("Checking the log", emit),
	}
	if !e.LogID.IsZero() {
		o.Origin = translog.Origin(e.LogID)
	}
	if e.Missing != nil {
		if o.Missing, err = e.Missing(ctx); err != nil {
			return err
		}
	}
	if e.Compare != nil {
		o.Projections = func(ctx context.Context) (audit.Verdict, *audit.Finding, error) {
			return judge(e.Compare(ctx, telling("Folding the log again", emit)))
		}
	}
	report, err := audit.Check(ctx, audit.Of(ctx, e.Ledger.Store), o)
	if err != nil {
		return err
	}
	return errors.Join(emit(Line{Report: report}), emit(Line{Done: &LineDone{report.Last}}))
}

// judge says what a comparison of the projections means.
func judge(c check.Comparison, err error) (audit.Verdict, *audit.Finding, error) {
	var corrupt *eventstore.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return audit.Verdict{Outcome: audit.NotChecked, Reason: "the log cannot be folded: " + corrupt.Error()}, nil, nil
	case err != nil:
		return audit.Verdict{}, nil, err
	case c.Missing:
		return audit.Verdict{Outcome: audit.NotChecked, Reason: "there are none; the next start builds them"}, nil, nil
	case c.Other:
		return audit.Verdict{Outcome: audit.NotChecked, Reason: "they are of another log or another version of the program; the next start rebuilds them"}, nil, nil
	case c.Damage != "":
		return audit.Verdict{Outcome: audit.Failed, Reason: "their file is damaged, delete it and the next start rebuilds it: " + c.Damage}, nil, nil
	case c.Ahead():
		reason := fmt.Sprintf("the projections have seen position %d, the log ends at %d", c.Position, c.Last)
		return audit.Verdict{Outcome: audit.Failed, Reason: reason},
			&audit.Finding{Kind: audit.Truncated, Position: c.Last + 1, Through: c.Position, Detail: reason}, nil
	case len(c.Differences) > 0:
		d := c.Differences[len(c.Differences)-1]
		verdict := audit.Verdict{Outcome: audit.Failed, Reason: fmt.Sprintf(
			"%d of the views differ from what the log leads to, the first difference of %s is key %s: %s", len(c.Differences), d.View, d.Key, d.What)}
		if d.Event != 0 {
			verdict.Reason += fmt.Sprintf("; either they were altered, or the event at position %d was after it was folded", d.Event)
		}
		return verdict, located(c.Differences), nil
	}
	reason := fmt.Sprintf("they are, byte for byte, what the log leads to at position %d", c.Position)
	if c.Position < c.Last {
		reason += fmt.Sprintf("; the next start folds the %d events after it", c.Last-c.Position)
	}
	return audit.Verdict{Outcome: audit.OK, Reason: reason}, nil, nil
}

// located is where the stored tree differs from the log, if it does.
func located(all []check.Difference) *audit.Finding {
	for _, d := range all {
		if d.Event != 0 {
			return &audit.Finding{Kind: audit.WrongRoot, Position: d.Event, Detail: "the event is not the one in the projections' tree"}
		}
	}
	return nil
}

// Replay folds the log and emits the result.
func (e Evidence) Replay(ctx context.Context, q ReplayRequest, emit func(Line) error) error {
	if q.Check {
		return e.replayCheck(ctx, emit)
	}
	end, err := e.moment(ctx, q)
	if err != nil {
		return err
	}
	if q.Payment != nil {
		p, ok, err := check.PaymentAsOf(ctx, e.Ledger, *q.Payment, end, telling("Replaying the log", emit))
		if err == nil && !ok {
			err = &domain.Refusal{Code: domain.PaymentNotFound}
		}
		if err != nil {
			return err
		}
		return errors.Join(emit(Line{Payment: &p}), emit(Line{Done: &LineDone{end}}))
	}
	r, err := check.Replay(ctx, e.Ledger, end, telling("Replaying the log", emit))
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // temporary
	all, err := r.Projects(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := emit(Line{Project: &p}); err != nil {
			return err
		}
	}
	if err := r.EachPayment(ctx, func(p domain.Payment) error { return emit(Line{Payment: &p}) }); err != nil {
		return err
	}
	return emit(Line{Done: &LineDone{end}})
}

func (e Evidence) replayCheck(ctx context.Context, emit func(Line) error) error {
	if e.Compare == nil {
		return edge.BadParameter("check", "There are no projections next to this log to compare it with: name a data directory.")
	}
	c, err := e.Compare(ctx, telling("Replaying the log", emit))
	if err != nil {
		return err
	}
	return errors.Join(emit(Line{Comparison: &c}), emit(Line{Done: &LineDone{c.Position}}))
}

// moment is the position a request speaks of.
func (e Evidence) moment(ctx context.Context, q ReplayRequest) (eventstore.Position, error) {
	if q.Time != nil {
		return check.PositionAsOf(ctx, e.Ledger.Store, *q.Time)
	}
	last, err := e.Ledger.Store.Last(ctx)
	if err != nil || q.Position == nil {
		return last, err
	}
	if *q.Position > last {
		return 0, edge.BadParameter("position", fmt.Sprintf("The log ends at position %d.", last))
	}
	return *q.Position, nil
}

// telling is progress of a step that is emitted. Who can no longer be told ends ctx, or hears of it with the result.
func telling(step string, emit func(Line) error) Progress {
	return func(done, total eventstore.Position) { _ = emit(Line{Progress: &LineProgress{step, done, total}}) }
}

// Refused reports whether the error says that what was asked for does not
// exist or makes no sense, in contrast to a failure.
func Refused(err error) bool {
	var p wire.Problem
	var r *domain.Refusal
	return errors.As(err, &p) || errors.As(err, &r)
}
