// Package settlement has the rules of a provider's settlement reports: what a line of one is, what
// it settles, and what of it is recorded. It is as pure as package domain.
package settlement

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"payledger/domain"
)

// Line is one line of a provider's settlement report, in the report's own words.
type Line struct {
	Number    int             `json:"number"` // of the report's lines, from 1; a header is none
	Kind      Kind            `json:"kind"`
	PaymentID string          `json:"payment_id,omitempty"` // ours, where the report has it
	RefundID  string          `json:"refund_id,omitempty"`
	Reference string          `json:"reference,omitempty"` // the provider's
	Gross     domain.Sum      `json:"gross"`               // signed: what the provider owes by the line before its fee; negative for refunds and lost disputes
	Fee       domain.Sum      `json:"fee"`                 // signed: what it keeps; Net = Gross - Fee
	Net       domain.Sum      `json:"net"`
	Currency  domain.Currency `json:"currency"`
	SettledOn string          `json:"settled_on"` // YYYY-MM-DD
}

// Kind is what a line is for.
type Kind string

// The kinds of lines.
const (
	KindPayment Kind = "payment"
	KindRefund  Kind = "refund"
	KindFee     Kind = "fee"     // of no payment: its amount is the provider's
	KindDispute Kind = "dispute" // what a dispute took, or gave back when it was won
	KindOther   Kind = "other"
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{KindPayment, KindRefund, KindFee, KindDispute, KindOther} }

// Names reports whether a line of the kind is for a payment.
func (k Kind) Names() bool { return k == KindPayment || k == KindRefund || k == KindDispute }

// The bounds of a line.
const (
	MaxReference = 128 // bytes
	maxSum       = domain.MaxAmount * 1000
)

// Check returns the name of the first member that cannot be in a line, "" if there is none.
func (l Line) Check() string {
	bounded := func(s domain.Sum) bool {
		return s.Compare(domain.SumOf(maxSum)) <= 0 && s.Compare(domain.SumOf(-maxSum)) >= 0
	}
	switch {
	case l.Number < 1:
		return "number"
	case !slices.Contains(Kinds(), l.Kind):
		return "kind"
	case !validText(l.PaymentID):
		return "payment_id"
	case !validText(l.RefundID):
		return "refund_id"
	case !validText(l.Reference):
		return "reference"
	case !bounded(l.Gross):
		return "gross"
	case !bounded(l.Fee):
		return "fee"
	case l.Net != l.Gross.Add(l.Fee.Neg()):
		return "net"
	case !l.Currency.TwoMinorDigits():
		return "currency"
	case !validDate(l.SettledOn):
		return "settled_on"
	}
	return ""
}

// validText reports whether a text is none or one that fits into an entry.
func validText(s string) bool {
	return len(s) <= MaxReference && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// validDate reports whether s is a date of the calendar, as 2026-11-20.
func validDate(s string) bool {
	if len(s) != len("2006-01-02") {
		return false
	}
	var at domain.Instant
	return at.UnmarshalText([]byte(s+"T00:00:00Z")) == nil
}

// Totals are the sums of lines of one currency.
type Totals struct {
	Currency domain.Currency `json:"currency"`
	Lines    int             `json:"lines"`
	Gross    domain.Sum      `json:"gross"`
	Fee      domain.Sum      `json:"fee"`
	Net      domain.Sum      `json:"net"`
}

// Summary is what lines are together.
type Summary struct {
	Lines  int      `json:"lines"`
	From   string   `json:"from"` // the first day on which one was settled
	To     string   `json:"to"`   // the last
	Totals []Totals `json:"totals"`
}

// Add returns the summary with one line more.
func (s Summary) Add(l Line) Summary {
	if s.Lines == 0 || l.SettledOn < s.From {
		s.From = l.SettledOn
	}
	s.To = max(s.To, l.SettledOn)
	s.Lines++
	s.Totals = AddTotals(s.Totals, l)
	return s
}

// AddTotals returns the totals, by currency in alphabetical order, with a line more. They are
// changed in place where the currency is known.
func AddTotals(all []Totals, l Line) []Totals {
	i, known := slices.BinarySearchFunc(all, l.Currency, func(t Totals, c domain.Currency) int { return cmp.Compare(t.Currency, c) })
	if !known {
		all = slices.Insert(all, i, Totals{Currency: l.Currency})
	}
	t := &all[i]
	t.Lines++
	t.Gross, t.Fee, t.Net = t.Gross.Add(l.Gross), t.Fee.Add(l.Fee), t.Net.Add(l.Net)
	return all
}
