package settlement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"payledger/domain"
)

// Result is what a line was found to be.
type Result string

// The results. A line of another result than Settled and Charged waits in settlement suspense.
const (
	Settled          Result = "settled" // it clears what the provider owed for a payment
	Charged          Result = "charged" // a fee of no payment
	UnknownReference Result = "unknown_reference"
	AmountDiffers    Result = "amount_differs"
	CurrencyDiffers  Result = "currency_differs"
	SettledBefore    Result = "settled_before"
	OtherKind        Result = "other" // the provider's report says no more
)

// Results lists every result.
func Results() []Result {
	return []Result{Settled, Charged, UnknownReference, AmountDiffers, CurrencyDiffers, SettledBefore, OtherKind}
}

// Waits reports whether a line of this result is in suspense until the operator resolves it.
func (r Result) Waits() bool { return r != Settled && r != Charged }

// OfPayment reports whether a line of this result is in the books of a payment's project.
func (r Result) OfPayment() bool {
	return r == Settled || r == AmountDiffers || r == CurrencyDiffers || r == SettledBefore
}

// MaxSettled is how many lines of one kind settle one payment: one, and those of money
// that came for it more than once.
const MaxSettled = 20

// Judge says what a line of a route's report is. p is the payment that it names by our id, by that
// of a refund or by a reference; the zero Payment: it names none. settled are the references of the
// lines of the kind (see Clears) that have settled the payment before.
//
// It looks at nothing of the payment that an outcome changes: a line that settles a payment does so
// before and after the payment is paid, refunded or disputed, so the books are the same in any order.
// Only of refunds by another hand, which may be of a part, the amounts must be known: until then a line
// of one waits.
func Judge(route string, l Line, p domain.Payment, settled []string) Result {
	switch {
	case l.Kind == KindFee:
		return Charged
	case l.Kind == KindOther:
		return OtherKind
	case p.Status == "" || p.Route != route:
		return UnknownReference
	case l.Currency != p.Currency:
		return CurrencyDiffers
	case !l.fits(domain.SumOf(p.Amount)) && !l.byHand(p):
		return AmountDiffers
	case l.Repeats(settled):
		return SettledBefore
	}
	return Settled
}

// Repeats reports whether a line that fits settles again what lines of these references have settled.
func (l Line) Repeats(settled []string) bool {
	return len(settled) >= MaxSettled || slices.ContainsFunc(settled, func(reference string) bool {
		return reference == l.Reference || reference == "" || l.Reference == ""
	})
}

// Names reports whether a reference of the payment, or of its refund or dispute, is that of the line.
func (l Line) Names(p domain.Payment) bool {
	in, back := p.References()
	return slices.Contains(in, l.Reference) || l.Kind != KindPayment && slices.Contains(back, l.Reference)
}

// Says is what the provider says of a dispute by a line that settles the paid payment: it is open
// where the line takes money, and won where it brings all of it back. A line never says that a dispute
// is lost: one whose money is taken stays open until that is heard otherwise. It says nothing of a
// dispute where that would change nothing, and nothing without its reference.
func (l Line) Says(p domain.Payment) (domain.Signal, bool) {
	abs := l.Gross
	s := domain.Signal{Route: p.Route, Outcome: domain.OutcomeDisputeWon, Reference: l.Reference, Currency: p.Currency}
	if l.Gross.Sign() < 0 {
		abs, s.Outcome = l.Gross.Neg(), domain.OutcomeDisputed
	}
	if l.Kind != KindDispute || l.Reference == "" || p.Status != domain.Paid || l.Currency != p.Currency || !l.fits(domain.SumOf(p.Amount)) {
		return s, false
	}
	s.Amount = domain.Amount(abs.Lo) // it fits, so it is below an Amount
	d, known := p.Dispute(l.Reference)
	return s, !known || s.Outcome == domain.OutcomeDisputeWon && d.Status != domain.DisputeWon && d.Amount == s.Amount
}

// fits reports whether the line can be for a payment of the amount. Refunds of ours are of all of it,
// disputes of a part. Both bring money where it comes back.
func (l Line) fits(amount domain.Sum) bool {
	switch l.Kind {
	case KindPayment:
		return l.Gross == amount
	case KindRefund:
		return l.Gross == amount || l.Gross == amount.Neg()
	}
	return l.Gross.Sign() != 0 && l.Gross.Compare(amount) <= 0 && l.Gross.Compare(amount.Neg()) >= 0
}

// byHand reports whether the line is of as much as the provider has returned by another hand.
func (l Line) byHand(p domain.Payment) bool {
	return l.Kind == KindRefund && slices.ContainsFunc(p.ProviderRefunds, func(r domain.ProviderRefund) bool {
		return r.Currency == l.Currency && l.Gross == domain.SumOf(-r.Amount)
	})
}

// Clears names, for each payment, what the line is about. What a refund or a dispute takes and
// what of it comes back are different things.
func (l Line) Clears() string {
	if l.Kind != KindPayment && l.Gross.Sign() > 0 {
		return string(l.Kind) + "_returned"
	}
	return string(l.Kind)
}

// Entry is a line as it is recorded. PaymentID is the payment that it was matched with, or the
// report's word where that is an id and there is no such payment.
type Entry struct {
	Line
	Result Result `json:"result"`
}

// Text is an entry in its recorded form: number, kind, gross, fee, currency, date, result,
// payment, refund and reference, separated by spaces. A dash stands for no payment and for no
// refund. The reference is the rest of the text and may be empty:
//
//	17 payment 1500.00 45.00 RUB 2026-11-20 settled 01M7W78FJBM8T4R7B5N0C1D2E3 - prv-77
type Text string

// Text writes the entry.
func (e Entry) Text() Text {
	return Text(strconv.Itoa(e.Number) + " " + string(e.Kind) + " " + e.Gross.String() + " " + e.Fee.String() + " " + string(e.Currency) + " " +
		e.SettledOn + " " + string(e.Result) + " " + cmp.Or(e.PaymentID, "-") + " " + cmp.Or(e.RefundID, "-") + " " + e.Reference)
}

// MaxLines bounds the texts of one ReportLines, in bytes of the event: payments wait behind it.
const MaxLines = 24 << 10

// Size is how many bytes the text takes in an event.
func (t Text) Size() int {
	return len(t) + len(`"",`) + strings.Count(string(t), `"`) + strings.Count(string(t), "\\")
}

// Entry reads what Entry.Text writes.
func (t Text) Entry() (e Entry, err error) {
	f := strings.SplitN(string(t), " ", 10)
	wrong := func() (Entry, error) { return Entry{}, fmt.Errorf("the line %q of a report is none", t) }
	if len(f) != 10 {
		return wrong()
	}
	for _, id := range []*string{&f[7], &f[8]} {
		if *id == "-" {
			*id = ""
		}
	}
	e = Entry{
		Line: Line{
			Kind: Kind(f[1]), Currency: domain.Currency(f[4]), SettledOn: f[5], PaymentID: f[7], RefundID: f[8], Reference: f[9],
		},
		Result: Result(f[6]),
	}
	if e.Number, err = strconv.Atoi(f[0]); err != nil {
		return wrong()
	}
	if e.Gross.UnmarshalText([]byte(f[2])) != nil || e.Fee.UnmarshalText([]byte(f[3])) != nil {
		return wrong()
	}
	e.Net = e.Gross.Add(e.Fee.Neg())
	return e, nil
}

// checked reads an entry that can be recorded: it has one text only.
func (t Text) checked() (Entry, error) {
	e, err := t.Entry()
	if err != nil {
		return e, err
	}
	_, payment := domain.ParseID(e.PaymentID)
	_, refund := domain.ParseID(e.RefundID)
	possible := map[Kind]bool{KindFee: e.Result == Charged, KindOther: e.Result == OtherKind}[e.Kind]
	if e.Kind.Names() {
		possible = e.Result == UnknownReference || e.Result.OfPayment()
	}
	if e.Text() != t || e.Check() != "" || !possible || e.PaymentID != "" && !payment || e.RefundID != "" && !refund || e.Result.OfPayment() && !payment {
		return e, fmt.Errorf("the line %q of a report cannot be recorded", t)
	}
	return e, nil
}

// LineID names a line of a report, which id names.
func LineID(id string, number int) string { return id + "/" + strconv.Itoa(number) }

// ParseLineID reads what LineID writes.
func ParseLineID(s string) (id string, number int, ok bool) {
	id, digits, _ := strings.Cut(s, "/")
	number, err := strconv.Atoi(digits)
	_, _, ok = ParseID(id)
	return id, number, ok && err == nil && LineID(id, number) == s
}

// Cleared are the lines that have settled a payment, each as what it is about (see Line.Clears),
// its reference and where it is recorded, separated by tabs and ended by a line feed.
type Cleared string

// With returns the lines and one more. at is where that one is recorded.
func (c Cleared) With(l Line, at string) Cleared {
	return c + Cleared(l.Clears()+"\t"+l.Reference+"\t"+at+"\n")
}

// Lines are the LineIDs of the lines.
func (c Cleared) Lines() (ids []string) {
	for one := range strings.Lines(string(c)) {
		ids = append(ids, one[strings.LastIndexByte(one, '\t')+1:len(one)-1])
	}
	return ids
}

// Of are the references of the lines that are about the same as l.
func (c Cleared) Of(l Line) (references []string) {
	about := l.Clears()
	for one := range strings.Lines(string(c)) {
		if f := strings.Split(strings.TrimSuffix(one, "\n"), "\t"); len(f) == 3 && f[0] == about {
			references = append(references, f[1])
		}
	}
	return references
}
