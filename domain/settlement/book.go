package settlement

import (
	"errors"
	"slices"
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
	Payment    string     // its id, with ToPayment
	Project    string     // of the payment
	Settles    domain.Sum // with ToPayment, see Settles
	FeesPaidBy Bearer     // with ToPayment
	Reason     string
}

// Settles is how much of what is owed for the payment a line clears that the operator says is for
// it: the payment's amount, or the line's own where late funds of the payment have that amount.
func Settles(l Line, p domain.Payment) domain.Sum {
	amount := domain.SumOf(p.Amount)
	late := slices.ContainsFunc(p.Late, func(f domain.LateFund) bool {
		return f.Currency == l.Currency && (l.Gross == domain.SumOf(f.Amount) || l.Gross == domain.SumOf(-f.Amount))
	})
	switch {
	case late || l.Currency != p.Currency || l.Kind != KindPayment && l.Kind != KindRefund:
		return l.Gross
	case l.Gross.Sign() < 0:
		return amount.Neg()
	}
	return amount
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
)

// MaxReason is the longest reason of a resolution, in code points.
const MaxReason = 256

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
	if n := utf8.RuneCountInString(c.Reason); n == 0 || n > MaxReason || domain.HasControl(c.Reason) {
		return nil, domain.FieldErrors{{Field: "reason", Code: domain.InvalidValue}}
	}
	e := LineResolved{Route: b.Route, Report: b.Report, Line: b.Waiting[at], To: c.To, Reason: c.Reason}
	_, named := domain.ParseID(c.Payment)
	switch {
	case c.To == ToFee || c.To == WriteOff:
	case c.To == ToPayment && named && c.Project != "" && c.FeesPaidBy.Valid():
		e.Payment, e.Project, e.FeesPaidBy, e.Settles = c.Payment, c.Project, c.FeesPaidBy, c.Settles
		e.Elsewhere = c.Project != b.Project
	default:
		return nil, domain.FieldErrors{{Field: "payment", Code: domain.InvalidValue}}
	}
	return e, nil
}

// waiting is the index in Waiting of a line, or -1.
func (b Book) waiting(number int) int {
	return slices.IndexFunc(b.Waiting, func(t Text) bool {
		e, err := t.Entry()
		return err == nil && e.Number == number
	})
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
		c = ResolveLine{line.Number, e.To, e.Payment, e.Project, e.Settles, e.FeesPaidBy, e.Reason}
	default:
		return errors.New("it is no event of a report's lines")
	}
	got, err := b.Decide(c)
	return domain.SameEvent(got, err, e, "the lines of report "+ID(b.Route, b.Report), "")
}
