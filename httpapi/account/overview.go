package account

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// currencyOverview is one currency's part, with its charts.
type currencyOverview struct {
	wire.CurrencyOverview
	Wide, Narrow *dailyChart
	ByHand       bool // the provider returned some of it without our request
}

// Net is what was paid less what was refunded and lost in disputes, and what of that came back.
func (c currencyOverview) Net() domain.Sum {
	return c.Paid.Sum.Add(c.Refunded.Sum.Neg()).Add(c.Lost.Sum.Neg()).Add(c.Back.Sum)
}

// Final is how many payments have an outcome that does not change.
func (c currencyOverview) Final() (n uint64) {
	for _, o := range c.Outcomes {
		if o.Status.Final() {
			n += o.Count
		}
	}
	return n
}

// Converted is how many payments were paid of those that were created.
func (c currencyOverview) Converted() uint64 {
	return c.Outcomes[slices.Index(domain.PaymentStatuses(), domain.Paid)].Count // there is one of each
}

// DayOf names a day.
func (p overviewPage) DayOf(d wire.Day) string {
	day, _ := merchant.ParseDay(d.Date) // the API writes it so
	return p.Day(p.Who.Calendar().Start(day))
}

// Busy are the days on which something was paid or refunded, the newest first.
func (c currencyOverview) Busy() (all []wire.Day) {
	for _, d := range slices.Backward(c.Days) {
		if d.Paid.Count > 0 || d.Refunded.Count > 0 {
			all = append(all, d)
		}
	}
	return all
}

// Urgency is the tone of an alert.
func (overviewPage) Urgency(a wire.Alert) string {
	switch a.Kind {
	case wire.AlertDisputed, wire.AlertLateFunds, wire.AlertByHand, wire.AlertSecret, wire.AlertUnrouted:
		return "warn"
	}
	return "bad"
}

// overviewPage is what overview.html is filled with.
type overviewPage struct {
	pageData
	wire.Overview
	Shown  *currencyOverview // of the currency that was chosen; nil: the project has no currency
	Tabs   []choice          // of currencies, if there are several
	Alerts []wire.Alert
	Routes []routeRow
	Books  wire.CurrencyBooks // of the currency that is shown
	Ranges []choice           // numbers of last days
	Custom bool               // the range is none of them
	Today  string
}

// choice is a link to the same page with another currency or range.
type choice struct {
	Address, Text string
	Here          bool
}

func (v *visit) showOverview() error {
	if key := v.Caller.Key; !key.Has(projects.Read) && key.Has(projects.Audit) { // it sees the log and nothing else
		return v.Leave("events")
	}
	p := overviewPage{pageData: v.pageData(v.Locale.T("overview.title"))}
	var err error
	p.Overview, err = v.API.Overview(v.Ctx(), v.Caller, v.Filters("from", "to"))
	if err := p.BadFilter(err); err != nil {
		return err
	}
	if p.From == "" { // the range was refused
		if p.Overview, err = v.API.Overview(v.Ctx(), v.Caller, nil); err != nil {
			return err
		}
	}
	v.choose(&p)
	if c := p.Shown; c != nil {
		c.Wide, c.Narrow = p.chart(c.CurrencyOverview, "wide", 880, 260, 12), p.chart(c.CurrencyOverview, "narrow", 340, 220, 4)
		asked := url.Values{"refund_status": {string(domain.RefundByHand)}, "currency": {string(c.Currency)}, "created_from": {p.From}, "created_to": {p.To}, "limit": {"1"}}
		v.Days(asked, "created_from", "created_to")
		byHand, err := merchant.PageOf(v.API.Payments)(v.Ctx(), v.Caller, asked)
		if err != nil {
			return err
		}
		c.ByHand = len(byHand.Data) > 0
	}
	books, err := v.API.Balance(v.Ctx(), v.Caller, nil)
	if err != nil {
		return err
	}
	for _, b := range books.Balances {
		if p.Shown != nil && b.Currency == p.Shown.Currency {
			p.Books = b
		}
	}
	if p.Alerts, err = v.API.Alerts(v.Ctx(), v.Caller); err != nil {
		return err
	}
	if p.Routes, err = v.routeRows(); err != nil {
		return err
	}
	return v.Render(p.Answer(), "overview.html", p)
}

// choose picks the currency of the address, else the first, and links the others and
// the usual ranges.
func (v *visit) choose(p *overviewPage) {
	asked := domain.Currency(v.Query("currency"))
	shown := max(0, slices.IndexFunc(p.Currencies, func(c wire.CurrencyOverview) bool { return c.Currency == asked }))
	if len(p.Currencies) > 0 {
		p.Shown = &currencyOverview{CurrencyOverview: p.Currencies[shown]}
	}
	address := func(from, to string, c domain.Currency) string {
		q := url.Values{"from": {from}, "to": {to}}
		if c != "" && len(p.Currencies) > 1 {
			q.Set("currency", string(c))
		}
		return "?" + q.Encode()
	}
	if len(p.Currencies) > 1 {
		for i, c := range p.Currencies {
			p.Tabs = append(p.Tabs, choice{address(p.From, p.To, c.Currency), string(c.Currency), i == shown})
		}
	}
	today := v.Caller.Calendar().Day(domain.InstantOf(v.config.Now()))
	p.Today, p.Custom = today.String(), true
	for _, days := range []int{7, 30, 90} {
		from := (today - merchant.Day(days) + 1).String()
		here := p.To == p.Today && p.From == from
		p.Ranges = append(p.Ranges, choice{address(from, p.Today, asked), v.Locale.Plural("overview.days", days), here})
		p.Custom = p.Custom && !here
	}
}

// routeRow are a route's attempts of the last 24 hours and of the last 30 days.
type routeRow struct {
	Route      string
	Day, Month wire.RouteAttempts
}

// Ended are the attempts that came to an end.
func (overviewPage) Ended(a wire.RouteAttempts) uint64 { return a.Paid + a.Failed }

// routeRows are the routes on which customers tried to pay lately, by name.
func (v *visit) routeRows() ([]routeRow, error) {
	day, err := v.API.Attempts(v.Ctx(), v.Caller, v.config.Now().Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	month, err := v.API.Attempts(v.Ctx(), v.Caller, v.config.Now().AddDate(0, 0, -30))
	if err != nil {
		return nil, err
	}
	rows := make([]routeRow, 0, len(month))
	for _, route := range slices.Sorted(maps.Keys(month)) {
		rows = append(rows, routeRow{route, day[route], month[route]})
	}
	return rows, nil
}
