package merchant

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// maxOverview is the longest range, and usualOverview the one when the request
// does not say, in days.
const (
	maxOverview   = 366
	usualOverview = 30
)

// Calendar has the days of the project's time zone, or of UTC where the zone has gone
// from the database since the project was changed.
func (c Caller) Calendar() Calendar {
	days, _ := LoadCalendar(c.Project.Settings.TimeZone)
	return days
}

// Overview is what happened on the days of a range, which from and to in the
// query name. Days are those of the project's time zone. Needs read.
func (a *API) Overview(ctx context.Context, c Caller, values url.Values) (v wire.Overview, err error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return v, err
	}
	q, err := edge.ParseQuery(values, "from", "to")
	if err != nil {
		return v, err
	}
	days := c.Calendar()
	to, err := dayOf(q, "to", days.Day(domain.InstantOf(a.cfg.Now())))
	if err != nil {
		return v, err
	}
	from, err := dayOf(q, "from", max(0, to-usualOverview+1))
	switch {
	case err != nil:
		return v, err
	case from > to:
		return v, edge.BadParameter("from", "Send a day that is not after to.")
	case to-from >= maxOverview:
		return v, edge.BadParameter("from", "Send a range of at most 366 days.")
	}
	var bounds []domain.Instant
	for d := from; d <= to+1; d++ {
		bounds = append(bounds, days.Start(d))
	}
	rows, err := a.cfg.Views.Periods(ctx, c.Project.ID, bounds)
	if err != nil {
		return v, err
	}
	all, err := a.cfg.Views.Totals(ctx, ctx, c.Project.ID, views.PaymentQuery{}, 0)
	return wire.Overview{
		TimeZone: days.Zone().String(), From: from.String(), To: to.String(), Payments: all.Count(),
		Currencies: overviewOf(c.Project.Settings.Currencies, rows, from, to),
	}, err
}

// Attempts are the attempts to pay the project's payments from an instant on, counted
// by whole hours, by route; those of routes without a connector are none. Needs read.
func (a *API) Attempts(ctx context.Context, c Caller, from time.Time) (map[string]wire.RouteAttempts, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return nil, err
	}
	counted, err := a.cfg.Views.Attempts(ctx, c.Project.ID, views.HourOf(domain.InstantOf(from)))
	if err != nil {
		return nil, err
	}
	all := make(map[string]wire.RouteAttempts, len(counted))
	for route, n := range counted {
		all[route] = wire.AttemptsOf(n.Begun, n.Paid, n.Failed)
	}
	return all, nil
}

func overviewOf(usual []domain.Currency, rows []views.PeriodRow, from, to Day) (all []wire.CurrencyOverview) {
	at := make(map[domain.Currency]int)
	of := func(c domain.Currency) *wire.CurrencyOverview {
		i, ok := at[c]
		if !ok {
			i = len(all)
			at[c] = i
			one := wire.CurrencyOverview{Currency: c}
			for d := from; d <= to; d++ {
				one.Days = append(one.Days, wire.Day{Date: d.String()})
			}
			for _, s := range domain.PaymentStatuses() {
				one.Outcomes = append(one.Outcomes, wire.Outcome{Status: s})
			}
			all = append(all, one)
		}
		return &all[i]
	}
	for _, r := range rows {
		one := of(r.Currency)
		day := &one.Days[r.Period]
		day.Created, day.Paid, day.Refunded = wire.Tally(r.Created), wire.Tally(r.Paid), wire.Tally(r.Refunded)
		one.Created, one.Paid, one.Refunded = one.Created.Plus(day.Created), one.Paid.Plus(day.Paid), one.Refunded.Plus(day.Refunded)
		one.Returned, one.Lost = one.Returned.Plus(wire.Tally(r.Returned)), one.Lost.Plus(wire.Tally(r.Lost))
		one.Back = one.Back.Plus(wire.Tally(r.Back))
		for i, o := range one.Outcomes {
			one.Outcomes[i].Tally = o.Plus(wire.Tally(*r.ByStatus.Of(o.Status)))
		}
	}
	if len(all) == 0 && len(usual) > 0 {
		of(usual[0])
	}
	slices.SortStableFunc(all, func(a, b wire.CurrencyOverview) int {
		return cmp.Or(b.Paid.Sum.Compare(a.Paid.Sum), b.Created.Sum.Compare(a.Created.Sum))
	})
	return all
}

// dayOf reads a parameter that takes a day.
func dayOf(q edge.Query, name string, absent Day) (Day, error) {
	if !q.Has(name) {
		return absent, nil
	}
	d, err := ParseDay(q[name])
	if err != nil {
		return 0, edge.BadParameter(name, "Send a day such as 2026-11-20.")
	}
	return d, nil
}

// The bounds of adding up single payments; a total that was cut off by them says so.
const (
	maxTotalled    = 50_000
	totalledWithin = 5 * time.Second
)

// Totals adds up the payments of a filtered list; values are the filters.
// Needs read.
func (a *API) Totals(ctx context.Context, c Caller, values url.Values) (v wire.Totals, err error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return v, err
	}
	filters, err := edge.ParseQuery(values, paymentFilters()...)
	if err != nil {
		return v, err
	}
	q, err := paymentQuery(edge.List{Filters: filters})
	if err != nil {
		return v, err
	}
	until, cancel := context.WithTimeout(ctx, totalledWithin)
	defer cancel()
	totals, err := a.cfg.Views.Totals(ctx, until, c.Project.ID, q, maxTotalled)
	if err != nil {
		return v, err
	}
	v = wire.Totals{Complete: totals.Complete, Count: totals.Count(), Data: []wire.Total{}}
	for _, t := range totals.Rows {
		v.Data = append(v.Data, wire.Total{Currency: t.Currency, Status: t.Status, Tally: wire.Tally(t.Tally), Refunded: wire.Tally(t.Refunded)})
	}
	return v, nil
}
