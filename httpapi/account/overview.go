package account

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"payledger/domain"
	"payledger/httpapi/account/chart"
	"payledger/httpapi/wire"
)

func overviewPages() []page {
	return []page{{method: "GET", path: "", serve: (*visit).showOverview}}
}

// currencyOverview is one currency's part, with its charts.
type currencyOverview struct {
	wire.CurrencyOverview
	Wide, Narrow template.HTML
}

// startOf is the first moment of a day.
func startOf(d wire.Day) domain.Instant {
	t, _ := time.Parse(time.DateOnly, d.Date) // the API writes it so
	return domain.InstantOf(t)
}

// DayOf names a day.
func (p overviewPage) DayOf(d wire.Day) string { return p.Day(startOf(d)) }

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
	case wire.AlertLateFunds, wire.AlertSecret, wire.AlertUnrouted:
		return "warn"
	}
	return "bad"
}

// overviewPage is what overview.html is filled with.
type overviewPage struct {
	pageData
	wire.Overview
	Currencies []currencyOverview
	Alerts     []wire.Alert
	Routes     []routeRow
	Books      wire.Books
	Ranges     []rangeChoice
	Today      string
}

// rangeChoice leads to the last so many days.
type rangeChoice struct {
	Days    int
	Address string
	Here    bool
}

func (v *visit) showOverview() error {
	p := overviewPage{pageData: v.pageData(v.Locale.T("overview.title"))}
	today := v.Now().UTC()
	p.Today = today.Format(time.DateOnly)
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
	for _, days := range []int{7, 30, 90} {
		from := today.AddDate(0, 0, 1-days).Format(time.DateOnly)
		p.Ranges = append(p.Ranges, rangeChoice{
			Days: days, Here: p.To == p.Today && p.From == from,
			Address: "?" + url.Values{"from": {from}, "to": {p.Today}}.Encode(),
		})
	}
	if err := v.drawCharts(&p); err != nil {
		return err
	}
	if p.Books, err = v.API.Balance(v.Ctx(), v.Caller, nil); err != nil {
		return err
	}
	if p.Alerts, err = v.API.Alerts(v.Ctx(), v.Caller); err != nil {
		return err
	}
	if p.Routes, err = v.routeRows(); err != nil {
		return err
	}
	return v.Render(http.StatusOK, "overview.html", p)
}

// The sizes of a chart, and how many days it names.
const (
	wideChart, wideHeight, wideLabels       = 880, 260, 12
	narrowChart, narrowHeight, narrowLabels = 340, 220, 4
)

func (v *visit) drawCharts(p *overviewPage) error {
	p.Currencies = make([]currencyOverview, len(p.Overview.Currencies))
	for i := range p.Currencies {
		c := &p.Currencies[i]
		c.CurrencyOverview = p.Overview.Currencies[i]
		bars := chart.Bars{
			Currency: c.Currency, Title: p.T("overview.per_day"),
			About: p.T("overview.chart", "Paid", p.Sum(c.Paid.Sum, c.Currency), "Refunded", p.Sum(c.Refunded.Sum, c.Currency)),
		}
		for _, d := range c.Days {
			bars.Days = append(bars.Days, startOf(d))
			bars.Paid = append(bars.Paid, amountOf(d.Paid.Sum))
			bars.Back = append(bars.Back, amountOf(d.Refunded.Sum))
		}
		var err error
		if c.Wide, err = bars.SVG(v.Locale, wideChart, wideHeight, wideLabels, "wide-"+string(c.Currency)); err != nil {
			return err
		}
		if c.Narrow, err = bars.SVG(v.Locale, narrowChart, narrowHeight, narrowLabels, "narrow-"+string(c.Currency)); err != nil {
			return err
		}
	}
	return nil
}

// amountOf is a sum for a picture, which need not tell beyond 92 quadrillions.
func amountOf(s domain.Sum) domain.Amount {
	hi, lo := s.Bits()
	if hi != 0 || lo > 1<<62 {
		return 1 << 62
	}
	return domain.Amount(lo)
}
