package domain

import (
	"crypto/sha256"
	"slices"
	"strings"
	"unicode"
)

// Outcome is the result that a provider reports for a payment, or for a refund
// when the signal names one.
type Outcome string

// The outcomes of a payment, and those of a refund.
const (
	OutcomePaid      Outcome = "paid"
	OutcomeFailed    Outcome = "failed"
	OutcomeExpired   Outcome = "expired"
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeReturned  Outcome = "returned" // the money of a refund that succeeded came back

	// Of a dispute of the payment, whose reference the signal has.
	OutcomeDisputed    Outcome = "disputed"
	OutcomeDisputeWon  Outcome = "dispute_won"
	OutcomeDisputeLost Outcome = "dispute_lost"
)

// Signal is a provider's report on a payment or one of its refunds. Reference is
// the provider's own id of the attempt: the same signal with the same reference
// counts once.
type Signal struct {
	Route     string   `json:"route"` // the route that the signal came through
	Outcome   Outcome  `json:"outcome"`
	Reference string   `json:"reference"`
	RefundID  *ID      `json:"refund_id,omitempty"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
	StartedAt Instant  `json:"started_at"` // when the customer began the attempt, or a dispute was opened
}

// Reasons recorded with events.
const (
	ReasonDeadline = "deadline" // the payment's own time ran out
	ReasonProvider = "provider" // the provider reported it
	ReasonNoRoute  = "no_route" // no routing rule matches the payment

	ReasonWrongRoute        = "wrong_route"        // not the route that was assigned
	ReasonFinalStatus       = "final_status"       // the payment or refund has a final status
	ReasonUnknownRefund     = "unknown_refund"     // the payment has no such refund
	ReasonReferenceConflict = "reference_conflict" // same reference, different content
	ReasonReferenceUsed     = "reference_used"     // another payment or refund of the route has booked its money
	ReasonWrongAmount       = "wrong_amount"       // different amount or currency
	ReasonStartedEarly      = "started_early"      // begun before the payment was created
	ReasonStartedLate       = "started_late"       // begun after the deadline
	ReasonPaidTwice         = "paid_twice"         // already paid, under another reference
	ReasonAfterExpired      = "after_expired"      // money for an expired payment
	ReasonAfterFailed       = "after_failed"       // money for a failed payment
	ReasonNotPaid           = "not_paid"           // a dispute of a payment that is not paid
	ReasonTooManyDisputes   = "too_many_disputes"  // the payment has MaxDisputes
)

// MaxReference is the longest provider reference, in bytes.
const MaxReference = 128

// Validate checks the signal's form. The error is a FieldErrors.
func (s Signal) Validate() error {
	var errs FieldErrors
	refuse := func(field string, code Code) { errs = append(errs, &FieldError{Field: field, Code: code}) }
	if !ValidRoute(s.Route) {
		refuse("route", InvalidValue)
	}
	switch {
	case s.Outcome == "":
		refuse("outcome", Required)
	case s.RefundID == nil && s.Outcome != OutcomePaid && s.Outcome != OutcomeFailed && s.Outcome != OutcomeExpired && !s.Outcome.AboutDispute(),
		s.RefundID != nil && s.Outcome != OutcomeSucceeded && s.Outcome != OutcomeFailed && s.Outcome != OutcomeReturned:
		refuse("outcome", InvalidValue)
	}
	if e := checkReference(s.Reference); e != nil {
		errs = append(errs, e)
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

// checkReference checks a provider's reference, nil if it is right.
func checkReference(s string) *FieldError {
	switch {
	case s == "":
		return &FieldError{Field: "reference", Code: Required}
	case len(s) > MaxReference:
		return &FieldError{Field: "reference", Code: TooLong, Limit: MaxReference, Got: len(s)}
	case HasControl(s):
		return &FieldError{Field: "reference", Code: ControlCharacter}
	}
	return nil
}

// same reports whether two signals are equal in all but StartedAt.
func (s Signal) same(o Signal) bool {
	return s.sameAttempt(o) && s.Route == o.Route && s.Amount == o.Amount && s.Currency == o.Currency
}

// sameAttempt reports whether two signals have the same reference, outcome and
// refund.
func (s Signal) sameAttempt(o Signal) bool {
	return s.Reference == o.Reference && s.Outcome == o.Outcome && sameID(s.RefundID, o.RefundID)
}

// ReferenceKey is a hash of the signal's route and reference. Those of money that
// came in and of money that went back are apart, since a provider may number both
// alike.
func (s Signal) ReferenceKey() Digest {
	key := s.Route + "\x00" + s.Reference // a route contains no zero byte
	if s.RefundID != nil {
		key = "\x00" + key
	}
	return sha256.Sum256([]byte(key))
}

// startedBefore reports whether the attempt began before an instant, compared in
// whole seconds because a provider may send no milliseconds.
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

// HasControl reports whether the text has a control character.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, unicode.IsControl)
}

// The results of a signal.
const (
	SignalApplied   = "applied"    // an event changed the payment or the refund
	SignalUnchanged = "unchanged"  // the same signal was recorded before
	SignalRefused   = "refused"    // it changed nothing; recorded, or only counted: see MaxRefused
	SignalLateFunds = "late_funds" // recorded as money that does not pay the payment
	SignalParked    = "parked"     // not a signal, or of no known payment: kept for the operator
)

// SignalReply is the reply to a signal, sent once its event is durable.
type SignalReply struct {
	Result     string `json:"result"`
	Reason     string `json:"reason,omitempty"`    // of a refusal, late funds or parking
	Unrecorded bool   `json:"unrecorded,omitzero"` // refused and only counted: see MaxRefused
	EventID    *ID    `json:"event_id,omitempty"`  // absent when nothing was recorded
	Position   uint64 `json:"position,omitzero"`   // of that event in the log
}

// ParkedSignal is a message that could not be read or decided as a signal. It is
// kept for the operator.
type ParkedSignal struct {
	ID       uint64  `json:"id"` // increases with each parked signal
	ParkedAt Instant `json:"parked_at"`
	Reason   string  `json:"reason"`
	Detail   string  `json:"detail"`
	Subject  string  `json:"subject"`      // that it was published on
	Bytes    int     `json:"bytes"`        // size of the whole body
	Cut      bool    `json:"cut,omitzero"` // only the beginning of the body is kept
	Body     string  `json:"body"`
}

// ParkedPage is one page of the parked signals, oldest first.
type ParkedPage struct {
	Data       []ParkedSignal `json:"data"`
	Next       uint64         `json:"next,omitzero"` // the id after which the next page begins; 0: this is the last page
	Last       uint64         `json:"last"`          // the newest id
	Signals    uint64         `json:"signals"`       // number of all parked signals
	Bytes      uint64         `json:"bytes"`         // their size; beyond LimitBytes the oldest are removed
	LimitBytes int64          `json:"limit_bytes"`
}

// References are those under which a provider may know the payment: of attempts and of money that
// came in, and of money that went back by refunds, returns and disputes, and by another hand.
func (p Payment) References() (in, back []string) {
	add := func(to *[]string, reference string) {
		if reference != "" && !slices.Contains(*to, reference) {
			*to = append(*to, reference)
		}
	}
	for _, a := range p.Attempts {
		add(&in, a.Reference)
	}
	for _, s := range p.Signals {
		switch {
		case s.Route != p.Route:
		case s.RefundID != nil || s.Outcome.AboutDispute():
			add(&back, s.Reference)
		case s.Outcome == OutcomePaid:
			add(&in, s.Reference)
		}
	}
	for _, r := range p.ProviderRefunds {
		add(&back, r.RefundReference)
	}
	return in, back
}
