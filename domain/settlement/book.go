package settlement

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"payledger/domain"
)

// Book is what is recorded of a report for one project, or for the operator itself: its lines in
// the order of their numbers, and those of them that are in suspense.
type Book struct {
	Project string
	Route   string
	Report  string
	Last    int    // the number of the last line
	Waiting []Text // in suspense
}

// BookCommand is a command on a Book.
type BookCommand interface {
	decide(Book) (domain.Event, error)
}

// RecordLines records lines of the report. Judge has said what they are.
type RecordLines struct {
	FeesPaidBy Bearer
	Lines      []Text
}

// ResolveLine takes a line out of suspense, to where the operator says that it belongs.
type ResolveLine struct {
	Number     int
	To         Resolution
	Payment    string          // its id, with ToPayment and Matched
	Project    string          // of the payment
	Settles    domain.Sum      // with them, see Settles
	Currency   domain.Currency // of Settles
	FeesPaidBy Bearer          // with them
	Reason     string          // "" with Matched
}

// Settles is how much of what is owed for the payment a line clears that is for it: the payment's
// amount or that of the dispute, or the line's own where late funds of the payment or a refund by
// another hand have that amount.
// A line in another currency clears the payment's own, except of late funds; without a currency it
// clears nothing, because nothing is known of the dispute that it names.
func Settles(l Line, p domain.Payment) (domain.Sum, domain.Currency) {
	amount := domain.SumOf(p.Amount)
	late := slices.ContainsFunc(p.Late, func(f domain.LateFund) bool {
		return f.Currency == l.Currency && (l.Gross == domain.SumOf(f.Amount) || l.Gross == domain.SumOf(-f.Amount))
	})
	switch disputed := l.Kind != KindPayment && l.Kind != KindRefund; {
	case late || l.byHand(p) || disputed && l.Currency == p.Currency:
		return l.Gross, l.Currency
	case disputed:
		d, known := p.Dispute(l.Reference)
		if !known {
			return domain.Sum{}, ""
		}
		amount = domain.SumOf(d.Amount)
	}
	if l.Gross.Sign() < 0 {
		amount = amount.Neg()
	}
	return amount, p.Currency
}

// Find finds a line in suspense.
func (b Book) Find(number int) (Entry, bool) {
	at := b.waiting(number)
	if at < 0 {
		return Entry{}, false
	}
	e, err := b.Waiting[at].Entry()
	return e, err == nil
}

// Resolution is where a line in suspense belongs.
type Resolution string

// The resolutions.
const (
	ToPayment Resolution = "payment"
	ToFee     Resolution = "fee"
	WriteOff  Resolution = "write_off"
	Matched   Resolution = "matched" // to a payment, by itself: its reference has become known, and it settles it
)

// Settles reports whether the line settles a payment.
func (r Resolution) Settles() bool { return r == ToPayment || r == Matched }

// MaxReason is the longest reason of an operator, in code points.
const MaxReason = 256

func validReason(s string) bool {
	n := utf8.RuneCountInString(s)
	return n > 0 && n <= MaxReason && utf8.ValidString(s) && !domain.HasControl(s)
}

// Decide returns the event that a command leads to.
func (b Book) Decide(c BookCommand) (domain.Event, error) { return c.decide(b) }

func (c RecordLines) decide(b Book) (domain.Event, error) {
	if len(c.Lines) == 0 || !c.FeesPaidBy.Valid() {
		return nil, errors.New("there are no lines, or nobody bears the fees")
	}
	last := b.Last
	for _, t := range c.Lines {
		e, err := t.checked()
		if err != nil {
			return nil, err
		}
		if e.Number <= last {
			return nil, errors.New("a line's number is not above the one before")
		}
		last = e.Number
	}
	return ReportLines{Route: b.Route, Report: b.Report, FeesPaidBy: c.FeesPaidBy, Lines: c.Lines}, nil
}

func (c ResolveLine) decide(b Book) (domain.Event, error) {
	at := b.waiting(c.Number)
	if at < 0 {
		return nil, &domain.Refusal{Code: domain.SettlementLineNotFound}
	}
	if c.To == Matched && c.Reason != "" || c.To != Matched && !validReason(c.Reason) {
		return nil, domain.FieldErrors{{Field: "reason", Code: domain.InvalidValue}}
	}
	e := LineResolved{Route: b.Route, Report: b.Report, Line: b.Waiting[at], To: c.To, Reason: c.Reason}
	_, named := domain.ParseID(c.Payment)
	switch {
	case c.To == ToFee || c.To == WriteOff:
	case c.To.Settles() && named && c.Project != "" && c.FeesPaidBy.Valid() && c.Currency.TwoMinorDigits():
		e.Payment, e.Project, e.FeesPaidBy, e.Settles = c.Payment, c.Project, c.FeesPaidBy, c.Settles
		e.Elsewhere = c.Project != b.Project
		if line, err := e.Line.Entry(); err == nil && line.Currency != c.Currency {
			e.SettlesIn = c.Currency
		}
	default:
		return nil, domain.FieldErrors{{Field: "payment", Code: domain.InvalidValue}}
	}
	return e, nil
}

// waiting is the index in Waiting of a line, or -1.
func (b Book) waiting(number int) int {
	begin := strconv.Itoa(number) + " "
	return slices.IndexFunc(b.Waiting, func(t Text) bool { return strings.HasPrefix(string(t), begin) })
}

// Evolve applies an event. Others change nothing.
func (b Book) Evolve(e domain.Event) Book {
	switch e := e.(type) {
	case ReportLines:
		b.Waiting = slices.Clip(b.Waiting)
		for _, t := range e.Lines {
			if entry, err := t.Entry(); err == nil {
				if b.Last = entry.Number; entry.Result.Waits() {
					b.Waiting = append(b.Waiting, t)
				}
			}
		}
	case LineResolved:
		b.Waiting = slices.DeleteFunc(slices.Clone(b.Waiting), func(t Text) bool { return t == e.Line })
	}
	return b
}

// Redecide checks an event as domain.Payment.Redecide does.
func (b Book) Redecide(e domain.Event) error {
	var c BookCommand
	switch e := e.(type) {
	case ReportLines:
		c = RecordLines{e.FeesPaidBy, e.Lines}
	case LineResolved:
		line, err := e.Line.Entry()
		if err != nil {
			return err
		}
		c = ResolveLine{line.Number, e.To, e.Payment, e.Project, e.Settles, cmp.Or(e.SettlesIn, line.Currency), e.FeesPaidBy, e.Reason}
	default:
		return errors.New("it is no event of a report's lines")
	}
	got, err := b.Decide(c)
	return domain.SameEvent(got, err, e, "the lines of report "+ID(b.Route, b.Report), "")
}
