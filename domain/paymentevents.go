package domain

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Idempotency holds the digests of a command's idempotency key and of the
// request.
type Idempotency struct {
	Key         Digest `json:"key"`
	Fingerprint Digest `json:"fingerprint"`
}

// Link holds all inputs of the payment link and the creation response, so that
// both stay the same when the program's settings change.
type Link struct {
	Base       string `json:"base"`        // public URL without a trailing slash
	KeyVersion int    `json:"key_version"` // version of the master key that makes the token
	Render     int    `json:"render"`      // version of the creation response's form
}

// PaymentCreated opens a payment's stream. With a route the payment awaits its money at
// once; without one it waits for PaymentRouteAssigned, because every route that takes it
// is paused, or because the event is of version 1, which had neither route nor details.
type PaymentCreated struct {
	CreatedAt   Instant      `json:"created_at"`
	ExpiresAt   Instant      `json:"expires_at"`
	Amount      Amount       `json:"amount"`
	Currency    Currency     `json:"currency"`
	Description *string      `json:"description"`
	Payload     JSON         `json:"payload"`
	Link        Link         `json:"link"`
	Idempotency *Idempotency `json:"idempotency,omitempty"`
	Route       string       `json:"route,omitempty"` // the provider channel that collects the money
	// Details commits to a description and payload that are stored outside the event. What is stored
	// of the event has null and {} in their place; so has the event once they are erased.
	Details *Digest `json:"details,omitempty"`
}

func (PaymentCreated) Type() string { return TypePaymentCreated }

func (e PaymentCreated) evolvePayment(p Payment) Payment {
	if !p.Status.CanBecome(Created) {
		return p
	}
	p.Status = Created
	if e.Route != "" {
		p.Status, p.Route = AwaitingPayment, e.Route
	}
	p.Amount, p.Currency = e.Amount, e.Currency
	p.Description, p.Payload, p.Detached = e.Description, e.Payload, e.Details != nil
	p.CreatedAt, p.ExpiresAt, p.Link = e.CreatedAt, e.ExpiresAt, e.Link
	return p
}

func (PaymentCreated) postings() []Posting { return nil }

func (e PaymentCreated) facts() Facts { return Facts{Idempotency: e.Idempotency} }

func (e PaymentCreated) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	if p.Status != "" {
		return p, nil, errors.New("the payment was created before")
	}
	if len(e.Payload) == 0 || e.Payload[0] != '{' {
		return p, nil, errors.New("the payload is not a JSON object")
	}
	if r.Version < 2 && (e.Route != "" || e.Details != nil) {
		return p, nil, errors.New("version 1 has neither route nor details")
	}
	var routing *Routing
	if e.Route != "" {
		routing = &Routing{Table: RoutingTable{{Route: e.Route, Min: MinAmount, Max: MaxAmount, Weight: 1}}}
		if err := routing.Table.Validate(); err != nil {
			return p, nil, err
		}
	}
	lifetime := e.ExpiresAt - e.CreatedAt
	settings := Settings{Currencies: []Currency{e.Currency}, MaxAmount: MaxAmount, LifetimeSeconds: int(lifetime / 1000)}
	if d := time.Duration(lifetime) * time.Millisecond; d < MinLifetime || d > MaxLifetime {
		return p, nil, fmt.Errorf("it expires %s after its creation, which no project can set", d)
	}
	return p, CreatePayment{
		At: e.CreatedAt, Amount: e.Amount, Currency: e.Currency, Description: e.Description, Payload: e.Payload,
		Settings: settings, Link: e.Link, Idempotency: e.Idempotency, Routing: routing, Details: e.Details,
	}, r.creates(p.ID, e.CreatedAt)
}

// HasDetails reports whether the event has a description, or a payload with members.
func (e PaymentCreated) HasDetails() bool {
	return e.Description != nil || len(e.Payload) > 0 && !bytes.Equal(e.Payload, EmptyObject())
}

// WithoutDetails is the event with null and {} in place of its description and payload.
func (e PaymentCreated) WithoutDetails() PaymentCreated {
	e.Description, e.Payload = nil, EmptyObject()
	return e
}

// Erased reports whether the payment's details are gone: only one that had some commits to them.
func (e PaymentCreated) Erased() bool { return e.Details != nil && !e.HasDetails() }

// PaymentDetailsErased records that the payment's description and payload were removed for good:
// from then on they are null and {}. Who did it is in the record's cause. The reason is for people
// and stays in the log.
type PaymentDetailsErased struct {
	ErasedAt Instant `json:"erased_at"`
	Reason   string  `json:"reason"`
}

func (PaymentDetailsErased) Type() string { return TypePaymentDetailsErased }

func (e PaymentDetailsErased) evolvePayment(p Payment) Payment {
	p.Description, p.Payload, p.ErasedAt = nil, EmptyObject(), e.ErasedAt
	return p
}

func (PaymentDetailsErased) postings() []Posting { return nil }

func (e PaymentDetailsErased) facts() Facts { return Facts{Reason: e.Reason} }

func (e PaymentDetailsErased) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	if r.At != e.ErasedAt {
		return p, nil, fmt.Errorf("it was recorded at %s and says %s", r.At, e.ErasedAt)
	}
	return p, EraseDetails{At: e.ErasedAt, Reason: e.Reason}, nil
}

// PaymentRouteAssigned names the route of a payment that was created without one. The payment now
// awaits the money. The event has all that a connector needs to collect it. In version 1 it had
// only the route: then the other members are zero, and payment.created has them.
type PaymentRouteAssigned struct {
	Route     string   `json:"route"`
	Amount    Amount   `json:"amount,omitzero"`
	Currency  Currency `json:"currency,omitzero"`
	ExpiresAt Instant  `json:"expires_at,omitzero"` // the payment's deadline
}

func (PaymentRouteAssigned) Type() string { return TypePaymentRouteAssigned }

func (e PaymentRouteAssigned) evolvePayment(p Payment) Payment {
	if p.Status == Created {
		p.Status, p.Route = AwaitingPayment, e.Route
	}
	return p
}

func (PaymentRouteAssigned) postings() []Posting { return nil }

func (PaymentRouteAssigned) facts() Facts { return Facts{} }

func (e PaymentRouteAssigned) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	table := RoutingTable{{Route: e.Route, Min: MinAmount, Max: MaxAmount, Weight: 1}}
	err := table.Validate()
	if r.Version < 2 { // it repeated nothing of the payment
		p.Amount, p.Currency, p.ExpiresAt = 0, "", 0
		table[0].Min = 0
	}
	return p, AssignRoute{Table: table}, err
}

// PaymentPaid records that the money was received.
type PaymentPaid struct {
	Signal Signal `json:"signal"`
}

func (PaymentPaid) Type() string { return TypePaymentPaid }

func (e PaymentPaid) evolvePayment(p Payment) Payment {
	if p.Status.CanBecome(Paid) {
		p.Status, p.PaidReference = Paid, e.Signal.Reference
	}
	return p.remember(&e.Signal).collected(e.Signal)
}

func (e PaymentPaid) postings() []Posting {
	return entry(AcquirerReceivable(e.Signal.Route), MerchantPayable, e.Signal.Amount, e.Signal.Currency)
}

func (e PaymentPaid) facts() Facts {
	return Facts{Signal: &e.Signal, Result: SignalApplied, ReferenceSince: 2}
}

func (e PaymentPaid) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, r.Version >= 2)
}

// PaymentExpired records that the payment expired.
type PaymentExpired struct {
	Reason string  `json:"reason"` // ReasonDeadline or ReasonProvider
	Signal *Signal `json:"signal,omitempty"`
}

func (PaymentExpired) Type() string { return TypePaymentExpired }

func (e PaymentExpired) evolvePayment(p Payment) Payment {
	if p.Status.CanBecome(Expired) {
		p.Status = Expired
	}
	return p.remember(e.Signal)
}

func (PaymentExpired) postings() []Posting { return nil }

func (e PaymentExpired) facts() Facts {
	return Facts{Signal: e.Signal, Result: SignalApplied, Reason: e.Reason}
}

func (e PaymentExpired) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	if e.Signal != nil {
		return e.Signal.origin(p, false) // the version is the same under both rules
	}
	return p, ExpirePayment{At: r.At}, nil
}

// PaymentFailed records that the payment failed.
type PaymentFailed struct {
	Reason string  `json:"reason"` // ReasonNoRoute or ReasonProvider
	Signal *Signal `json:"signal,omitempty"`
}

func (PaymentFailed) Type() string { return TypePaymentFailed }

func (e PaymentFailed) evolvePayment(p Payment) Payment {
	if p.Status.CanBecome(Failed) {
		p.Status, p.FailureReason = Failed, e.Reason
	}
	return p.remember(e.Signal)
}

func (PaymentFailed) postings() []Posting { return nil }

func (e PaymentFailed) facts() Facts {
	return Facts{Signal: e.Signal, Result: SignalApplied, Reason: e.Reason}
}

func (e PaymentFailed) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	if e.Signal != nil {
		return e.Signal.origin(p, false) // the version is the same under both rules
	}
	return p, AssignRoute{}, nil // with a table that has no route for it
}

// PaymentSignalRefused records a provider's signal that changed nothing. When a
// payment has many, only some are recorded: see MaxRefused.
type PaymentSignalRefused struct {
	Reason     string `json:"reason"`
	Signal     Signal `json:"signal"`
	Unrecorded uint64 `json:"unrecorded,omitzero"` // at least this many were refused without an event since the one before
}

func (PaymentSignalRefused) Type() string { return TypePaymentSignalRefused }

func (e PaymentSignalRefused) evolvePayment(p Payment) Payment {
	if p.Refused < MaxRefused {
		p = p.remember(&e.Signal)
	}
	p.Refused += 1 + e.Unrecorded
	return p
}

func (PaymentSignalRefused) postings() []Posting { return nil }

func (e PaymentSignalRefused) facts() Facts {
	return Facts{Signal: &e.Signal, Result: SignalRefused, Reason: e.Reason}
}

func (e PaymentSignalRefused) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	if r.Version < 2 {
		p.Refused = 0 // version 1 recorded every one
	}
	p, _, err := e.Signal.origin(p, r.Version >= 2 || e.Reason == ReasonStartedEarly)
	apply := ApplySignal{Signal: e.Signal, Unrecorded: e.Unrecorded, ReferenceUsed: e.Reason == ReasonReferenceUsed, NoneBack: r.Version < 3, Spent: r.Version < 4}
	if e.Reason == ReasonReferenceConflict && p.LateFunds > MaxLateFunds {
		// The reference may be of late funds that are not in Signals, which
		// cannot be checked here.
		other := e.Signal
		other.Amount++
		apply.Earlier = &other
	}
	return p, apply, err
}

// PaymentLateFunds records received money that does not pay the payment. It is a liability until
// the operator clears it.
type PaymentLateFunds struct {
	Reason string `json:"reason"`
	Signal Signal `json:"signal"`
}

func (PaymentLateFunds) Type() string { return TypePaymentLateFunds }

func (e PaymentLateFunds) evolvePayment(p Payment) Payment {
	if p.LateFunds < MaxLateFunds {
		p = p.remember(&e.Signal)
		p.Late = append(slices.Clip(p.Late), e.Fund())
	}
	p.LateFunds++
	return p.collected(e.Signal)
}

// Fund is the money.
func (e PaymentLateFunds) Fund() LateFund {
	return LateFund{Reference: e.Signal.Reference, Reason: e.Reason, Amount: e.Signal.Amount, Currency: e.Signal.Currency}
}

func (e PaymentLateFunds) postings() []Posting {
	return entry(AcquirerReceivable(e.Signal.Route), Suspense, e.Signal.Amount, e.Signal.Currency)
}

func (e PaymentLateFunds) facts() Facts {
	return Facts{Signal: &e.Signal, Result: SignalLateFunds, Reason: e.Reason, ReferenceSince: 2}
}

func (e PaymentLateFunds) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, r.Version >= 2)
}

// RefundCreated records that a refund of the whole payment was requested.
type RefundCreated struct {
	RefundID    ID           `json:"refund_id"`
	CreatedAt   Instant      `json:"created_at"`
	Amount      Amount       `json:"amount"`
	Currency    Currency     `json:"currency"`
	Idempotency *Idempotency `json:"idempotency,omitempty"`
}

func (RefundCreated) Type() string { return TypeRefundCreated }

func (e RefundCreated) evolvePayment(p Payment) Payment {
	if _, ok := p.Refund(e.RefundID); !ok {
		p.Refunds = append(slices.Clip(p.Refunds), e.Refund())
	}
	return p
}

func (e RefundCreated) postings() []Posting {
	return entry(MerchantPayable, RefundsInFlight, e.Amount, e.Currency)
}

func (e RefundCreated) facts() Facts { return Facts{Refund: e.RefundID, Idempotency: e.Idempotency} }

func (e RefundCreated) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	return p, CreateRefund{At: e.CreatedAt, RefundID: e.RefundID, Idempotency: e.Idempotency}, r.creates(e.RefundID, e.CreatedAt)
}

// Refund is the refund as it was created.
func (e RefundCreated) Refund() Refund {
	return Refund{ID: e.RefundID, Status: RefundPending, Amount: e.Amount, Currency: e.Currency, CreatedAt: e.CreatedAt}
}

// RefundSucceededEvent records that the money was returned.
type RefundSucceededEvent struct {
	RefundID ID     `json:"refund_id"`
	Signal   Signal `json:"signal"`
}

func (RefundSucceededEvent) Type() string { return TypeRefundSucceeded }

func (e RefundSucceededEvent) evolvePayment(p Payment) Payment {
	return p.settle(e.RefundID, RefundSucceeded).remember(&e.Signal)
}

func (e RefundSucceededEvent) postings() []Posting {
	return entry(RefundsInFlight, AcquirerReceivable(e.Signal.Route), e.Signal.Amount, e.Signal.Currency)
}

func (e RefundSucceededEvent) facts() Facts {
	return Facts{Refund: e.RefundID, Signal: &e.Signal, Result: SignalApplied, ReferenceSince: 2}
}

func (e RefundSucceededEvent) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, true)
}

// RefundFailedEvent records that the money could not be returned.
type RefundFailedEvent struct {
	RefundID ID     `json:"refund_id"`
	Reason   string `json:"reason,omitempty"` // the provider's, as a code; "": it gave none
	Signal   Signal `json:"signal"`
}

func (RefundFailedEvent) Type() string { return TypeRefundFailed }

func (e RefundFailedEvent) evolvePayment(p Payment) Payment {
	return p.settle(e.RefundID, RefundFailed).remember(&e.Signal)
}

func (e RefundFailedEvent) postings() []Posting {
	return entry(RefundsInFlight, MerchantPayable, e.Signal.Amount, e.Signal.Currency)
}

func (e RefundFailedEvent) facts() Facts {
	return Facts{Refund: e.RefundID, Reason: e.Reason, Signal: &e.Signal, Result: SignalApplied}
}

func (e RefundFailedEvent) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	p, _, err := e.Signal.origin(p, true)
	return p, ApplySignal{Signal: e.Signal, Reason: e.Reason}, errors.Join(err, validReason(e.Reason))
}

// RefundReturned records that the money of a refund that had succeeded came back: the
// merchant has it again. The refund stays succeeded.
type RefundReturned struct {
	RefundID ID     `json:"refund_id"`
	Reason   string `json:"reason,omitempty"` // the provider's, as a code; "": it gave none
	Signal   Signal `json:"signal"`
}

func (RefundReturned) Type() string { return TypeRefundReturned }

func (e RefundReturned) evolvePayment(p Payment) Payment {
	p.Refunds = slices.Clone(p.Refunds)
	for i, r := range p.Refunds {
		p.Refunds[i].Returned = r.Returned || r.ID == e.RefundID && r.Status == RefundSucceeded
	}
	return p.remember(&e.Signal)
}

func (e RefundReturned) postings() []Posting {
	return entry(AcquirerReceivable(e.Signal.Route), MerchantPayable, e.Signal.Amount, e.Signal.Currency)
}

func (e RefundReturned) facts() Facts {
	return Facts{Refund: e.RefundID, Reason: e.Reason, Signal: &e.Signal, Result: SignalApplied}
}

func (e RefundReturned) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	p, _, err := e.Signal.origin(p, true)
	return p, ApplySignal{Signal: e.Signal, Reason: e.Reason}, errors.Join(err, validReason(e.Reason))
}

func (p Payment) remember(s *Signal) Payment {
	if s != nil {
		p.Signals = append(slices.Clip(p.Signals), *s)
	}
	return p
}

func (p Payment) settle(id ID, to RefundStatus) Payment {
	p.Refunds = slices.Clone(p.Refunds)
	for i, r := range p.Refunds {
		if r.ID == id && r.Status.CanBecome(to) {
			p.Refunds[i].Status = to
		}
	}
	return p
}

// origin is PaymentEvent.origin of an event that the signal led to. knowsStart:
// the event was recorded under the rule that an attempt must not begin before
// its payment was created.
func (s Signal) origin(p Payment, knowsStart bool) (Payment, PaymentCommand, error) {
	if !knowsStart {
		p.CreatedAt = 0
	}
	return p, ApplySignal{Signal: s}, s.Validate()
}

// creates checks that the id and created_at of an object have the time of the
// event that creates it.
func (r Recorded) creates(id ID, at Instant) error {
	if r.At != at || r.At != IDTime(id) {
		return fmt.Errorf("it was recorded at %s, says it was created at %s, and has an id of %s", r.At, at, IDTime(id))
	}
	return nil
}
