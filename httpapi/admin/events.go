package admin

import (
	"errors"
	"slices"
	"strconv"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// after is the parameter of that name, a position of the log or 0, and the log's end.
func (a *admin) after(x *edge.Exchange, q edge.Query) (after, last eventstore.Position, err error) {
	n, err := q.Number("after", "Send the position after which to begin, 0 for all.")
	if err != nil {
		return 0, 0, err
	}
	last, err = a.cfg.Ledger.Store.Last(x.Context())
	if err == nil && n > uint64(last) {
		err = edge.BadParameter("after", "The log ends before this position, at "+strconv.FormatUint(uint64(last), 10)+".")
	}
	return eventstore.Position(n), last, err
}

// events answers GET /admin/events: the records after a position, of one
// project, one payment or of all, and with follow=true those that are still to
// come. With whole=PROJECT, all but those of the project and those that move its money are opaque.
func (a *admin) events(x *edge.Exchange) error {
	q, err := x.Query("after", "project", "payment", "follow", "whole", "details")
	if err != nil {
		return err
	}
	after, last, err := a.after(x, q)
	if err != nil {
		return err
	}
	follow, err := q.Flag("follow")
	if err != nil {
		return err
	}
	details, err := q.Flag("details")
	if err != nil {
		return err
	}
	if err := a.checkProject(x, q); err != nil {
		return err
	}
	whole := q["whole"]
	if whole != "" && whole != operatorsBooks {
		if _, err := a.project(x, whole); err != nil {
			return err
		}
	}
	ctx, cancel := edge.UntilStopping(x.Context(), a.cfg.Stopping)
	defer cancel()
	store, filter := a.cfg.Ledger.Store, eventstore.Filter{Project: q["project"]}
	records := store.Scan(ctx, after, filter)
	if q.Has("payment") {
		operator := merchant.CallerOf(x)
		operator.Project.ID = filter.Project
		p, err := a.api.Payment(ctx, operator, q["payment"])
		if err != nil {
			return err
		}
		its := eventstore.PaymentStream(p.Project, p.ID)
		// A payment has few events, which are read without the others.
		filter, records = eventstore.Filter(its), store.Load(ctx, its)
	}
	out := x.Stream(edge.JSONLines)
	if err := out.Flush(); err != nil {
		return err
	}
	over := func(err error) bool { return follow && (ctx.Err() != nil || errors.Is(err, eventstore.ErrClosed)) }
	line := func(r eventstore.Stored) error {
		if whole != "" && !a.concerns(r, whole) {
			r = eventstore.OpaqueRecord(r.Position, domain.Digest(translog.LeafOf(r)))
		}
		if leaf, opaque := r.OpaqueLeaf(); opaque {
			return out.Line(wire.EventLine{Position: uint64(r.Position), Leaf: leaf[:]})
		}
		if !details {
			r.Details = nil
		}
		return out.Line(merchant.LineOf(r))
	}
	for r, err := range records {
		if err == nil && r.Position > last {
			break
		}
		if err == nil && r.Position > after {
			err = line(r)
		}
		if err != nil {
			_ = out.Flush() // all complete records, so that the end shows where the damage is
			if over(err) {
				return nil
			}
			return err
		}
	}
	if err := out.Flush(); err != nil || !follow {
		return err
	}
	err = store.Follow(ctx, last, filter, func(r eventstore.Stored) error {
		if err := line(r); err != nil {
			return err
		}
		return out.Flush()
	})
	if over(err) {
		return nil
	}
	return err
}

// concerns reports whether a record is the project's, or moves its money.
func (a *admin) concerns(r eventstore.Stored, project string) bool {
	if r.Stream.Project == project || r.Stream.Kind == eventstore.KindPayment {
		return r.Stream.Project == project
	}
	event, err := a.cfg.Ledger.Codec.Event(r)
	return err == nil && slices.ContainsFunc(domain.Postings(event), func(p domain.Posting) bool { return p.Project == project })
}
