package httpapi

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections"
)

// evidence is the running server's log. It is read as it is at one moment;
// commits go on.
func (a *admin) evidence() Evidence {
	e := Evidence{
		Ledger: a.cfg.Ledger,
		Compare: func(ctx context.Context, told Progress) (projections.Comparison, error) {
			return a.cfg.Views.Compare(ctx, told)
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
func (a *admin) verify(x *exchange) error {
	var q VerifyRequest
	if err := json.Unmarshal(x.body, &q, json.RejectUnknownMembers(true)); err != nil {
		return problem{Code: domain.MalformedJSON, Detail: "Send {\"verifier_keys\",\"checkpoints\":[{\"name\",\"note\",\"beside\"}]}."}
	}
	ctx, cancel := x.untilStopping(a.cfg.Stopping)
	defer cancel()
	return a.evidence().Verify(ctx, q, evidenceLines(x))
}

// replay answers GET /admin/replay: lines of progress, then what the log leads
// to, or how the projections differ from it.
func (a *admin) replay(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "check", "position", "time", "payment")
	if err != nil {
		return err
	}
	var r ReplayRequest
	switch q.value("check") {
	case "", "false":
	case "true":
		r.Check = true
	default:
		return badParameter("check", "Send true or false.")
	}
	if q.has("position") {
		n, err := strconv.ParseUint(q.value("position"), 10, 63)
		if err != nil {
			return badParameter("position", "Send a position, 0 for the empty log.")
		}
		p := eventstore.Position(n)
		r.Position = &p
	}
	if q.has("time") {
		var at domain.Instant
		if err := at.UnmarshalText([]byte(q.value("time"))); err != nil {
			return badParameter("time", "Send a time such as 2026-11-20T10:15:30Z; in an offset write + as %2B.")
		}
		r.Time = &at
	}
	if q.has("payment") {
		id, ok := domain.ParseID(q.value("payment"))
		if !ok {
			return &domain.Refusal{Code: domain.PaymentNotFound}
		}
		r.Payment = &id
	}
	ctx, cancel := x.untilStopping(a.cfg.Stopping)
	defer cancel()
	return a.evidence().Replay(ctx, r, evidenceLines(x))
}

// evidenceLines writes lines as they come. The answer begins with the first
// one: what fails before it is a problem document.
func evidenceLines(x *exchange) func(EvidenceLine) error {
	var out *stream
	return func(l EvidenceLine) error {
		if out == nil {
			out = x.stream(jsonLines)
		}
		b, err := json.Marshal(l, asWritten())
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		switch {
		case err != nil:
			return err
		case l.Done != nil:
			return out.flush()
		case l.Progress != nil:
			return out.flush()
		}
		return nil
	}
}
