package settlement

import (
	"cmp"
	"slices"

	"payledger/domain"
)

// Wire names of events, part of the interface to auditors.
const (
	TypeReportOpened = "report.opened"
	TypeReportClosed = "report.closed"
	TypeReportLines  = "report.lines"
	TypeLineResolved = "report.line_resolved"
)

// ReportOpened records that lines of a report follow.
type ReportOpened struct {
	Report Report `json:"report"`
}

// Type implements domain.Event.
func (ReportOpened) Type() string { return TypeReportOpened }

// ReportClosed records that all lines of the report are recorded.
type ReportClosed struct {
	Route  string `json:"route"`
	Report string `json:"report"`
}

// Type implements domain.Event.
func (ReportClosed) Type() string { return TypeReportClosed }

// ReportLines records lines of a report that are of one project, or of none.
type ReportLines struct {
	Route      string `json:"route"`
	Report     string `json:"report"`
	FeesPaidBy Bearer `json:"fees_paid_by"`
	Lines      []Text `json:"lines"`
}

// Type implements domain.Event.
func (ReportLines) Type() string { return TypeReportLines }

// Postings are those of all lines together:
//
//	settled       settlement transit and provider fees   to  acquirer receivable
//	charged       provider fees                          to  settlement transit
//	any other     settlement transit                     to  settlement suspense
//
// of a negative amount the other way round. Where the merchant bears the fees, merchant payable is
// in the place of provider fees for those of its payments.
func (e ReportLines) Postings() []domain.Posting {
	var all postings
	for _, t := range e.Lines {
		l, err := t.Entry()
		if err != nil {
			continue // no command records it, and verify names it
		}
		all.add("", domain.SettlementTransit(e.Route), l.Currency, l.Net)
		switch l.Result {
		case Settled:
			all.settle("", e.Route, e.FeesPaidBy, l, l.Gross, l.Currency)
		case Charged:
			all.add("", domain.ProviderFees, l.Currency, l.Net.Neg())
		default:
			all.add("", domain.SettlementSuspense, l.Currency, l.Net.Neg())
		}
	}
	return all.inOrder()
}

// LineResolved records that a line was taken out of suspense, by the operator or, where it is
// Matched, by itself. It is in the stream of the book that has the line.
type LineResolved struct {
	Route      string          `json:"route"`
	Report     string          `json:"report"`
	Line       Text            `json:"line"` // as it was recorded
	To         Resolution      `json:"to"`
	Payment    string          `json:"payment,omitempty"` // with ToPayment and Matched, as are these:
	Project    string          `json:"project,omitempty"`
	Elsewhere  bool            `json:"elsewhere,omitempty"`  // the payment's project is not the one of the book
	Settles    domain.Sum      `json:"settles,omitzero"`     // of what is owed for the payment; the rest of the gross amount is lost or won
	SettlesIn  domain.Currency `json:"settles_in,omitempty"` // the currency of Settles; "": the line's
	FeesPaidBy Bearer          `json:"fees_paid_by,omitempty"`
	Reason     string          `json:"reason"` // the operator's words
}

// Type implements domain.Event.
func (LineResolved) Type() string { return TypeLineResolved }

// Postings move the amount from suspense to the payment's receivable, with what is more or less than
// that on losses, to provider fees or to losses. What is settled in another currency than the line's is
// lost in that currency, and the line's amount is won in its own. Between the books of two projects the
// amount passes through settlement transit, so that those of each add up to zero.
func (e LineResolved) Postings() []domain.Posting {
	l, err := e.Line.Entry()
	if err != nil {
		return nil
	}
	var all postings
	all.add("", domain.SettlementSuspense, l.Currency, l.Net)
	switch e.To {
	case ToPayment, Matched:
		project, settlesIn := "", cmp.Or(e.SettlesIn, l.Currency)
		if e.Elsewhere {
			project = e.Project
			all.add("", domain.SettlementTransit(e.Route), l.Currency, l.Net.Neg())
			all.add(project, domain.SettlementTransit(e.Route), l.Currency, l.Net)
		}
		all.add(project, domain.Losses, l.Currency, l.Gross.Neg())
		all.add(project, domain.Losses, settlesIn, e.Settles)
		all.settle(project, e.Route, e.FeesPaidBy, l, e.Settles, settlesIn)
	case ToFee:
		all.add("", domain.ProviderFees, l.Currency, l.Net.Neg())
	case WriteOff:
		all.add("", domain.Losses, l.Currency, l.Net.Neg())
	}
	return all.inOrder()
}

// postings are collected by account.
type postings []domain.Posting

func (p *postings) add(project string, account domain.Account, currency domain.Currency, amount domain.Sum) {
	for i := range *p {
		if of := &(*p)[i]; of.Project == project && of.Account == account && of.Currency == currency {
			of.Amount = of.Amount.Add(amount)
			return
		}
	}
	*p = append(*p, domain.Posting{Project: project, Account: account, Currency: currency, Amount: amount})
}

// settle books what a line settles of what is owed for a payment, and its fee.
func (p *postings) settle(project, route string, by Bearer, l Entry, settles domain.Sum, in domain.Currency) {
	fees := domain.ProviderFees
	if by == ByMerchant {
		fees = domain.MerchantPayable
	}
	p.add(project, fees, l.Currency, l.Fee)
	p.add(project, domain.AcquirerReceivable(route), in, settles.Neg())
}

// inOrder are the postings that move anything, debits first.
func (p postings) inOrder() []domain.Posting {
	moved := slices.DeleteFunc(p, func(of domain.Posting) bool { return of.Amount.Sign() == 0 })
	slices.SortStableFunc(moved, func(a, b domain.Posting) int { return cmp.Compare(b.Amount.Sign(), a.Amount.Sign()) })
	return moved
}

// Events is the registry of events of settlement reports and payouts. A version changes as
// domain.Events says: LineResolved, version 2, has the currency of what is settled.
func Events() []domain.EventType {
	line := Line{
		Number: 17, Kind: KindPayment, PaymentID: "01M1R78FJBM8T4R7B5N0C1D2E3", RefundID: "01M1R78FJBM8T4R7B5N0C1D2E4", Reference: "prv-77",
		Gross: domain.SumOf(150000), Fee: domain.SumOf(4500), Net: domain.SumOf(145500), Currency: domain.DefaultCurrency, SettledOn: "2026-11-20",
	}
	return []domain.EventType{
		domain.NewEventType(1, ReportOpened{Report{
			Route: "cards", Report: "2026-11-20", SHA256: domain.Digest{7, 8, 9}, FeesPaidBy: ByOperator, Summary: Summary{}.Add(line),
		}}),
		domain.NewEventType(1, ReportClosed{Route: "cards", Report: "2026-11-20"}),
		domain.NewEventType(1, ReportLines{
			Route: "cards", Report: "2026-11-20", FeesPaidBy: ByMerchant,
			Lines: []Text{Entry{line, Settled}.Text(), Entry{Line{
				Number: 18, Kind: KindRefund, Reference: "prv-r 78", Gross: domain.SumOf(-150000), Net: domain.SumOf(-150000), Currency: "RUB", SettledOn: "2026-11-21",
			}, UnknownReference}.Text()},
		}),
		domain.NewEventType(2, LineResolved{
			Route: "cards", Report: "2026-11-20", Line: Entry{line, AmountDiffers}.Text(), To: ToPayment, Payment: line.PaymentID,
			Project: "prj_01M7W78FJBM8T4R7B5N0C1D2E3", Elsewhere: true, Settles: domain.SumOf(1650), SettlesIn: "EUR", FeesPaidBy: ByOperator, Reason: "Сверено с кабинетом",
		}),
		domain.NewEventType(1, PayoutArrived{Route: "cards", Report: "2026-11-20", Amount: 145500, Currency: domain.DefaultCurrency, Reference: "pp-1042"}),
		domain.NewEventType(1, PayoutToMerchant{Amount: 100000, Currency: domain.DefaultCurrency, Reference: "pp-1043", AsOf: 88417}),
		domain.NewEventType(1, PayoutUndone{
			Number: 2, Was: Payout{Route: "cards", Report: "2026-11-20", Amount: 145500, Currency: domain.DefaultCurrency, Reference: "pp-1042"}, Reason: "Сумма другого реестра",
		}),
	}
}
