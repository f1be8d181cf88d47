package admin

import (
	"errors"

	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// events answers GET /admin/events: the records after a position, of one
// project or of all, and with follow=true those that are still to come.
func (a *admin) events(x *edge.Exchange) error {
	q, err := x.Query("after", "project", "follow")
	if err != nil {
		return err
	}
	after, err := q.Number("after", "Send the position after which to begin, 0 for all.")
	if err != nil {
		return err
	}
	follow, err := q.Flag("follow")
	if err != nil {
		return err
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
	filter := eventstore.Filter{Project: q["project"]}
	if follow {
		err = a.cfg.Ledger.Store.Follow(ctx, eventstore.Position(after), filter, func(r eventstore.Stored) error {
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
	for r, err := range a.cfg.Ledger.Store.Scan(ctx, eventstore.Position(after), filter) {
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
