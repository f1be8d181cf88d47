package admin

import (
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// acts answers GET /admin/acts: the acts after a position, of one project or of all.
func (a *admin) acts(x *edge.Exchange) error {
	q, err := x.Query("after", "project")
	if err != nil {
		return err
	}
	after, err := a.after(x, q)
	if err != nil {
		return err
	}
	if q.Has("project") {
		if _, err := a.project(x, q["project"]); err != nil {
			return err
		}
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	out := x.Stream(edge.JSONLines)
	err = a.cfg.Views.EachAct(ctx, eventstore.Position(after), func(project string, at eventstore.Position) error {
		if q.Has("project") && project != q["project"] {
			return nil
		}
		for r, err := range a.cfg.Ledger.Store.Scan(ctx, at-1, eventstore.Filter{}) {
			if err != nil {
				return err
			}
			line, err := merchant.LineOf(wire.EventLine{Position: uint64(at), Event: r.Body})
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
