package account

import (
	"html/template"
	"math"

	"payledger/domain"
)

// What templates use besides the methods of ui.Locale.

// Text is a text that may not be there.
func (d pageData) Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Int is a count as Number and Percent take it.
func (d pageData) Int(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Few is a count as Plural takes it.
func (d pageData) Few(n uint64) int { return int(min(n, math.MaxInt32)) }

// StatusWord is a status without its badge.
func (d pageData) StatusWord(status domain.PaymentStatus) string {
	return d.T("status." + string(status))
}

// RefundMark shows on a payment what became of its money, nothing unless some went back
// or was to. byHand is what the provider returned by another hand of the amount.
func (d pageData) RefundMark(s domain.RefundStatus, byHand, amount domain.Amount) template.HTML {
	if s == "" {
		return ""
	}
	tone := map[domain.RefundStatus]string{
		domain.RefundPending: "wait", domain.RefundSucceeded: "quiet", domain.RefundFailed: "bad", domain.RefundByHand: "quiet",
		domain.RefundCameBack: "bad",
	}[s]
	if s == domain.RefundByHand && byHand < amount {
		return d.Tag(tone, d.T("refund_mark.part_at_provider"))
	}
	return d.Tag(tone, d.RefundWord(s))
}

// DisputeMark shows on a payment what became of its disputes, nothing without any.
func (d pageData) DisputeMark(s domain.DisputeStatus) template.HTML {
	if s == "" {
		return ""
	}
	tone := map[domain.DisputeStatus]string{domain.DisputeOpen: "bad", domain.DisputeWon: "quiet", domain.DisputeLost: "bad"}[s]
	return d.Tag(tone, d.T("dispute_mark."+string(s)))
}

// RefundWord names a value of the filter of refunds.
func (d pageData) RefundWord(s domain.RefundStatus) string { return d.T("refund_mark." + string(s)) }

// EventWord says what happened, for an event's type. A type without a text is shown as it is.
func (d pageData) EventWord(eventType string) string { return d.textOr("event.", eventType) }

// Reason says why something happened.
func (d pageData) Reason(code string) string { return d.textOr("reason.", code) }

func (d pageData) textOr(prefix, code string) string {
	if d.Has(prefix + code) {
		return d.T(prefix + code)
	}
	return code
}

// LastAttempt says how the last attempt of a delivery ended, "" before the
// first.
func (d pageData) LastAttempt(o domain.DeliveryObject) string {
	if len(o.Attempts) == 0 {
		return ""
	}
	return d.AttemptText(o.Attempts[len(o.Attempts)-1])
}

// inputField is a field of a form of filters.
type inputField struct{ Name, Type, Value, Label, Wrong, Example string }

// FilterField is a field with the text of a message id as its label.
func (d pageData) FilterField(name, kind, value, label string) inputField {
	return inputField{Name: name, Type: kind, Value: value, Label: d.T(label), Wrong: d.Fields[name], Example: d.AmountExample()}
}

// Sum writes a balance, which can be larger than an amount.
func (d pageData) Sum(s domain.Sum, c domain.Currency) string {
	if s == domain.SumOf(domain.Amount(s.Lo)) {
		return d.Amount(domain.Amount(s.Lo), c)
	}
	return s.String() + " " + string(c)
}
