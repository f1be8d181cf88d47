package audit

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// TestSettlements forges the lines of a report. Given those of a good one, verify finds nothing;
// given a line that the rules do not lead to, or sums that do not fit, it names that.
func TestSettlements(t *testing.T) {
	t.Parallel()
	const id = "sandbox:r"
	own := eventstore.KindInstallation
	w := newWorld(t).lives()
	paid := w.states[w.payments[0]]
	line := settlement.Line{
		Kind: settlement.KindPayment, PaymentID: paid.ID.String(), Reference: "a", Gross: domain.SumOf(paid.Amount), Net: domain.SumOf(paid.Amount),
		Currency: paid.Currency, SettledOn: "2026-11-20",
	}
	entry := func(n int, r settlement.Result, change func(*settlement.Line)) settlement.Text {
		e := settlement.Entry{Line: line, Result: r}
		if e.Number = n; change != nil {
			change(&e.Line)
		}
		return e.Text()
	}
	report := settlement.Report{Route: "sandbox", Report: "r", SHA256: domain.Digest{1}, FeesPaidBy: settlement.ByOperator}
	lines := func(all ...settlement.Text) settlement.ReportLines {
		return settlement.ReportLines{Route: "sandbox", Report: "r", FeesPaidBy: settlement.ByOperator, Lines: all}
	}
	unnamed := func(l *settlement.Line) { l.PaymentID = "" }
	type at struct {
		project string
		event   domain.Event
	}
	resolved := func(to settlement.Resolution, settles domain.Amount) settlement.LineResolved {
		return settlement.LineResolved{
			Route: "sandbox", Report: "r", Line: entry(2, settlement.UnknownReference, unnamed), To: to, Payment: line.PaymentID, Project: w.project,
			Elsewhere: true, Settles: domain.SumOf(settles), FeesPaidBy: settlement.ByOperator, Reason: "x",
		}
	}
	named := func(l *settlement.Line) { l.PaymentID, l.Reference = "", "b" } // as its late funds
	nameless := func(l *settlement.Line) { l.PaymentID, l.Reference = "", "nobody's" }
	matched := func(change func(*settlement.Line)) settlement.LineResolved {
		e := resolved(settlement.Matched, paid.Amount)
		e.Line, e.Reason = entry(2, settlement.UnknownReference, change), ""
		return e
	}
	inEuros := func(l *settlement.Line) {
		l.Reference, l.Currency, l.Gross, l.Net = "b", "EUR", domain.SumOf(1650), domain.SumOf(1650)
	}
	euros := func(to settlement.Resolution, settles domain.Amount, in domain.Currency) settlement.LineResolved {
		e := resolved(to, settles)
		e.Line, e.SettlesIn, e.Elsewhere = entry(2, settlement.CurrencyDiffers, inEuros), in, false
		return e
	}
	good := []at{{w.project, lines(entry(1, settlement.Settled, nil))}, {own, lines(entry(2, settlement.UnknownReference, unnamed))}}
	for name, c := range map[string]struct {
		lines []at
		sum   int // of lines that the report began with
		then  domain.Event
		why   string // "": nothing is found
		euros bool   // the second line is
	}{
		"good":                       {good, 2, nil, "", false},
		"resolved":                   {good, 2, resolved(settlement.ToPayment, paid.Amount), "", false},
		"resolved to another amount": {good, 2, resolved(settlement.ToPayment, 1), "settles another amount", false},
		"resolved, and a fee":        {good, 2, resolved(settlement.ToFee, 0), "members", false},
		"matched":                    {[]at{good[0], {own, lines(entry(2, settlement.UnknownReference, named))}}, 2, matched(named), "", false},
		"matched without its name":   {[]at{good[0], {own, lines(entry(2, settlement.UnknownReference, nameless))}}, 2, matched(nameless), "does not name and settle", false},
		"matched a second time": {[]at{
			{w.project, lines(entry(1, settlement.Settled, func(l *settlement.Line) { l.Reference = "b" }))}, {own, lines(entry(2, settlement.UnknownReference, named))},
		}, 2, matched(named), "does not name and settle", false},
		"settled in another currency":           {[]at{{w.project, lines(entry(1, settlement.Settled, nil), entry(2, settlement.CurrencyDiffers, inEuros))}}, 2, euros(settlement.ToPayment, paid.Amount, paid.Currency), "", true},
		"settled in another, by its own amount": {[]at{{w.project, lines(entry(1, settlement.Settled, nil), entry(2, settlement.CurrencyDiffers, inEuros))}}, 2, euros(settlement.ToPayment, 1650, ""), "settles another amount", true},
		"settled twice":                         {[]at{{w.project, lines(entry(1, settlement.Settled, nil), entry(2, settlement.Settled, nil))}}, 2, nil, "rules lead to settled_before", false},
		"another amount settled":                {[]at{{w.project, lines(entry(1, settlement.Settled, func(l *settlement.Line) { l.Gross, l.Net = domain.SumOf(1), domain.SumOf(1) }))}}, 1, nil, "rules lead to amount_differs", false},
		"in suspense though it fits":            {[]at{{w.project, lines(entry(1, settlement.AmountDiffers, nil))}}, 1, nil, "rules lead to settled", false},
		"settled for an unknown one":            {[]at{{own, lines(entry(1, settlement.Settled, func(l *settlement.Line) { l.PaymentID = w.ids.Next().String() }))}}, 1, nil, "rules lead to unknown_reference", false},
		"in the books of another":               {[]at{{own, lines(entry(1, settlement.Settled, nil))}}, 1, nil, "belongs to the books of " + w.project, false},
		"fewer lines than it began with":        {good, 3, nil, "settlement_differs", false},
		"numbers in disorder":                   {[]at{{own, lines(entry(2, settlement.UnknownReference, unnamed), entry(1, settlement.UnknownReference, unnamed))}}, 2, nil, "not above the one before", false},
		"a line that is none":                   {[]at{{own, lines("2 payment")}}, 2, nil, "is none", false},
		"others bear the fees": {[]at{{own, settlement.ReportLines{
			Route: "sandbox", Report: "r", FeesPaidBy: settlement.ByMerchant, Lines: []settlement.Text{entry(1, settlement.UnknownReference, unnamed)},
		}}}, 1, nil, "others bear its fees", false},
		"never opened": {[]at{{own, lines(entry(1, settlement.UnknownReference, unnamed))}}, 0, nil, "is not being recorded", false},
	} {
		all := w.records()
		if c.sum > 0 {
			r := report
			for i := range c.sum {
				if r.Summary = r.Summary.Add(line); c.euros && i == 0 {
					l := line
					inEuros(&l)
					r.Summary = settlement.Summary{}.Add(l)
				}
			}
			all = w.forged(all, eventstore.ReportsStream("sandbox"), settlement.ReportOpened{Report: r})
		}
		for _, of := range c.lines {
			all = w.forged(all, eventstore.BookStream(of.project, id), of.event)
		}
		if c.sum > 0 && (c.why == "" || c.then != nil || strings.HasPrefix(c.why, "settlement_")) {
			all = w.forged(all, eventstore.ReportsStream("sandbox"), settlement.ReportClosed{Route: "sandbox", Report: "r"})
		}
		if c.then != nil {
			book := own
			if e, ok := c.then.(settlement.LineResolved); ok && !e.Elsewhere {
				book = e.Project
			}
			all = w.forged(all, eventstore.BookStream(book, id), c.then)
		}
		found := w.check(all).Findings
		if c.why == "" && len(found) > 0 || c.why != "" && (len(found) == 0 || !strings.Contains(found[0].Detail, c.why)) {
			t.Errorf("%s: %+v, want %q", name, found, c.why)
		}
	}
	for name, s := range map[string]eventstore.Stream{
		"no route": {Project: own, Kind: eventstore.KindSettlement, ID: "a b"}, "a project's": {Project: w.project, Kind: eventstore.KindSettlement, ID: "sandbox"},
	} {
		if found := w.check(w.forged(w.records(), s, settlement.ReportClosed{Route: "sandbox", Report: "r"})).Findings; len(found) != 1 || found[0].Kind != BrokenStream {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestLinesOfRefundsByHand: a line of a part that the provider has returned by another hand settles it, or
// waits because it was judged before that was heard of.
func TestLinesOfRefundsByHand(t *testing.T) {
	t.Parallel()
	const id = "sandbox:r"
	own := eventstore.KindInstallation
	w := newWorld(t).lives()
	paid := w.states[w.payments[0]]
	w.on(paid.ID, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
		Reference: paid.PaidReference, RefundReference: "hand", Amount: 100, Currency: "RUB",
	}}, w.ids.Next(), nil)
	line := func(r settlement.Result, payment string, gross domain.Amount) settlement.Entry {
		return settlement.Entry{Result: r, Line: settlement.Line{
			Number: 1, Kind: settlement.KindRefund, PaymentID: payment, Reference: "hand", Gross: domain.SumOf(gross), Net: domain.SumOf(gross), Currency: "RUB", SettledOn: "2026-11-20",
		}}
	}
	resolved := func(of settlement.Entry, to settlement.Resolution, settles domain.Amount, reason string) *settlement.LineResolved {
		return &settlement.LineResolved{
			Route: "sandbox", Report: "r", Line: of.Text(), To: to, Payment: paid.ID.String(), Project: w.project, Elsewhere: of.PaymentID == "",
			Settles: domain.SumOf(settles), FeesPaidBy: settlement.ByOperator, Reason: reason,
		}
	}
	named := paid.ID.String()
	waits, unknown := line(settlement.AmountDiffers, named, -100), line(settlement.UnknownReference, "", -100)
	for name, c := range map[string]struct {
		line settlement.Entry
		then *settlement.LineResolved
		why  string // "": nothing is found
	}{
		"settled":                         {line(settlement.Settled, named, -100), nil, ""},
		"settled by another amount":       {line(settlement.Settled, named, -101), nil, "rules lead to amount_differs"},
		"before it was heard of":          {waits, nil, ""},
		"matched":                         {unknown, resolved(unknown, settlement.Matched, -100, ""), ""},
		"matched, and in its own book":    {waits, resolved(waits, settlement.Matched, -100, ""), ""},
		"resolved":                        {waits, resolved(waits, settlement.ToPayment, -100, "x"), ""},
		"resolved before it was heard of": {waits, resolved(waits, settlement.ToPayment, -paid.Amount, "x"), ""},
		"resolved to another amount":      {waits, resolved(waits, settlement.ToPayment, -101, "x"), "settles another amount"},
	} {
		book := own
		if c.line.PaymentID != "" {
			book = w.project
		}
		all := w.forged(w.records(), eventstore.ReportsStream("sandbox"), settlement.ReportOpened{Report: settlement.Report{
			Route: "sandbox", Report: "r", SHA256: domain.Digest{1}, FeesPaidBy: settlement.ByOperator, Summary: settlement.Summary{}.Add(c.line.Line),
		}})
		all = w.forged(all, eventstore.BookStream(book, id), settlement.ReportLines{
			Route: "sandbox", Report: "r", FeesPaidBy: settlement.ByOperator, Lines: []settlement.Text{c.line.Text()},
		})
		all = w.forged(all, eventstore.ReportsStream("sandbox"), settlement.ReportClosed{Route: "sandbox", Report: "r"})
		if c.then != nil {
			all = w.forged(all, eventstore.BookStream(book, id), *c.then)
		}
		found := w.check(all).Findings
		if c.why == "" && len(found) > 0 || c.why != "" && (len(found) == 0 || !strings.Contains(found[0].Detail, c.why)) {
			t.Errorf("%s: %+v, want %q", name, found, c.why)
		}
	}
}
