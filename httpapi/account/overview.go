package account

import (
	"html/template"
	"net/url"
	"slices"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// currencyOverview is one currency's part, with its charts.
type currencyOverview struct {
	wire.CurrencyOverview
	Wide, Narrow template.HTML
}

// Net is what was paid less what was refunded and lost in disputes.
func (c currencyOverview) Net() domain.Sum {
	return c.Paid.Sum.Add(c.Refunded.Sum.Neg()).Add(c.Lost.Sum.Neg())
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
	for _, o := range c.Outcomes {
		if o.Status == domain.Paid {
			return o.Count
		}
	}
	return 0
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
	case wire.AlertDisputed, wire.AlertLateFunds, wire.AlertSecret, wire.AlertUnrouted:
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
	if err := v.drawCharts(p.Shown); err != nil {
		return err
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
	shown, asked := 0, domain.Currency(v.Query("currency"))
	for i, c := range p.Currencies {
		if c.Currency == asked {
			shown = i
		}
	}
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
	today := v.Caller.Calendar().Day(domain.InstantOf(v.Now()))
	p.Today, p.Custom = today.String(), true
	for _, days := range []int{7, 30, 90} {
		from := (today - merchant.Day(days) + 1).String()
		here := p.To == p.Today && p.From == from
		p.Ranges = append(p.Ranges, choice{address(from, p.Today, asked), v.Locale.Plural("overview.days", days), here})
		p.Custom = p.Custom && !here
	}
}

// The sizes of a chart, and how many days it names.
const (
	wideChart, wideHeight, wideLabels       = 880, 260, 12
	narrowChart, narrowHeight, narrowLabels = 340, 220, 4
)

func (v *visit) drawCharts(c *currencyOverview) error {
	if c == nil {
		return nil
	}
	words := v.pageData("")
	chart := dailyChart{
		Currency: c.Currency, Title: v.Locale.T("overview.per_day"),
		About: v.Locale.T("overview.chart", "Paid", words.Sum(c.Paid.Sum, c.Currency), "Refunded", words.Sum(c.Refunded.Sum, c.Currency)),
	}
	for _, d := range c.Days {
		day, _ := merchant.ParseDay(d.Date) // the API writes it so
		chart.Days = append(chart.Days, v.Caller.Calendar().Start(day))
		chart.Paid = append(chart.Paid, amountOf(d.Paid.Sum))
		chart.Back = append(chart.Back, amountOf(d.Refunded.Sum))
	}
	var err error
	if c.Wide, err = chart.svg(v.Locale, wideChart, wideHeight, wideLabels, "wide"); err != nil {
		return err
	}
	c.Narrow, err = chart.svg(v.Locale, narrowChart, narrowHeight, narrowLabels, "narrow")
	return err
}

// amountOf is a sum for a chart, capped at 92 quadrillions.
func amountOf(s domain.Sum) domain.Amount {
	hi, lo := s.Bits()
	if hi != 0 || lo > 1<<62 {
		return 1 << 62
	}
	return domain.Amount(lo)
}
