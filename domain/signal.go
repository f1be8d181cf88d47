package domain

import (
	"crypto/sha256"
	"unicode"
)

// Outcome is what a provider says became of a payment, or of a refund when
// the signal names one.
type Outcome string

// The outcomes of a payment, and those of a refund.
const (
	OutcomePaid      Outcome = "paid"
	OutcomeFailed    Outcome = "failed"
	OutcomeExpired   Outcome = "expired"
	OutcomeSucceeded Outcome = "succeeded"
)

// Signal is a provider's word about a payment or one of its refunds. The
// reference is the provider's own name for the attempt: the same signal with
// the same reference counts once.
type Signal struct {
	Route     string   `json:"route"` // channel the signal came through
	Outcome   Outcome  `json:"outcome"`
	Reference string   `json:"reference"`
	RefundID  *ID      `json:"refund_id,omitempty"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
	StartedAt Instant  `json:"started_at"` // when the customer began the attempt
}

// Reasons recorded with events.
const (
	ReasonDeadline = "deadline" // the payment's own time ran out
	ReasonProvider = "provider" // the provider said so
	ReasonNoRoute  = "no_route" // no routing rule takes this payment

	ReasonWrongRoute        = "wrong_route"        // not the route that was assigned
	ReasonFinalStatus       = "final_status"       // would leave a final status
	ReasonUnknownRefund     = "unknown_refund"     // the payment has no such refund
	ReasonReferenceConflict = "reference_conflict" // known reference, other content
	ReasonReferenceUsed     = "reference_used"     // its money is another payment's of the route
	ReasonWrongAmount       = "wrong_amount"       // other amount or currency
	ReasonStartedEarly      = "started_early"      // begun before the payment was created
	ReasonStartedLate       = "started_late"       // begun after the deadline
	ReasonPaidTwice         = "paid_twice"         // paid before, other reference
	ReasonAfterExpired      = "after_expired"      // money for an expired payment
	ReasonAfterFailed       = "after_failed"       // money for a failed payment
)

// MaxReference is the longest provider reference, in bytes.
const MaxReference = 128

// Validate checks the signal's form. The error is a FieldErrors.
func (s Signal) Validate() error {
	var errs FieldErrors
	refuse := func(field string, code Code) { errs = append(errs, &FieldError{Field: field, Code: code}) }
	if !validRoute(s.Route) {
		refuse("route", InvalidValue)
	}
	switch {
	case s.Outcome == "":
		refuse("outcome", Required)
	case s.RefundID == nil && s.Outcome != OutcomePaid && s.Outcome != OutcomeFailed && s.Outcome != OutcomeExpired,
		s.RefundID != nil && s.Outcome != OutcomeSucceeded && s.Outcome != OutcomeFailed:
		refuse("outcome", InvalidValue)
	}
	switch {
	case s.Reference == "":
		refuse("reference", Required)
	case len(s.Reference) > MaxReference:
		errs = append(errs, &FieldError{Field: "reference", Code: TooLong, Limit: MaxReference, Got: len(s.Reference)})
	case hasControl(s.Reference):
		refuse("reference", ControlCharacter)
	}
	if s.Amount < MinAmount || s.Amount > MaxAmount {
		refuse("amount", Required)
	}
	switch {
	case s.Currency == "":
		refuse("currency", Required)
	case !s.Currency.wellFormed():
		refuse("currency", InvalidValue)
	}
	if s.Outcome == OutcomePaid && s.StartedAt == 0 {
		refuse("started_at", Required)
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// same reports whether two signals say the same thing of the same attempt.
func (s Signal) same(o Signal) bool {
	return s.sameAttempt(o) && s.Route == o.Route && s.Amount == o.Amount && s.Currency == o.Currency
}

// sameAttempt reports whether two signals tell one outcome under one
// reference, whatever else they say.
func (s Signal) sameAttempt(o Signal) bool {
	return s.Reference == o.Reference && s.Outcome == o.Outcome && sameID(s.RefundID, o.RefundID)
}

// ReferenceKey is a hash of the signal's route and reference.
func (s Signal) ReferenceKey() Digest {
	return sha256.Sum256([]byte(s.Route + "\x00" + s.Reference)) // a route has no zero
}

// startedBefore reports whether the attempt began before an instant. It compares
// whole seconds, since a provider may send no milliseconds.
func (s Signal) startedBefore(at Instant) bool {
	const second = 1000
	return s.StartedAt != 0 && s.StartedAt/second < at/second
}

func sameID(a, b *ID) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func hasControl(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}

// The results of a signal.
const (
	SignalApplied   = "applied"    // an event changed the payment or the refund
	SignalUnchanged = "unchanged"  // the same signal was recorded before
	SignalRefused   = "refused"    // it changed nothing; recorded, or counted where the payment has recorded many
	SignalLateFunds = "late_funds" // recorded as money that cannot count as the payment
	SignalParked    = "parked"     // not a signal, or of no payment: kept aside for the operator
)

// SignalReply answers a signal once what it led to is durable.
type SignalReply struct {
	Result     string `json:"result"`
	Reason     string `json:"reason,omitempty"`    // of a refusal, late funds or parking
	Unrecorded bool   `json:"unrecorded,omitzero"` // refused and only counted: the payment has recorded as many as it keeps
	EventID    *ID    `json:"event_id,omitempty"`  // absent when nothing was recorded
	Position   uint64 `json:"position,omitzero"`   // of that event in the log
}

// ParkedSignal is a message that could not be judged as a signal and is kept
// for the operator.
type ParkedSignal struct {
	ID       uint64  `json:"id"` // rises with each that is parked
	ParkedAt Instant `json:"parked_at"`
	Reason   string  `json:"reason"`
	Detail   string  `json:"detail"`
	Subject  string  `json:"subject"`      // it was published on
	Bytes    int     `json:"bytes"`        // of its body, as it came
	Cut      bool    `json:"cut,omitzero"` // only the beginning of the body is kept
	Body     string  `json:"body"`
}

// ParkedPage is a part of all that is parked, oldest first.
type ParkedPage struct {
	Data       []ParkedSignal `json:"data"`
	Next       uint64         `json:"next,omitzero"` // the id to go on after; 0: there are no more
	Last       uint64         `json:"last"`          // the newest id there is
	Signals    uint64         `json:"signals"`       // how many there are in all
	Bytes      uint64         `json:"bytes"`         // they take, of LimitBytes, at which the oldest give way
	LimitBytes int64          `json:"limit_bytes"`
}
