package admin

import (
	"context"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/check"
)

// evidence is the running server's log. It is read as it is at one moment; commits continue.
func (a *admin) evidence() Evidence {
	e := Evidence{
		Ledger: a.cfg.Ledger,
		Compare: func(ctx context.Context, told Progress) (check.Comparison, error) {
			return check.Live(ctx, a.cfg.Views, told)
		},
	}
	if s, ok := a.cfg.Ledger.Store.(interface{ LogID() domain.ID }); ok {
		e.LogID = s.LogID()
	}
	if s, ok := a.cfg.Ledger.Store.(interface{ Verify(context.Context) error }); ok {
		e.Structure = s.Verify
	}
	if s, ok := a.cfg.Ledger.Store.(interface {
		MissingCheckpoints(ctx context.Context) ([]eventstore.MissingCheckpoint, error)
	}); ok {
		e.Missing = s.MissingCheckpoints
	}
	return e
}

// verify answers POST /admin/verify: lines of progress, then the report.
func (a *admin) verify(x *edge.Exchange) error {
	var q VerifyRequest
	if err := json.Unmarshal(x.Body, &q, json.RejectUnknownMembers(true)); err != nil {
		return wire.Problem{Code: domain.MalformedJSON, Detail: "Send {\"verifier_keys\",\"checkpoints\":[{\"name\",\"note\",\"beside\"}]}."}
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	return a.evidence().Verify(ctx, q, evidenceLines(x))
}

// replay answers GET /admin/replay: lines of progress, then what the log leads
// to, or how the projections differ from it.
func (a *admin) replay(x *edge.Exchange) error {
	q, err := x.Query("check", "position", "time", "payment")
	if err != nil {
		return err
	}
	var r ReplayRequest
	if r.Check, err = q.Flag("check"); err != nil {
		return err
	}
	if q.Has("position") {
		n, err := q.Number("position", "Send a position, 0 for the empty log.")
		if err != nil {
			return err
		}
		p := eventstore.Position(n)
		r.Position = &p
	}
	if q.Has("time") {
		var at domain.Instant
		if err := at.UnmarshalText([]byte(q["time"])); err != nil {
			return edge.BadParameter("time", "Send a time such as 2026-11-20T10:15:30Z; in an offset write + as %2B.")
		}
		r.Time = &at
	}
	if q.Has("payment") {
		id, ok := domain.ParseID(q["payment"])
		if !ok {
			return &domain.Refusal{Code: domain.PaymentNotFound}
		}
		r.Payment = &id
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	return a.evidence().Replay(ctx, r, evidenceLines(x))
}

// evidenceLines writes lines as they come. The answer begins with the first
// one: what fails before it is a problem document.
func evidenceLines(x *edge.Exchange) func(Line) error {
	var out *edge.Exchange
	return func(l Line) error {
		if out == nil {
			out = x.Stream(edge.JSONLines)
		}
		if err := out.Line(l); err != nil || l.Done == nil && l.Progress == nil {
			return err
		}
		return out.Flush()
	}
}
