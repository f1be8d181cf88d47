package domain

import (
	"bytes"
	"slices"
	"time"
	"unicode/utf8"
)

// Grace is how long after its deadline a routed payment expires, so that an
// attempt begun in time can finish.
const Grace = 5 * time.Minute

// The limits of a payment's own fields (seed section 8).
const (
	MaxDescription = 128 // Unicode code points
	MaxPayload     = 512 // bytes, without insignificant white space
)

// Payment is the state of one payment with its refunds: the fold of its
// stream. With the zero status it does not exist. It is a value: methods never
// change the receiver.
type Payment struct {
	Project       string        `json:"project"`
	ID            ID            `json:"id"`
	Status        PaymentStatus `json:"status"`
	Amount        Amount        `json:"amount"`
	Currency      Currency      `json:"currency"`
	Description   *string       `json:"description"`
	Payload       JSON          `json:"payload"`
	CreatedAt     Instant       `json:"created_at"`
	ExpiresAt     Instant       `json:"expires_at"`
	Link          Link          `json:"link"`
	Route         string        `json:"route,omitempty"`
	FailureReason string        `json:"failure_reason,omitempty"`
	Detached      bool          `json:"detached,omitzero"`        // description and payload are stored outside the event: they can be erased
	ErasedAt      Instant       `json:"erased_at,omitzero"`       // since when description and payload are gone; 0: they are not
	PaidReference string        `json:"paid_reference,omitempty"` // the provider's, of the money that paid it; "" unless Paid
	Refunds       []Refund      `json:"refunds,omitempty"`        // oldest first

	Attempts        []Attempt        `json:"attempts,omitempty"`         // in order; at most the last is open
	Late            []LateFund       `json:"late,omitempty"`             // the first MaxLateFunds, and those of which another hand has returned some or that were settled
	Returns         []Return         `json:"returns,omitempty"`          // of late funds, oldest first
	ProviderRefunds []ProviderRefund `json:"provider_refunds,omitempty"` // oldest first
	Settlements     []Settlement     `json:"settlements,omitempty"`      // of money in suspense, oldest first
	Disputes        []Dispute        `json:"disputes,omitempty"`         // in the order in which they were heard of

	// Signals are those that were applied, the first MaxRefused of the refused
	// ones and the first MaxLateFunds of the late funds, in the order in which
	// they were recorded.
	Signals   []Signal `json:"signals,omitempty"`
	Refused   uint64   `json:"refused,omitzero"`    // refused signals, including those that were only counted
	LateFunds uint64   `json:"late_funds,omitzero"` // signals recorded as late funds
}

// A payment keeps a bounded number of signals that did not change it, so that
// the cost of a decision does not grow with their number.
const (
	// MaxRefused: this many refused signals are each recorded. Later ones are counted; one is
	// recorded, with the count, each time the number doubles.
	MaxRefused = 100
	// MaxLateFunds: this many late funds are in Payment.Signals. Later ones are recorded too, but not
	// listed there: see ApplySignal.Earlier.
	MaxLateFunds = 100
)

// Refund is the state of one refund of a payment.
type Refund struct {
	ID        ID           `json:"id"`
	Status    RefundStatus `json:"status"`
	Amount    Amount       `json:"amount"`
	Currency  Currency     `json:"currency"`
	CreatedAt Instant      `json:"created_at"`
	Returned  bool         `json:"returned,omitzero"` // it succeeded, and later its money came back
}

// Holds reports whether the payment's money went, or is about to go, by the refund.
func (r Refund) Holds() bool { return r.Status != RefundFailed && !r.Returned }

// PaymentCommand is a request to change a payment.
type PaymentCommand interface{ decidePayment(Payment) (Event, error) }

// CreatePayment creates a payment. Its fields have passed Validate.
type CreatePayment struct {
	At          Instant
	Amount      Amount
	Currency    Currency
	Description *string
	Payload     JSON // compact object
	Settings    Settings
	Link        Link
	Idempotency *Idempotency
	Routing     *Routing // nil: the payment waits for AssignRoute
	Details     *Digest  // see PaymentCreated
}

// AssignRoute chooses the route of a payment that waits for one. A payment that only rules of
// paused routes take is not changed: it waits.
type AssignRoute Routing

// ExpirePayment expires a payment whose ExpiryDue is not after At.
type ExpirePayment struct{ At Instant }

// ApplySignal applies a provider's signal, which has passed Validate.
type ApplySignal struct {
	Signal Signal
	// Earlier and ReferenceUsed say whether the money under the signal's reference
	// is already booked. The store finds that out when the event is appended: see
	// Facts.ReferenceSince. Earlier: this payment booked it with this signal, as late
	// funds that are no longer in Signals; nil: it did not. ReferenceUsed: another
	// payment booked it, or the money went back by another refund or return.
	Earlier       *Signal
	ReferenceUsed bool
	// Reason is why the provider refused a refund or a return, why the money of a refund
	// came back, or why the payment is disputed, for the operator; "" if it did not say.
	Reason        string
	EvidenceDueBy Instant // until when the merchant can answer a dispute; 0: unknown
	// Unrecorded is the number of the payment's signals that were refused without
	// an event since the last recorded refusal.
	Unrecorded uint64
	NoneBack   bool // the rule of before: money of a return and of a lost dispute cannot come back
	Spent      bool // the rule of before: what a signal said that was refused cannot be said otherwise
}

// CreateRefund requests a refund of the whole amount.
type CreateRefund struct {
	At          Instant
	RefundID    ID
	Idempotency *Idempotency
}

// MaxEraseReason bounds the reason of an erasure, in Unicode code points.
const MaxEraseReason = 500

// EraseDetails removes the payment's description and payload for good. Repeated, or for a payment
// that has neither, it does nothing. They cannot be removed where the log's event has them, because
// the payment was created before they were kept apart.
type EraseDetails struct {
	At     Instant
	Reason string // for people
}

// Decide returns the one event that the command leads to, or nil when there is
// nothing to do. The error says why the command is refused: a FieldErrors, a
// *Refusal, a *TooEarlyError or an *UnrecordedError.
func (p Payment) Decide(c PaymentCommand) (Event, error) {
	if _, creates := c.(CreatePayment); p.Status == "" && !creates {
		return nil, &Refusal{Code: PaymentNotFound}
	}
	return c.decidePayment(p)
}

// Evolve returns the payment after the event. An event that would move the
// status backward does not change the status; events of other aggregates are
// ignored.
func (p Payment) Evolve(e Event) Payment {
	if pe, ok := e.(PaymentEvent); ok {
		return pe.evolvePayment(p)
	}
	return p
}

// Validate checks the fields that a merchant sends against the fixed limits.
// Decide checks the limits that a project can set. Both name fields as the API
// does.
func (c CreatePayment) Validate() FieldErrors {
	var errs FieldErrors
	if !c.Currency.TwoMinorDigits() {
		errs = append(errs, c.Settings.currencyNotSupported())
	}
	if c.Description != nil {
		if n := utf8.RuneCountInString(*c.Description); n > MaxDescription {
			errs = append(errs, &FieldError{Field: "description", Code: TooLong, Limit: MaxDescription, Got: n})
		}
		if HasControl(*c.Description) {
			errs = append(errs, &FieldError{Field: "description", Code: ControlCharacter})
		}
	}
	if n := len(c.Payload); n > MaxPayload {
		errs = append(errs, &FieldError{Field: "payload", Code: PayloadTooLarge, Limit: MaxPayload, Got: n})
	}
	return errs
}

// CheckSettings checks the fields against what the project allows.
func (c CreatePayment) CheckSettings() FieldErrors {
	var errs FieldErrors
	if c.Amount > c.Settings.MaxAmount {
		errs = append(errs, &FieldError{Field: "amount", Code: AmountTooLarge, Max: c.Settings.MaxAmount})
	}
	if c.Currency.TwoMinorDigits() && !slices.Contains(c.Settings.Currencies, c.Currency) {
		errs = append(errs, c.Settings.currencyNotSupported())
	}
	return errs
}

func (c CreatePayment) decidePayment(p Payment) (Event, error) {
	if p.Status != "" {
		// Cannot happen: the caller issues a new id for each object.
		return nil, &Refusal{Code: InternalError}
	}
	errs := slices.Concat(c.Validate(), c.CheckSettings())
	if c.Amount < MinAmount {
		errs = append(errs, &FieldError{Field: "amount", Code: AmountTooSmall, Min: MinAmount})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	payload := c.Payload
	if len(payload) == 0 {
		payload = EmptyObject()
	}
	route := ""
	if c.Routing != nil {
		var waits bool
		if route, waits = c.Routing.choose(p.ID, c.Amount, c.Currency); route == "" && !waits {
			return nil, FieldErrors{c.Routing.refuse(c.Currency)}
		}
	}
	return PaymentCreated{
		CreatedAt: c.At, ExpiresAt: c.At.Add(c.Settings.Lifetime()), Amount: c.Amount, Currency: c.Currency,
		Description: c.Description, Payload: payload, Details: c.Details, Link: c.Link, Idempotency: c.Idempotency, Route: route,
	}, nil
}

func (c AssignRoute) decidePayment(p Payment) (Event, error) {
	if p.Status != Created {
		return nil, nil
	}
	route, waits := Routing(c).choose(p.ID, p.Amount, p.Currency)
	switch {
	case waits:
		return nil, nil
	case route == "":
		return PaymentFailed{Reason: ReasonNoRoute}, nil
	}
	return PaymentRouteAssigned{Route: route, Amount: p.Amount, Currency: p.Currency, ExpiresAt: p.ExpiresAt}, nil
}

func (c EraseDetails) decidePayment(p Payment) (Event, error) {
	n := utf8.RuneCountInString(c.Reason)
	switch {
	case n == 0:
		return nil, FieldErrors{{Field: "reason", Code: Required}}
	case n > MaxEraseReason:
		return nil, FieldErrors{{Field: "reason", Code: TooLong, Limit: MaxEraseReason, Got: n}}
	case HasControl(c.Reason) || !utf8.ValidString(c.Reason):
		return nil, FieldErrors{{Field: "reason", Code: ControlCharacter}}
	case p.ErasedAt != 0:
		return nil, nil
	case p.Detached:
		return PaymentDetailsErased{ErasedAt: c.At, Reason: c.Reason}, nil
	case p.Description != nil || len(p.Payload) > 0 && !bytes.Equal(p.Payload, EmptyObject()):
		return nil, &Refusal{Code: DetailsInLog}
	}
	return nil, nil
}

// ExpiryDue is the first instant at which ExpirePayment succeeds: the deadline,
// plus Grace for a routed payment, plus MaxAttemptWait while an attempt is open.
func (p Payment) ExpiryDue() Instant {
	if p.Status == Created {
		return p.ExpiresAt
	}
	if _, open := p.OpenAttempt(); open {
		return p.DoorCloses().Add(MaxAttemptWait)
	}
	return p.DoorCloses()
}

// DoorCloses is when an open attempt is cancelled at its provider, so that the
// payment can expire.
func (p Payment) DoorCloses() Instant { return p.ExpiresAt.Add(Grace) }

func (c ExpirePayment) decidePayment(p Payment) (Event, error) {
	switch {
	case !p.Status.CanBecome(Expired):
		return nil, nil
	case c.At < p.ExpiryDue():
		return nil, &TooEarlyError{Until: p.ExpiryDue()}
	}
	return PaymentExpired{Reason: ReasonDeadline}, nil
}

func (c ApplySignal) decidePayment(p Payment) (Event, error) {
	s := c.Signal
	switch {
	case p.Status == Created:
		return nil, &TooEarlyError{}
	case s.Outcome.AboutDispute() && !p.Status.Final():
		return nil, &TooEarlyError{Undecided: true}
	case slices.ContainsFunc(p.Signals, func(o Signal) bool {
		return s.same(o) && (s.startedBefore(p.CreatedAt) == o.startedBefore(p.CreatedAt) || p.counted(o))
	}), c.Earlier != nil && s.same(*c.Earlier):
		return c.saysMore(p), nil
	}
	e := c.decideSignal(p)
	if r, ok := e.(PaymentSignalRefused); ok {
		if !p.records(c.Unrecorded) {
			return nil, &UnrecordedError{Reason: r.Reason}
		}
		r.Unrecorded = c.Unrecorded
		return r, nil
	}
	return e, nil
}

// records reports whether one more refusal is recorded, given the number of
// unrecorded ones before it.
func (p Payment) records(unrecorded uint64) bool {
	return p.Refused < MaxRefused || unrecorded+1 >= p.Refused
}

// counted reports whether what one of Signals is about has changed since, maybe by this signal: money
// was booked, or a refund or a dispute has moved. Else it was refused, and may be said again rightly.
func (p Payment) counted(s Signal) bool {
	switch {
	case s.RefundID != nil:
		r, _ := p.RefundOrReturn(*s.RefundID)
		return r.Status.Final()
	case s.Outcome.AboutDispute():
		_, known := p.Dispute(s.Reference)
		return known
	case s.Outcome == OutcomePaid:
		return slices.Contains(p.BookedReferences(), s.Reference)
	}
	return p.Status.Final()
}

// decideSignal decides a signal that was not recorded before.
func (c ApplySignal) decideSignal(p Payment) Event {
	s := c.Signal
	switch {
	case s.Route != p.Route:
		return refused(s, ReasonWrongRoute)
	case c.Earlier != nil, slices.ContainsFunc(p.Signals, func(o Signal) bool {
		return s.sameAttempt(o) && s.Route == o.Route && (c.Spent || p.counted(o))
	}):
		return refused(s, ReasonReferenceConflict)
	case s.RefundID != nil:
		return c.decideRefundSignal(p)
	case s.Outcome.AboutDispute():
		return c.decideDispute(p)
	case s.startedBefore(p.CreatedAt):
		return refused(s, ReasonStartedEarly)
	case s.Outcome == OutcomePaid && c.ReferenceUsed:
		return refused(s, ReasonReferenceUsed)
	case s.Outcome == OutcomePaid:
		return p.decidePaidSignal(s)
	case s.Amount != p.Amount || s.Currency != p.Currency:
		return refused(s, ReasonWrongAmount)
	case s.Outcome == OutcomeFailed && p.Status.CanBecome(Failed):
		return PaymentFailed{Reason: ReasonProvider, Signal: &s}
	case s.Outcome == OutcomeExpired && p.Status.CanBecome(Expired):
		return PaymentExpired{Reason: ReasonProvider, Signal: &s}
	}
	return refused(s, ReasonFinalStatus)
}

// decidePaidSignal decides whether a signal's money pays the payment or is late
// funds.
func (p Payment) decidePaidSignal(s Signal) Event {
	late := func(reason string) Event { return PaymentLateFunds{Reason: reason, Signal: s} }
	switch {
	case s.Amount != p.Amount || s.Currency != p.Currency:
		return late(ReasonWrongAmount)
	case p.Status == Paid:
		return late(ReasonPaidTwice)
	case p.Status == Expired:
		return late(ReasonAfterExpired)
	case p.Status == Failed:
		return late(ReasonAfterFailed)
	case s.StartedAt > p.ExpiresAt:
		return late(ReasonStartedLate)
	}
	return PaymentPaid{Signal: s}
}

// decideRefundSignal decides what a signal says of a refund, or of a return of
// late funds.
func (c ApplySignal) decideRefundSignal(p Payment) Event {
	s, reason := c.Signal, c.Reason
	r, ok := p.RefundOrReturn(*s.RefundID)
	_, isReturn := p.Return(*s.RefundID)
	succeeded, failed := Event(RefundSucceededEvent{RefundID: r.ID, Signal: s}), Event(RefundFailedEvent{RefundID: r.ID, Reason: reason, Signal: s})
	returned := Event(RefundReturned{RefundID: r.ID, Reason: reason, Signal: s})
	if isReturn {
		succeeded, failed = ReturnSucceeded{ReturnID: r.ID, Signal: s}, ReturnFailed{ReturnID: r.ID, Reason: reason, Signal: s}
		returned = ReturnFailed{ReturnID: r.ID, Returned: true, Reason: reason, Signal: s}
	}
	switch {
	case !ok:
		return refused(s, ReasonUnknownRefund)
	case s.Amount != r.Amount || s.Currency != r.Currency:
		return refused(s, ReasonWrongAmount)
	case s.Outcome == OutcomeSucceeded && r.Status.CanBecome(RefundSucceeded) && c.ReferenceUsed:
		return refused(s, ReasonReferenceUsed)
	case s.Outcome == OutcomeSucceeded && r.Status.CanBecome(RefundSucceeded):
		return succeeded
	case (s.Outcome == OutcomeFailed || s.Outcome == OutcomeReturned) && r.Status.CanBecome(RefundFailed):
		return failed // money that came back before its arrival was heard of, too: nothing is owed to anyone
	case s.Outcome == OutcomeReturned && r.Status == RefundSucceeded && !r.Returned && (!isReturn || !c.NoneBack):
		return returned
	}
	return refused(s, ReasonFinalStatus)
}

func refused(s Signal, reason string) Event { return PaymentSignalRefused{Reason: reason, Signal: s} }

func (c CreateRefund) decidePayment(p Payment) (Event, error) {
	switch {
	case p.Status != Paid:
		return nil, &Refusal{Code: PaymentNotPaid, PaymentStatus: p.Status}
	case p.Disputed() > 0:
		return nil, &Refusal{Code: PaymentDisputedCode}
	}
	for _, r := range p.Refunds {
		switch {
		case r.Holds():
			return nil, &Refusal{Code: RefundExists, RefundID: r.ID, RefundStatus: r.Status}
		case r.ID == c.RefundID:
			// Cannot happen: the caller issues a new id for each object.
			return nil, &Refusal{Code: InternalError}
		}
	}
	return RefundCreated{
		RefundID: c.RefundID, CreatedAt: c.At, Amount: p.Amount, Currency: p.Currency, Idempotency: c.Idempotency,
	}, nil
}

// Refund finds one of the payment's refunds.
func (p Payment) Refund(id ID) (Refund, bool) {
	return Find(p.Refunds, func(r Refund) bool { return r.ID == id })
}

// RefundStatus is what became of the money that paid the payment: the status of its
// last refund, "" for none, or RefundCameBack. Refunds before the last one have failed or
// come back. It is RefundByHand where the provider has returned some of the money by
// another hand and no refund holds.
func (p Payment) RefundStatus() RefundStatus {
	var last RefundStatus
	if len(p.Refunds) > 0 {
		r := p.Refunds[len(p.Refunds)-1]
		if last = r.Status; r.Returned {
			last = RefundCameBack
		}
		if r.Holds() {
			return last
		}
	}
	if p.ReturnedByHand() > 0 {
		return RefundByHand
	}
	return last
}

// ReturnedByHand is how much the provider has returned by another hand of the money
// that paid the payment. Late funds that it returned are not in it.
func (p Payment) ReturnedByHand() (total Amount) {
	for _, r := range p.ProviderRefunds {
		if p.paidBy(r) {
			total += r.Amount
		}
	}
	return total
}

// Returned is how much of the money that paid the payment the customer has back, by
// a refund or by another hand.
func (p Payment) Returned() Amount {
	total := p.ReturnedByHand()
	for _, r := range p.Refunds {
		if r.Status == RefundSucceeded && !r.Returned {
			total += r.Amount
		}
	}
	return total
}

// paidBy reports whether a refund by another hand is of the money that paid the payment.
func (p Payment) paidBy(r ProviderRefund) bool {
	return p.PaidReference != "" && p.PaidReference == r.Reference && p.Currency == r.Currency
}

// Find finds the first element that matches.
func Find[T any](all []T, match func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i], true
	}
	return found, false
}
