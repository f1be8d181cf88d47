package account

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"payledger/domain"
)

func (h *handler) overviewPages() []page {
	return []page{{method: "GET", path: "", serve: (*visit).showOverview}}
}

// overview is what happened on the days of a range.
type overview struct {
	From       string             `json:"from"`
	To         string             `json:"to"`
	Payments   int64              `json:"payments"` // of all times
	Currencies []currencyOverview `json:"currencies"`
}

type currencyOverview struct {
	Currency domain.Currency `json:"currency"`
	Days     []dayOverview   `json:"days"`
	Created  tally           `json:"created"`
	Paid     tally           `json:"paid"`
	Refunded tally           `json:"refunded"`
	Outcomes []outcome       `json:"outcomes"`

	Wide, Narrow template.HTML `json:"-"` // the chart
}

type tally struct {
	Count int        `json:"count"`
	Sum   domain.Sum `json:"sum"`
}

type dayOverview struct {
	Date     string `json:"date"`
	Paid     tally  `json:"paid"`
	Refunded tally  `json:"refunded"`
}

// Start is the first moment of the day.
func (d dayOverview) Start() domain.Instant {
	t, _ := time.Parse(time.DateOnly, d.Date) // the API writes it so
	return domain.InstantOf(t)
}

type outcome struct {
	Status domain.PaymentStatus `json:"status"`
	Count  int64                `json:"count"`
	Sum    domain.Sum           `json:"sum"`
}

// Finals are the outcomes of payments that have one.
func (c currencyOverview) Finals() (all []outcome) {
	for _, o := range c.Outcomes {
		if o.Status.Final() {
			all = append(all, o)
		}
	}
	return all
}

// Final is how many payments have an outcome.
func (c currencyOverview) Final() (n int64) {
	for _, o := range c.Finals() {
		n += o.Count
	}
	return n
}

// CreatedCount is how many payments were created.
func (c currencyOverview) CreatedCount() int64 { return int64(c.Created.Count) }

// Converted is how many of them were paid.
func (c currencyOverview) Converted() int64 {
	for _, o := range c.Outcomes {
		if o.Status == domain.Paid {
			return o.Count
		}
	}
	return 0
}

// Busy are the days on which something was paid or refunded, the newest first.
func (c currencyOverview) Busy() (all []dayOverview) {
	for _, d := range slices.Backward(c.Days) {
		if d.Paid.Count > 0 || d.Refunded.Count > 0 {
			all = append(all, d)
		}
	}
	return all
}

// alert is something the merchant should look at.
type alert struct {
	Kind       string                `json:"kind"`
	EndpointID string                `json:"endpoint_id"`
	URL        string                `json:"url"`
	Reason     domain.DisabledReason `json:"reason"`
	Since      *domain.Instant       `json:"since"`
	Until      *domain.Instant       `json:"until"`
	Count      int                   `json:"count"`
	PaymentID  *domain.ID            `json:"payment_id"`
	Currency   domain.Currency       `json:"currency"`
	Amount     *domain.Sum           `json:"amount"`
}

// Tone is how urgent it looks.
func (a alert) Tone() string {
	switch a.Kind {
	case "late_funds", "secret_overlap_ends", "payments_not_routed":
		return "warn"
	}
	return "bad"
}

// overviewPage is what overview.html is filled with.
type overviewPage struct {
	desk
	overview
	Alerts []alert
	Books  books
	Ranges []rangeChoice
	Today  string
}

// rangeChoice leads to the last so many days.
type rangeChoice struct {
	Days    int
	Address string
	Here    bool
}

func (v *visit) showOverview() error {
	p := overviewPage{desk: v.desk(v.locale.T("overview.title"))}
	today := v.Now().UTC()
	p.Today = today.Format(time.DateOnly)
	var err error
	p.overview, err = get[overview](v, "/account-api/overview", v.filters("from", "to"))
	if err := p.badFilter(err); err != nil {
		return err
	}
	if p.From == "" { // the range was refused
		if p.overview, err = get[overview](v, "/account-api/overview", nil); err != nil {
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
	if p.Books, err = v.books(); err != nil {
		return err
	}
	alerts, err := get[listOf[alert]](v, "/account-api/alerts", nil)
	if err != nil {
		return err
	}
	p.Alerts = alerts.Data
	return v.render(http.StatusOK, "overview.html", p)
}

// The sizes of a chart, and how many days it names.
const (
	wideChart, wideHeight, wideLabels       = 880, 260, 12
	narrowChart, narrowHeight, narrowLabels = 340, 220, 4
)

func (v *visit) drawCharts(p *overviewPage) error {
	for i := range p.Currencies {
		c := &p.Currencies[i]
		chart := barsChart{
			currency: c.Currency, title: p.T("overview.per_day"),
			about: p.T("overview.chart", "Paid", p.Sum(c.Paid.Sum, c.Currency), "Refunded", p.Sum(c.Refunded.Sum, c.Currency)),
		}
		for _, d := range c.Days {
			chart.days = append(chart.days, d.Start())
			chart.paid = append(chart.paid, amountOf(d.Paid.Sum))
			chart.back = append(chart.back, amountOf(d.Refunded.Sum))
		}
		var err error
		if c.Wide, err = chart.svg(v.locale, wideChart, wideHeight, wideLabels, "wide-"+string(c.Currency)); err != nil {
			return err
		}
		if c.Narrow, err = chart.svg(v.locale, narrowChart, narrowHeight, narrowLabels, "narrow-"+string(c.Currency)); err != nil {
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
