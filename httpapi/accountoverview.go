package httpapi

import (
	"context"
	"net/http"
	"time"

	"payledger/domain"
	"payledger/projections"
)

// overviewView is what happened to payments on the days of a range, and what
// has become by now of those that were created on them.
type overviewView struct {
	TimeZone   string             `json:"time_zone"` // of the days
	From       string             `json:"from"`
	To         string             `json:"to"`
	Payments   uint64             `json:"payments"`   // the project has, of all times
	Currencies []currencyOverview `json:"currencies"` // of which something happened, else the project's first
}

// currencyOverview is one currency's part. Created, Paid and Refunded are the
// sums of Days.
type currencyOverview struct {
	Currency domain.Currency `json:"currency"`
	Days     []dayView       `json:"days"` // every day of the range
	Created  tallyView       `json:"created"`
	Paid     tallyView       `json:"paid"`
	Refunded tallyView       `json:"refunded"`
	Outcomes []outcomeView   `json:"outcomes"` // of the payments created in the range; every status, in order of a payment's life
}

type dayView struct {
	Date     string    `json:"date"`
	Created  tallyView `json:"created"`
	Paid     tallyView `json:"paid"`     // on the day, whenever they were created
	Refunded tallyView `json:"refunded"` // refunds that succeeded on the day, likewise
}

type tallyView struct {
	Count uint64     `json:"count"`
	Sum   domain.Sum `json:"sum"`
}

type outcomeView struct {
	Status domain.PaymentStatus `json:"status"`
	tallyView
}

// maxOverview is the longest range, and usualOverview the one when the request
// does not say, in days.
const (
	maxOverview   = 366
	usualOverview = 30
)

// accountOverview answers GET /account-api/overview.
func (a *merchants) accountOverview(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "from", "to")
	if err != nil {
		return err
	}
	to, err := dayOf(q, "to", projections.DayOf(domain.InstantOf(a.cfg.Now())))
	if err != nil {
		return err
	}
	from, err := dayOf(q, "from", to-min(to, usualOverview-1))
	switch {
	case err != nil:
		return err
	case from > to:
		return badParameter("from", "Send a day that is not after to.")
	case to-from >= maxOverview:
		return badParameter("from", "Send a range of at most 366 days.")
	}
	rows, err := a.cfg.Views.Days(x.ctx(), x.project.ID, from, to)
	if err != nil {
		return err
	}
	all, err := a.cfg.Views.Totals(x.ctx(), x.ctx(), x.project.ID, projections.PaymentQuery{}, 0)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, overviewView{
		TimeZone: "UTC", From: dateOf(from), To: dateOf(to), Payments: all.Count(),
		Currencies: overviewOf(x.project.Settings.Currencies, rows, from, to),
	})
}

func overviewOf(usual []domain.Currency, rows []projections.DayRow, from, to projections.Day) (all []currencyOverview) {
	at := make(map[domain.Currency]int)
	of := func(c domain.Currency) *currencyOverview {
		i, ok := at[c]
		if !ok {
			i = len(all)
			at[c] = i
			one := currencyOverview{Currency: c}
			for d := from; d <= to; d++ {
				one.Days = append(one.Days, dayView{Date: dateOf(d)})
			}
			for _, s := range domain.PaymentStatuses() {
				one.Outcomes = append(one.Outcomes, outcomeView{Status: s})
			}
			all = append(all, one)
		}
		return &all[i]
	}
	for _, r := range rows {
		one := of(r.Currency)
		day := &one.Days[r.Day-from]
		for _, part := range []struct {
			is       projections.Tally
			day, sum *tallyView
		}{
			{r.Created, &day.Created, &one.Created},
			{r.Paid, &day.Paid, &one.Paid},
			{r.Refunded, &day.Refunded, &one.Refunded},
		} {
			*part.day = tallyView(part.is)
			*part.sum = tallyView(part.is.Plus(projections.Tally(*part.sum)))
		}
		for i, t := range r.ByStatus {
			sum := &one.Outcomes[i].tallyView
			*sum = tallyView(t.Plus(projections.Tally(*sum)))
		}
	}
	if len(all) == 0 && len(usual) > 0 {
		of(usual[0])
	}
	return all
}

func dateOf(d projections.Day) string { return d.Start().Time().Format(time.DateOnly) }

// day reads a parameter that takes a day.
func dayOf(q query, name string, absent projections.Day) (projections.Day, error) {
	if !q.has(name) {
		return absent, nil
	}
	t, err := time.Parse(time.DateOnly, q.value(name))
	if err != nil || t.Unix() < 0 {
		return 0, badParameter(name, "Send a day such as 2026-11-20.")
	}
	return projections.DayOf(domain.InstantOf(t)), nil
}

// totalsView are the totals of a filtered list of payments.
type totalsView struct {
	Complete bool        `json:"complete"` // false: at least these, there may be more
	Count    uint64      `json:"count"`    // of the payments that were added up
	Data     []totalView `json:"data"`     // by currency and status
}

type totalView struct {
	Currency domain.Currency      `json:"currency"`
	Status   domain.PaymentStatus `json:"status"`
	tallyView
}

// The bounds of adding up payments one by one: nobody waits for longer, and a
// total that ends at them says so.
const (
	mostTotalled   = 50_000
	totalledWithin = 5 * time.Second
)

// accountTotals answers GET /account-api/totals.
func (a *merchants) accountTotals(x *exchange) error {
	filters, err := parseQuery(x.r.URL.RawQuery, paymentFilters()...)
	if err != nil {
		return err
	}
	q, err := paymentQuery(listRequest{filters: filters})
	if err != nil {
		return err
	}
	until, cancel := context.WithTimeout(x.ctx(), totalledWithin)
	defer cancel()
	totals, err := a.cfg.Views.Totals(x.ctx(), until, x.project.ID, q, mostTotalled)
	if err != nil {
		return err
	}
	v := totalsView{Complete: totals.Complete, Count: totals.Count(), Data: []totalView{}}
	for _, t := range totals.Rows {
		v.Data = append(v.Data, totalView{t.Currency, t.Status, tallyView(t.Tally)})
	}
	return x.reply(http.StatusOK, v)
}
