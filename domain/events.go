package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Event is a recorded fact, in the form in which it is stored. Events are
// values. The wire name and the meaning of a recorded event never change; a
// changed form is a new version in Events and, unless the old one can be read as it is, a step from it
// in package eventstore.
//
// All properties of an event type are methods of the type: an event type that
// lacks one does not compile.
type Event interface {
	// Type is the wire name, for instance "payment.paid".
	Type() string
}

// PaymentEvent is an event of a payment's stream.
type PaymentEvent interface {
	Event
	evolvePayment(Payment) Payment
	postings() []Posting
	facts() Facts
	// origin returns the command that must have led to the event, and the state in
	// which it was decided: p, without the members that only newer rules read.
	// Inputs that the event does not record, such as the project's settings at that
	// time, are set to values that lead to the event, within the fixed limits.
	// The error says that no command leads to the event.
	//
	// When a rule changes, events recorded under the old rule must stay possible.
	origin(Payment, Recorded) (Payment, PaymentCommand, error)
}

// Facts are the properties of a payment's event, in the same form for every
// type, that claims, books, exports and replies to signals read.
type Facts struct {
	Refund      ID           // its refund; zero: the event is about the payment itself
	Reason      string       // "": none
	Idempotency *Idempotency // of the request that created the payment or refund; nil: none
	Signal      *Signal      // the signal that led to it; nil: none
	Result      string       // of Signal: SignalApplied, SignalRefused or SignalLateFunds

	// ReferenceSince is the first version of the event type that claims the
	// signal's reference: no other event, of any payment, may book money that came in
	// or went back under the same reference. 0: the event books no money of a signal.
	ReferenceSince int
}

// FactsOf returns the facts of a payment's event, zero Facts for other events.
func FactsOf(e Event) Facts {
	if p, ok := e.(PaymentEvent); ok {
		return p.facts()
	}
	return Facts{}
}

// Recorded holds the members of an event's record that Redecide needs.
type Recorded struct {
	At      Instant
	Version int // of the event's form and rules: see Events
}

// Redecide checks that the rules lead from the payment's state to the event: it
// decides again the command that must have led to the event, and compares the
// results. The error says why the event cannot have been recorded in this state.
func (p Payment) Redecide(e Event, r Recorded) error {
	of, ok := e.(PaymentEvent)
	if !ok {
		return errors.New("it is no event of a payment")
	}
	before, cmd, err := of.origin(p, r)
	if err != nil {
		return err
	}
	if _, creates := cmd.(CreatePayment); p.Status == "" && !creates {
		return errors.New("the payment was not created before")
	}
	got, err := before.Decide(cmd)
	return SameEvent(got, err, e, "a payment that is ", string(p.Status))
}

// SameEvent returns an error unless the decision (got, err) is the event e. what
// and state together name the state in the error; they are joined only for an
// error.
func SameEvent(got Event, err error, e Event, what, state string) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s cannot be of %s%s: %w", e.Type(), what, state, err)
	case got == nil:
		return fmt.Errorf("%s cannot be of %s%s: there was nothing left to do", e.Type(), what, state)
	case got.Type() != e.Type():
		return fmt.Errorf("%s cannot be of %s%s: the rules lead to %s", e.Type(), what, state, got.Type())
	case (!reflect.TypeOf(e).Comparable() || got != e) && !reflect.DeepEqual(got, e):
		return fmt.Errorf("%s of %s%s has members that the rules do not lead to", e.Type(), what, state)
	}
	return nil
}

// Wire names of events, part of the interface to auditors and subscribers.
const (
	TypePaymentCreated        = "payment.created"
	TypePaymentRouteAssigned  = "payment.route_assigned"
	TypePaymentPaid           = "payment.paid"
	TypePaymentExpired        = "payment.expired"
	TypePaymentFailed         = "payment.failed"
	TypePaymentSignalRefused  = "payment.signal_refused"
	TypePaymentLateFunds      = "payment.late_funds"
	TypePaymentAttemptBegun   = "payment.attempt_begun"
	TypePaymentAttemptOffered = "payment.attempt_offered"
	TypePaymentAttemptFailed  = "payment.attempt_failed"

	TypePaymentRefundedAtProvider = "payment.refunded_at_provider"
	TypePaymentSuspenseSettled    = "payment.suspense_settled"
	TypePaymentDetailsErased      = "payment.details_erased"

	TypePaymentDisputed    = "payment.disputed"
	TypePaymentDisputeWon  = "payment.dispute_won"
	TypePaymentDisputeLost = "payment.dispute_lost"

	TypeRefundCreated   = "refund.created"
	TypeRefundSucceeded = "refund.succeeded"
	TypeRefundFailed    = "refund.failed"
	TypeRefundReturned  = "refund.returned"
	TypeReturnCreated   = "return.created"
	TypeReturnSucceeded = "return.succeeded"
	TypeReturnFailed    = "return.failed"
)

// EventType is one row of the registry of events.
type EventType struct {
	Name    string
	Version int   // that is written now
	Sample  Event // with every member set; source of the golden encoding

	// New returns a pointer to decode into. Value returns the event it points to.
	New   func() any
	Value func(any) Event
}

// Events is the registry of the event types of payments. A version changes with the form of
// the event or with the rules that lead to it:
//
//   - payment.created, version 2: it has the payment's route.
//   - payment.paid and payment.late_funds, version 2: an attempt must not begin
//     before its payment, and the money of a reference is booked once. Events
//     recorded as version 1 stay valid.
//   - payment.route_assigned, version 2: it also has the payment's amount,
//     currency and deadline.
//   - refund.failed, version 2: it has the provider's reason, if there was one.
//   - payment.refunded_at_provider, version 2: it has the late funds, if these came back, version 3: the
//     money was booked for the payment.
//   - payment.disputed, version 2: it says whether the dispute was open before.
//   - refund.succeeded and return.succeeded, version 2: one reference of a provider
//     is of one refund or return.
//   - return.failed and payment.dispute_won, version 2, and payment.signal_refused, version 3: money of a
//     return or of a lost dispute may come back.
//   - payment.signal_refused, version 4: what a refused signal said may be said again rightly.
func Events() []EventType {
	at := Instant(1795169730123)
	id := ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	order := "order-1042"
	paid := Signal{
		Route: "sandbox", Outcome: OutcomePaid, Reference: "prv-77", Amount: 150000,
		Currency: DefaultCurrency, StartedAt: at,
	}
	signal := func(o Outcome, refund *ID) Signal {
		s := paid
		s.Outcome, s.RefundID = o, refund
		return s
	}
	expired, failed := signal(OutcomeExpired, nil), signal(OutcomeFailed, nil)
	apart := Digest(sha256.Sum256(append(make([]byte, 32), `{"description":"order-1042","payload":{"cart":7}}`...))) // with a salt of zeros
	claim := &Idempotency{Key: Digest{1, 2, 3}, Fingerprint: Digest{4, 5, 6}}
	return []EventType{
		NewEventType(2, PaymentCreated{
			CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 150000, Currency: DefaultCurrency,
			Description: &order, Payload: JSON(`{"cart":7}`),
			Link:        Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
			Idempotency: claim, Route: "sandbox", Details: &apart,
		}),
		NewEventType(2, PaymentRouteAssigned{Route: "sandbox", Amount: 150000, Currency: DefaultCurrency, ExpiresAt: at.Add(time.Hour)}),
		NewEventType(2, PaymentPaid{Signal: paid}),
		NewEventType(1, PaymentExpired{Reason: ReasonProvider, Signal: &expired}),
		NewEventType(1, PaymentFailed{Reason: ReasonProvider, Signal: &failed}),
		NewEventType(4, PaymentSignalRefused{Reason: ReasonWrongRoute, Signal: paid, Unrecorded: 99}),
		NewEventType(2, PaymentLateFunds{Reason: ReasonPaidTwice, Signal: paid}),
		NewEventType(1, RefundCreated{
			RefundID: id, CreatedAt: at, Amount: 150000, Currency: DefaultCurrency, Idempotency: claim,
		}),
		NewEventType(2, RefundSucceededEvent{RefundID: id, Signal: signal(OutcomeSucceeded, &id)}),
		NewEventType(2, RefundFailedEvent{RefundID: id, Reason: "insufficient_funds", Signal: signal(OutcomeFailed, &id)}),
		NewEventType(1, RefundReturned{RefundID: id, Reason: "account_closed", Signal: signal(OutcomeReturned, &id)}),
		NewEventType(1, PaymentAttemptBegun{
			Attempt: 1, Key: "01M1R78FJBM8T4R7B5N0C1D2E3-1", BegunAt: at, Language: "ru", Merchant: "Чайная лавка",
		}),
		NewEventType(1, PaymentAttemptOffered{Attempt: 1, Reference: "prv-77", HandOff: HandOffRedirect, ExpiresAt: at.Add(time.Hour)}),
		NewEventType(1, PaymentAttemptFailed{Attempt: 1, Reason: "card_declined"}),
		NewEventType(3, PaymentRefundedAtProvider{
			Route: "sandbox", Reference: "prv-77", RefundReference: "prv-r-78", Amount: 150000, Currency: DefaultCurrency,
			LateFunds: &LateFund{Reference: "prv-77", Reason: ReasonPaidTwice, Amount: 150000, Currency: DefaultCurrency},
		}),
		NewEventType(1, PaymentSuspenseSettled{
			Reference: "prv-77", Debit: MerchantPayable, Credit: Suspense, Amount: 150000, Currency: DefaultCurrency,
			Reason: "Возвращено в кабинете по просьбе магазина",
		}),
		NewEventType(1, PaymentDetailsErased{ErasedAt: at, Reason: "По просьбе покупателя"}),
		NewEventType(2, PaymentDisputed{Opened: true, Reason: "fraudulent", EvidenceDueBy: at.Add(time.Hour), Signal: signal(OutcomeDisputed, nil)}),
		NewEventType(2, PaymentDisputeWon{Opened: true, Lost: true, Signal: signal(OutcomeDisputeWon, nil)}),
		NewEventType(1, PaymentDisputeLost{Opened: true, Signal: signal(OutcomeDisputeLost, nil)}),
		NewEventType(1, ReturnCreated{ReturnID: id, CreatedAt: at, Reference: "prv-77", Amount: 150000, Currency: DefaultCurrency}),
		NewEventType(2, ReturnSucceeded{ReturnID: id, Signal: signal(OutcomeSucceeded, &id)}),
		NewEventType(2, ReturnFailed{ReturnID: id, Returned: true, Reason: "account_closed", Signal: signal(OutcomeReturned, &id)}),
	}
}

// NewEventType returns the row of an event type, given by its sample.
func NewEventType[E Event](version int, sample E) EventType {
	return EventType{
		Name:    sample.Type(),
		Version: version,
		Sample:  sample,
		New:     func() any { return new(E) },
		Value:   func(p any) Event { return *p.(*E) },
	}
}
