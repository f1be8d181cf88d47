package admin

import (
	"math"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// listOpenWork answers GET /admin/payments/open: what is open at providers, the
// oldest payment first.
func (a *admin) listOpenWork(x *edge.Exchange) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	req, err := edge.ParseList(values, "adminListOpenWork", "", "route")
	if err != nil {
		return err
	}
	after, ok := domain.ParseID(req.Place)
	if req.Place != "" && !ok {
		return wire.Problem{Code: domain.InvalidCursor}
	}
	payments, last, err := pageOfPayments(req.Limit, func(fn func(o domain.Outstanding, id domain.ID) error) error {
		return a.cfg.Views.EachUncollected(x.Context(), after, math.MaxInt, fn)
	}, func(o domain.Outstanding) bool { return !req.Filters.Has("route") || req.Filters["route"] == o.Route })
	if err != nil {
		return err
	}
	rows := []wire.OpenWork{}
	for _, id := range payments {
		p, _, err := a.cfg.Views.Payment(x.Context(), id)
		if err != nil {
			return err
		}
		var looks wire.Looks
		if a.cfg.Looks != nil {
			looks = a.cfg.Looks(p)
		}
		for _, w := range p.Work(domain.InstantOf(a.cfg.Now())) {
			rows = append(rows, wire.OpenWork{ProjectID: p.Project, PaymentID: p.ID, Route: p.Route, Work: w, Looks: looks})
		}
	}
	return edge.ReplyPage(x, edge.PageOf(req, rows, last))
}
