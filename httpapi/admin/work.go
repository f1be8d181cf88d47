package admin

import (
	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// listOpenWork answers GET /admin/payments/open: what is open at providers, the
// oldest payment first.
func (a *admin) listOpenWork(x *edge.Exchange) error {
	page, err := pageOfPayments(a, x, "adminListOpenWork", "route", a.cfg.Views.EachUncollected,
		func(o domain.Outstanding) string { return o.Route })
	if err != nil {
		return err
	}
	if err := a.checkRoute(page.Filters["route"]); err != nil && len(page.payments) == 0 {
		return err // a route that is gone from the file may have work left
	}
	rows := []wire.OpenWork{}
	for _, p := range page.payments {
		var looks domain.Looks
		if a.cfg.Looks != nil {
			looks = a.cfg.Looks(p)
		}
		for _, w := range p.Work(domain.InstantOf(a.cfg.Now())) {
			rows = append(rows, wire.OpenWork{ProjectID: p.Project, PaymentID: p.ID, Route: p.Route, Work: w, Looks: looks})
		}
	}
	return edge.ReplyPage(x, edge.PageOf(page.List, rows, page.last))
}
