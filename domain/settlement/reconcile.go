package settlement

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"payledger/domain"
)

// What of a difference is not a Result.
const (
	NotReported      = "not_reported"      // paid, refunded or lost here, and in no report for some days
	NotPaidHere      = "not_paid_here"     // a report has more for the payment than was paid, or than was refunded or lost, here
	ReportIncomplete = "report_incomplete" // not all lines of a report are recorded

	NotArrived        = "not_arrived"        // a report says that it was paid out, and it has not arrived for some days
	ArrivedUnreported = "arrived_unreported" // more has arrived than a report says, or it is below zero
)

// Difference is what is open between the outcomes of payments and the reports of providers.
type Difference struct {
	What      string          `json:"what"`
	Route     string          `json:"route"`
	ProjectID string          `json:"project_id,omitzero"`
	PaymentID string          `json:"payment_id,omitzero"`
	Line      string          `json:"line,omitzero"` // of a report, or the report
	Reference string          `json:"reference,omitzero"`
	Amount    domain.Sum      `json:"amount"` // what the provider owes by it, negative: what it is owed
	Currency  domain.Currency `json:"currency,omitzero"`
	Since     domain.Instant  `json:"since"`
	Days      int             `json:"days"` // its age

	before domain.Sum // of what no report is to have, as Open.since says
	back   domain.Sum // of what goes back: negative what was refunded or lost here, positive what a report has of it
}

// split parts the amount into what reports are to have and what they need not. Of the latter they may
// have any part.
func (d Difference) split() (expected, not domain.Sum) {
	zero := domain.Sum{}
	switch {
	case d.before.Sign()*d.Amount.Sign() <= 0:
		not = zero
	case d.before.Sign()*d.before.Compare(d.Amount) < 0:
		not = d.before
	default:
		not = d.Amount
	}
	return d.Amount.Add(not.Neg()), not
}

// Remainder is what differences in a currency add up to.
type Remainder struct {
	Currency domain.Currency `json:"currency"`
	Count    int             `json:"count"`
	Amount   domain.Sum      `json:"amount"`
}

// AddRemainder returns the remainders, by currency in alphabetical order, with an amount more.
// Without a currency there is no amount to add: of a report that is not whole.
func AddRemainder(all []Remainder, c domain.Currency, amount domain.Sum) []Remainder {
	if c == "" {
		return all
	}
	i, known := slices.BinarySearchFunc(all, c, func(r Remainder, c domain.Currency) int { return cmp.Compare(r.Currency, c) })
	if !known {
		all = slices.Insert(all, i, Remainder{Currency: c})
	}
	all[i].Count++
	all[i].Amount = all[i].Amount.Add(amount)
	return all
}

// Open is what is open after events of the log: a fold. A payment's receivable is an item that is
// closed when its sum is zero, whatever came first.
type Open struct {
	matched map[string]int // lines that settled a payment, by route
	items   map[itemKey]Difference
	held    map[itemKey]domain.Sum // by open disputes: the provider may have taken it, or not yet
	waiting map[string]Difference  // lines in suspense, and reports that are being recorded, by their names
	transit map[itemKey]Difference // what reports say was paid out and has not arrived, by the ids of the reports
	routes  []string               // whose payments are looked at; none: all

	since map[string]domain.Instant // from when on reports are to have the outcomes of a route
}

type itemKey struct {
	of       string // the payment's id, or the report's
	currency domain.Currency
}

// NewOpen is the state before the first event. Outcomes of a route before its time in since need not be
// in any report. Of the routes only the payments are looked at; without any of all.
func NewOpen(since map[string]domain.Instant, routes ...string) *Open {
	return &Open{
		matched: make(map[string]int), items: make(map[itemKey]Difference), held: make(map[itemKey]domain.Sum), waiting: make(map[string]Difference), transit: make(map[itemKey]Difference),
		routes: routes, since: since,
	}
}

// Fold applies an event of a stream of the project. payment is the id of the stream if it is that
// of a payment.
func (o *Open) Fold(project, payment string, at domain.Instant, event domain.Event) {
	switch e := event.(type) {
	case domain.PaymentEvent:
		for _, p := range domain.Postings(e) {
			key := itemKey{payment, p.Currency}
			if route := p.Account.Route(); route != "" {
				before := domain.Sum{}
				if at < o.since[route] {
					before = p.Amount
				}
				o.move(project, route, key, p.Amount, false, before, at)
			} else if p.Account == domain.DisputesHeld {
				if o.held[key] = o.held[key].Add(p.Amount.Neg()); o.held[key].Sign() == 0 {
					delete(o.held, key)
				}
			}
		}
	case ReportOpened:
		id := ID(e.Report.Route, e.Report.Report)
		o.waiting[id] = Difference{What: ReportIncomplete, Route: e.Report.Route, Line: id, Since: at}
		for _, t := range e.Report.Summary.Totals {
			move(o.transit, itemKey{id, t.Currency}, Difference{Route: e.Report.Route, Line: id, Since: at}, t.Net)
		}
	case PayoutArrived:
		id := ID(e.Route, e.Report)
		move(o.transit, itemKey{id, e.Currency}, Difference{Route: e.Route, Line: id, Since: at}, domain.SumOf(-e.Amount))
	case PayoutUndone:
		if e.Was.Route != "" {
			id := ID(e.Was.Route, e.Was.Report)
			move(o.transit, itemKey{id, e.Was.Currency}, Difference{Route: e.Was.Route, Line: id, Since: at}, domain.SumOf(e.Was.Amount))
		}
	case ReportClosed:
		delete(o.waiting, ID(e.Route, e.Report))
	case ReportLines:
		for _, t := range e.Lines {
			l, err := t.Entry()
			switch {
			case err != nil:
			case l.Result == Settled:
				o.matched[e.Route]++
				o.move(project, e.Route, itemKey{l.PaymentID, l.Currency}, l.Gross, true, domain.Sum{}, at)
			case l.Result.Waits():
				name := LineID(ID(e.Route, e.Report), l.Number)
				d := Difference{
					What: string(l.Result), Route: e.Route, Line: name, PaymentID: l.PaymentID, Reference: l.Reference, Amount: l.Net.Neg(), Currency: l.Currency, Since: at,
				}
				if l.Result.OfPayment() {
					d.ProjectID = project
				}
				o.waiting[name] = d
			}
		}
	case LineResolved:
		l, err := e.Line.Entry()
		if err != nil {
			return
		}
		delete(o.waiting, LineID(ID(e.Route, e.Report), l.Number))
		if e.To.Settles() {
			o.matched[e.Route]++
			o.move(e.Project, e.Route, itemKey{e.Payment, cmp.Or(e.SettlesIn, l.Currency)}, e.Settles, true, domain.Sum{}, at)
		}
	}
}

// move adds an outcome to a payment's item, or takes what a report has from it, and notes what of it
// no report is to have.
func (o *Open) move(project, route string, key itemKey, amount domain.Sum, reported bool, before domain.Sum, at domain.Instant) {
	if len(o.routes) > 0 && !slices.Contains(o.routes, route) {
		return
	}
	goesBack := amount.Sign() < 0
	if reported {
		amount = amount.Neg()
	}
	d := Difference{Route: route, ProjectID: project, PaymentID: key.of, Since: at, before: before}
	if goesBack {
		d.back = amount
	}
	move(o.items, key, d, amount)
}

// move changes the sum of an item, which begins as it is given where nothing is open.
func move(items map[itemKey]Difference, key itemKey, begin Difference, amount domain.Sum) {
	d := items[key]
	begin.Currency, begin.Amount = key.currency, d.Amount.Add(amount)
	begin.before, begin.back = d.before.Add(begin.before), d.back.Add(begin.back)
	if open, _ := d.split(); open.Sign() != 0 {
		begin.Since = d.Since
	}
	if begin.Amount.Sign() == 0 && begin.before.Sign() == 0 && begin.back.Sign() == 0 {
		delete(items, key)
		return
	}
	items[key] = begin
}

// Differences are what is open at an instant, of one route or, with "", of all, the oldest first.
// What is owed for less than some days is not: the next report will have it.
func (o *Open) Differences(now domain.Instant, days int, route string) []Difference {
	var all []Difference
	o.each(now, days, func(d Difference) {
		if route == "" || d.Route == route {
			d.Days = max(0, int(time.Duration(now-d.Since)*time.Millisecond/(24*time.Hour)))
			all = append(all, d)
		}
	})
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.PaymentID, b.PaymentID), strings.Compare(a.Line, b.Line), cmp.Compare(a.Currency, b.Currency))
	})
	return all
}

// Matched is how many lines have settled a payment, of one route or, with "", of all.
func (o *Open) Matched(route string) (lines int) {
	for of, n := range o.matched {
		if route == "" || of == route {
			lines += n
		}
	}
	return lines
}

// NotExpected is what outcomes that no report is to have add up to, of one route or, with "", of all.
func (o *Open) NotExpected(route string) (all []Remainder) {
	for key, d := range o.items {
		if _, not := d.split(); not.Sign() != 0 && (route == "" || d.Route == route) {
			all = AddRemainder(all, key.currency, not)
		}
	}
	return all
}

// Oldest is since when the oldest of the Differences of all routes is open; now without any.
func (o *Open) Oldest(now domain.Instant, days int) domain.Instant {
	oldest := now
	o.each(now, days, func(d Difference) { oldest = min(oldest, d.Since) })
	return oldest
}

func (o *Open) each(now domain.Instant, days int, fn func(Difference)) {
	for _, d := range o.waiting {
		fn(d)
	}
	early := func(d Difference) bool { return now-d.Since < domain.Instant(days)*24*60*60*1000 }
	// What is too much for one report may be for another: as far as the oldest of a route add up to
	// zero, none of them is open.
	sums, open := make(map[itemKey]domain.Sum), make(map[itemKey][]Difference) // by route
	for _, key := range slices.SortedFunc(maps.Keys(o.transit), func(a, b itemKey) int {
		return cmp.Or(cmp.Compare(o.transit[a].Since, o.transit[b].Since), strings.Compare(a.of, b.of))
	}) {
		d := o.transit[key]
		if d.What = ArrivedUnreported; d.Amount.Sign() > 0 {
			d.What = NotArrived
		}
		of := itemKey{d.Route, key.currency}
		open[of] = append(open[of], d)
		if sums[of] = sums[of].Add(d.Amount); sums[of].Sign() == 0 {
			delete(open, of)
		}
	}
	for _, all := range open {
		for _, d := range all {
			if !early(d) {
				fn(d)
			}
		}
	}
	for key, d := range o.items {
		comes := d.Amount.Add(d.back.Neg())
		d.Amount, _ = d.split()
		d.What = NotReported
		if d.Amount.Sign() > 0 && d.back.Sign() > 0 || d.Amount.Sign() < 0 && comes.Sign() < 0 {
			d.What = NotPaidHere
		}
		if d.Amount.Sign() != 0 && d.Amount != o.held[key] && (d.What != NotReported || !early(d)) {
			fn(d)
		}
	}
}
