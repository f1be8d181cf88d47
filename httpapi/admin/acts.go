package admin

import (
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// acts answers GET /admin/acts: the acts after a position, of one project or of all.
func (a *admin) acts(x *edge.Exchange) error {
	q, err := x.Query("after", "project")
	if err != nil {
		return err
	}
	after, _, err := a.after(x, q)
	if err != nil {
		return err
	}
	if err := a.checkProject(x, q); err != nil {
		return err
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	out := x.Stream(edge.JSONLines)
	err = a.cfg.Views.EachAct(ctx, after, func(project string, at eventstore.Position) error {
		if q.Has("project") && project != q["project"] {
			return nil
		}
		r, _, err := a.cfg.Views.EventAt(ctx, at)
		if err != nil {
			return err
		}
		return out.Line(wire.EventLine{Position: uint64(at), Event: r.Body})
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
