package admin

import (
	"errors"
	"strconv"

	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// after is the parameter of that name, a position of the log or 0.
func (a *admin) after(x *edge.Exchange, q edge.Query) (uint64, error) {
	after, err := q.Number("after", "Send the position after which to begin, 0 for all.")
	if err != nil {
		return 0, err
	}
	last, err := a.cfg.Ledger.Store.Last(x.Context())
	if err == nil && after > uint64(last) {
		err = edge.BadParameter("after", "The log ends before this position, at "+strconv.FormatUint(uint64(last), 10)+".")
	}
	return after, err
}

// events answers GET /admin/events: the records after a position, of one
// project, one payment or of all, and with follow=true those that are still to
// come.
func (a *admin) events(x *edge.Exchange) error {
	q, err := x.Query("after", "project", "payment", "follow")
	if err != nil {
		return err
	}
	after, err := a.after(x, q)
	if err != nil {
		return err
	}
	follow, err := q.Flag("follow")
	if err != nil {
		return err
	}
	if q.Has("project") {
		if _, err := a.project(x, q["project"]); err != nil {
			return err
		}
	}
	filter := eventstore.Filter{Project: q["project"]}
	if q.Has("payment") {
		p, err := a.api.Payment(x.Context(), merchant.Operator(x, projects.Project{ID: q["project"]}), q["payment"])
		if err != nil {
			return err
		}
		filter = eventstore.Filter{Project: p.Project, Kind: eventstore.KindPayment, ID: p.ID.String()}
	}
	out := x.Stream(edge.JSONLines)
	if err := out.Flush(); err != nil {
		return err
	}
	line := func(r eventstore.Stored) error {
		b, err := merchant.LineOf(wire.EventLine{Position: uint64(r.Position), Event: r.Body})
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	store, behind := a.cfg.Ledger.Store, eventstore.Position(after)
	if filter.ID != "" {
		// A payment has few events, which are read without the others up to here.
		last, err := store.Last(ctx)
		if err != nil {
			return err
		}
		stream := eventstore.Stream(filter)
		for r, err := range store.Load(ctx, stream) {
			if err == nil && r.Position > behind && r.Position <= last {
				err = line(r)
			}
			if err != nil {
				return err
			}
		}
		behind = max(behind, last)
		if !follow {
			return out.Flush()
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if follow {
		err = store.Follow(ctx, behind, filter, func(r eventstore.Stored) error {
			if err := line(r); err != nil {
				return err
			}
			return out.Flush()
		})
		if ctx.Err() != nil || errors.Is(err, eventstore.ErrClosed) {
			return nil
		}
		return err
	}
	for r, err := range store.Scan(ctx, behind, filter) {
		if err != nil {
			_ = out.Flush() // all that is whole, so that its end tells where the damage is
			return err
		}
		if err := line(r); err != nil {
			return err
		}
	}
	return out.Flush()
}
