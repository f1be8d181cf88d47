package admin

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/check"

	"github.com/go-json-experiment/json"
)

// evidence is the running server's log. It is read as it is at one moment; commits continue.
func (a *admin) evidence() Evidence {
	c := a.cfg.Views.Config()
	e := Evidence{
		Ledger: a.cfg.Ledger, LogID: c.LogID,
		Compare: func(ctx context.Context, told Progress) (check.Comparison, error) {
			return check.Live(ctx, a.cfg.Views, told)
		},
	}
	if s, ok := c.Store.(interface{ Verify(context.Context) error }); ok {
		e.Structure = s.Verify
	}
	if s, ok := c.Store.(interface {
		MissingCheckpoints(context.Context) ([]eventstore.MissingCheckpoint, error)
	}); ok {
		e.Missing = s.MissingCheckpoints
	}
	return e
}

// verify answers POST /admin/verify: lines of progress, then the report.
func (a *admin) verify(x *edge.Exchange) error {
	return onEvidence(a, x, `{"verifier_keys","checkpoints":[{"name","note","beside"}]}`, Evidence.Verify)
}

// replay answers POST /admin/replay: lines of progress, then what the log leads
// to, or how the projections differ from it.
func (a *admin) replay(x *edge.Exchange) error {
	return onEvidence(a, x, `{"check","position","time","payment"}, all of which may be left out`, Evidence.Replay)
}

// onEvidence does what a request asks of the log, and answers with the lines of it.
func onEvidence[Q any](a *admin, x *edge.Exchange, want string, do func(Evidence, context.Context, Q, func(Line) error) error) error {
	var q Q
	err := json.Unmarshal(x.Body, &q, json.RejectUnknownMembers(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && strings.HasSuffix(string(wrong.JSONPointer.Parent()), "_keys") {
		return edge.BadParameter(wrong.JSONPointer.Parent().LastToken(), cmp.Or(wrong.Err, err).Error())
	}
	if err != nil {
		return wire.Problem{Code: domain.MalformedJSON, Detail: "Send " + want + "."}
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	return do(a.evidence(), ctx, q, evidenceLines(x))
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
