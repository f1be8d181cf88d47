package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HandOffKind is how a customer gets from the payment's page to the provider.
type HandOffKind string

// The kinds of a hand-off: the browser is redirected, or the page shows a QR code
// whose content is also a link to the customer's bank's app. The empty kind: the
// customer has only to wait.
const (
	HandOffRedirect HandOffKind = "redirect"
	HandOffQR       HandOffKind = "qr"
)

// HandOff is how a customer gets from the payment's page to the provider.
type HandOff struct {
	Kind      HandOffKind `json:"kind"`
	URL       string      `json:"url"`                 // redirect: where to; QR: what the code holds, also opened as a link on the device itself
	ExpiresAt time.Time   `json:"expires_at,omitzero"` // zero: as long as the attempt is open
}

// The limits of attempts.
const (
	MaxAttempts = 20 // of a payment
	// AttemptKeyLife is how long an attempt's key is used. A provider may forget a
	// key after 24 hours; used then, it would make a second attempt.
	AttemptKeyLife = 20 * time.Hour
	// MaxAttemptWait is how long the expiry of a payment waits for an attempt that
	// the provider can neither cancel nor say the end of.
	MaxAttemptWait = 24 * time.Hour
	MaxReason      = 64 // of a provider's reason, in bytes
)

// Why an attempt failed, where the provider did not say so itself.
const (
	ReasonAbandoned   = "abandoned"   // never offered to the customer, and its key is of no use any more
	ReasonUnreachable = "unreachable" // its outcome could not be found out for a long time
)

// Attempt is one attempt to collect a payment at its route's provider. At most
// one is open at a time.
type Attempt struct {
	Number    int           `json:"number"` // from 1
	Status    AttemptStatus `json:"status"`
	BegunAt   Instant       `json:"begun_at"`
	Language  string        `json:"language"`
	Merchant  string        `json:"merchant"`
	Reference string        `json:"reference,omitempty"` // the provider's; known once offered
	HandOff   HandOffKind   `json:"hand_off,omitempty"`  // of an offered one
	ExpiresAt Instant       `json:"expires_at,omitzero"` // when the hand-off does; 0: unknown
	Reason    string        `json:"reason,omitempty"`    // of a failed one
}

// AttemptStatus is how far an attempt has come; it only moves forward.
type AttemptStatus string

// The statuses of an attempt. Begun and offered ones are open.
const (
	AttemptBegun     AttemptStatus = "begun"     // the provider may know it; the customer does not
	AttemptOffered   AttemptStatus = "offered"   // the customer may pay it
	AttemptFailed    AttemptStatus = "failed"    // no money can come of it
	AttemptCollected AttemptStatus = "collected" // its money was booked
)

// Open reports whether money may still come of the attempt.
func (a Attempt) Open() bool { return a.Status == AttemptBegun || a.Status == AttemptOffered }

// AttemptKey is the idempotency key of an attempt at its provider.
func AttemptKey(payment ID, number int) string { return payment.String() + "-" + strconv.Itoa(number) }

// OpenAttempt is the attempt that is open, if there is one.
func (p Payment) OpenAttempt() (Attempt, bool) {
	if n := len(p.Attempts); n > 0 && p.Attempts[n-1].Open() {
		return p.Attempts[n-1], true
	}
	return Attempt{}, false
}

// Uncollected reports whether something about the payment is to be done or learned
// at its provider: an attempt or a dispute is open, or a refund or return is pending.
func (p Payment) Uncollected() bool {
	_, open := p.OpenAttempt()
	return open || p.DisputeStatus() == DisputeOpen || slices.ContainsFunc(p.Refunds, func(r Refund) bool { return !r.Status.Final() }) ||
		slices.ContainsFunc(p.Returns, func(r Return) bool { return !r.Status.Final() })
}

// AttemptError is the error of Decide for a command about attempts that the
// payment does not allow, and of the beginning of an attempt that comes to nothing.
type AttemptError struct{ Reason string }

// The reasons of an AttemptError.
const (
	AttemptTooLate  = "too_late" // the deadline has passed, or the payment has a final status
	AttemptTooMany  = "too_many" // the payment has MaxAttempts
	AttemptUnknown  = "unknown"  // the payment has no such attempt
	AttemptConflict = "conflict" // the provider has given the same attempt another reference
	AttemptSeen     = "seen"     // it was offered, so it cannot be abandoned
	AttemptNoRoute  = "no_route" // the payment has no route yet
	AttemptPaused   = "paused"   // the operator has paused the route, and an attempt would have to begin
	AttemptEnded    = "ended"    // no money can come of it; another one may be begun
)

func (e *AttemptError) Error() string { return "the attempt is refused: " + e.Reason }

// BeginAttempt begins an attempt, unless one is open. Language and Merchant are
// sent to the provider with it; a call repeated with the attempt's key must
// not differ.
type BeginAttempt struct {
	At                 Instant
	Language, Merchant string
}

// OfferAttempt records what the provider has answered, before the customer is
// sent on.
type OfferAttempt struct {
	Number    int
	Reference string
	HandOff   HandOffKind
	ExpiresAt Instant
}

// FailAttempt records that no money can come of an attempt. Reason has the form
// of a code: see ValidReason.
type FailAttempt struct {
	Number int
	Reason string
}

func (c BeginAttempt) decidePayment(p Payment) (Event, error) {
	_, open := p.OpenAttempt()
	switch {
	case p.Status == Created:
		return nil, &AttemptError{Reason: AttemptNoRoute}
	case p.Status.Final(), c.At >= p.ExpiresAt:
		return nil, &AttemptError{Reason: AttemptTooLate}
	case open:
		return nil, nil
	case len(p.Attempts) >= MaxAttempts:
		return nil, &AttemptError{Reason: AttemptTooMany}
	}
	n := len(p.Attempts) + 1
	return PaymentAttemptBegun{Attempt: n, Key: AttemptKey(p.ID, n), BegunAt: c.At, Language: c.Language, Merchant: c.Merchant}, nil
}

func (c OfferAttempt) decidePayment(p Payment) (Event, error) {
	a, ok := p.attempt(c.Number)
	switch {
	case !ok:
		return nil, &AttemptError{Reason: AttemptUnknown}
	case a.Reference != "" && a.Reference != c.Reference, p.knowsReference(c.Reference, c.Number):
		return nil, &AttemptError{Reason: AttemptConflict}
	case a.Status != AttemptBegun:
		return nil, nil
	}
	if err := errors.Join(validReference(c.Reference), validHandOff(c.HandOff)); err != nil {
		return nil, err
	}
	return PaymentAttemptOffered{Attempt: c.Number, Reference: c.Reference, HandOff: c.HandOff, ExpiresAt: c.ExpiresAt}, nil
}

func (c FailAttempt) decidePayment(p Payment) (Event, error) {
	a, ok := p.attempt(c.Number)
	switch {
	case !ok:
		return nil, &AttemptError{Reason: AttemptUnknown}
	case !a.Open():
		return nil, nil
	case c.Reason == ReasonAbandoned && a.Status != AttemptBegun:
		return nil, &AttemptError{Reason: AttemptSeen}
	case !ValidReason(c.Reason):
		return nil, FieldErrors{{Field: "reason", Code: InvalidValue}}
	}
	return PaymentAttemptFailed{Attempt: c.Number, Reason: c.Reason}, nil
}

// knowsReference reports whether another attempt of the payment has the reference.
func (p Payment) knowsReference(reference string, besides int) bool {
	return slices.ContainsFunc(p.Attempts, func(a Attempt) bool { return a.Reference == reference && a.Number != besides })
}

func (p Payment) attempt(number int) (Attempt, bool) {
	if number < 1 || number > len(p.Attempts) {
		return Attempt{}, false
	}
	return p.Attempts[number-1], true
}

// AttemptOf finds the attempt with the provider's reference.
func (p Payment) AttemptOf(reference string) (Attempt, bool) {
	return Find(p.Attempts, func(a Attempt) bool { return a.Reference == reference && reference != "" })
}

// withAttempt returns the payment with the attempt changed, if it is open.
func (p Payment) withAttempt(number int, change func(*Attempt)) Payment {
	if a, ok := p.attempt(number); ok && a.Open() {
		p.Attempts = slices.Clone(p.Attempts)
		change(&p.Attempts[number-1])
	}
	return p
}

// collected closes the attempt under whose reference money was booked.
func (p Payment) collected(s Signal) Payment {
	a, ok := p.AttemptOf(s.Reference)
	if !ok || s.Route != p.Route || s.Outcome != OutcomePaid {
		return p
	}
	p.Attempts = slices.Clone(p.Attempts) // a failed one too: the provider was wrong
	p.Attempts[a.Number-1].Status = AttemptCollected
	return p
}

// ValidReason reports whether a provider's reason is a code of at most MaxReason
// characters: a-z, 0-9 and _.
func ValidReason(s string) bool {
	return s != "" && len(s) <= MaxReason && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func validHandOff(k HandOffKind) error {
	switch k {
	case "", HandOffRedirect, HandOffQR:
		return nil
	}
	return fmt.Errorf("the hand-off is of an unknown kind, %q", k)
}

// validReference checks a provider's reference as Signal.Validate does.
func validReference(s string) error {
	if e := checkReference(s); e != nil {
		return FieldErrors{e}
	}
	return nil
}
