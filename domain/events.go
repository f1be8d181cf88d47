package domain

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Event is something that happened, in the shape in which it is recorded.
// Events are values; once one has been recorded its wire name and its meaning
// never change. A changed shape is a new version in Events and an upcaster
// from the old one.
//
// What the program needs to know of a type of event stands with the event: an
// event that lacks one of its methods does not compile.
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
	// origin is the command that the event must have come from, and the state in
	// which the command was decided: p, without what only newer rules look at.
	// What the event does not tell, such as the project's settings of that
	// moment, is taken as the event needs it, within the limits that always hold.
	// The error says that no command leads to the event.
	//
	// When a rule changes, events recorded under the old rule must stay possible.
	origin(Payment, Recorded) (Payment, PaymentCommand, error)
}

// ProjectEvent is an event of a project's stream.
type ProjectEvent interface {
	Event
	evolveProject(Project) Project
	// origin is the command that an event recorded at the instant must have come
	// from, as for payments.
	origin(Project, Instant) (ProjectCommand, error)
}

// Facts are what claims, books, exports and answers to signals read of any event
// of a payment.
type Facts struct {
	Refund      ID           // the refund it is about; zero: the payment itself
	Reason      string       // "": it has none
	Idempotency *Idempotency // of the request for what it creates; nil: none
	Signal      *Signal      // that led to it; nil: none
	Result      string       // of the signal: SignalApplied, SignalRefused or SignalLateFunds

	// ReferenceSince is the version of the event from which on it claims the
	// signal's reference, whose money it books: no other event may book money
	// under that reference, whatever payment it is of. 0: it books none.
	ReferenceSince int
}

// FactsOf are the facts of a payment's event, and nothing for any other.
func FactsOf(e Event) Facts {
	if p, ok := e.(PaymentEvent); ok {
		return p.facts()
	}
	return Facts{}
}

// Recorded is what an event's record says beside the event.
type Recorded struct {
	At      Instant
	Version int // of the event's shape and rules: see Events
}

// Redecide checks that the rules lead from the payment's state to the event: it
// decides the command again that the event must have come from, and compares.
// The error says why the event cannot have been recorded in this state.
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
	return sameEvent(got, err, e, "a payment that is ", string(p.Status))
}

// Redecide is that of a payment for an event recorded at the instant.
func (p Project) Redecide(e Event, at Instant) error {
	of, ok := e.(ProjectEvent)
	if !ok {
		return errors.New("it is no event of a project")
	}
	cmd, err := of.origin(p, at)
	if err != nil {
		return err
	}
	got, err := p.Decide(cmd)
	return sameEvent(got, err, e, "this project", "")
}

// sameEvent says why an event is not the one that was decided. The state is
// named in two parts, which are put together only when something is wrong.
func sameEvent(got Event, err error, e Event, what, state string) error {
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

// Wire names. They are part of the interface to auditors and subscribers.
const (
	TypePaymentCreated          = "payment.created"
	TypePaymentRouteAssigned    = "payment.route_assigned"
	TypePaymentPaid             = "payment.paid"
	TypePaymentExpired          = "payment.expired"
	TypePaymentFailed           = "payment.failed"
	TypePaymentSignalRefused    = "payment.signal_refused"
	TypePaymentLateFunds        = "payment.late_funds"
	TypeRefundCreated           = "refund.created"
	TypeRefundSucceeded         = "refund.succeeded"
	TypeRefundFailed            = "refund.failed"
	TypeProjectRegistered       = "project.registered"
	TypeProjectChanged          = "project.changed"
	TypeProjectDisabled         = "project.disabled"
	TypeKeyIssued               = "key.issued"
	TypeKeyRevoked              = "key.revoked"
	TypeWebhookEndpointAdded    = "webhook_endpoint.added"
	TypeWebhookEndpointChanged  = "webhook_endpoint.changed"
	TypeWebhookEndpointDisabled = "webhook_endpoint.disabled"
	TypeWebhookEndpointEnabled  = "webhook_endpoint.enabled"
	TypeWebhookEndpointRemoved  = "webhook_endpoint.removed"
	TypeWebhookSecretRotated    = "webhook_secret.rotated"
)

// EventType is one row of the registry of events.
type EventType struct {
	Name    string
	Version int   // of the shape that is written now
	Sample  Event // every member set; the golden encoding is made from it

	// New returns a pointer to decode into, Value the event behind it.
	New   func() any
	Value func(any) Event
}

// Events is the registry: every event there is, with the version of its
// present shape, or of the rules that lead to it:
//
//   - payment.paid and payment.late_funds have version 2 since an attempt must
//     not have begun before its payment, and a reference's money is booked once.
//     What was recorded as version 1 stays.
func Events() []EventType {
	at := Instant(1795169730123)
	id := ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	order := "order-1042"
	endpoint := "we_01M7W78FJBM8T4R7B5N0C1D2E3"
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
	settings := DefaultSettings()
	settings.RequireIdempotencyKey = true
	claim := &Idempotency{Key: Digest{1, 2, 3}, Fingerprint: Digest{4, 5, 6}}
	return []EventType{
		eventType(1, PaymentCreated{
			CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 150000, Currency: DefaultCurrency,
			Description: &order, Payload: JSON(`{"cart":7}`),
			Link:        Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
			Idempotency: claim,
		}),
		eventType(1, PaymentRouteAssigned{Route: "sandbox"}),
		eventType(2, PaymentPaid{Signal: paid}),
		eventType(1, PaymentExpired{Reason: ReasonProvider, Signal: &expired}),
		eventType(1, PaymentFailed{Reason: ReasonProvider, Signal: &failed}),
		eventType(2, PaymentSignalRefused{Reason: ReasonWrongRoute, Signal: paid, Unrecorded: 99}),
		eventType(2, PaymentLateFunds{Reason: ReasonPaidTwice, Signal: paid}),
		eventType(1, RefundCreated{
			RefundID: id, CreatedAt: at, Amount: 150000, Currency: DefaultCurrency, Idempotency: claim,
		}),
		eventType(1, RefundSucceededEvent{RefundID: id, Signal: signal(OutcomeSucceeded, &id)}),
		eventType(1, RefundFailedEvent{RefundID: id, Signal: signal(OutcomeFailed, &id)}),
		eventType(1, ProjectRegistered{Name: "Чайная лавка", Settings: settings}),
		eventType(1, ProjectChanged{Name: "Чайная лавка", Settings: settings}),
		eventType(1, ProjectDisabled{}),
		eventType(2, KeyIssued{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3", Hash: Digest{7, 8, 9}, Scopes: AllScopes()}),
		eventType(1, KeyRevoked{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3"}),
		eventType(1, WebhookEndpointAdded{
			EndpointID: endpoint, CreatedAt: at, URL: "https://shop.example.com/hooks", Kinds: FinalKinds(), Description: &order, KeyVersion: 1,
		}),
		eventType(1, WebhookEndpointChanged{
			EndpointID: endpoint, URL: "https://shop.example.com/hooks", Kinds: Kinds(), Description: &order,
		}),
		eventType(1, WebhookEndpointDisabled{At: at, EndpointID: endpoint, Reason: DisabledFailing}),
		eventType(1, WebhookEndpointEnabled{EndpointID: endpoint}),
		eventType(1, WebhookEndpointRemoved{EndpointID: endpoint}),
		eventType(1, WebhookSecretRotated{EndpointID: endpoint, Generation: 2, KeyVersion: 1, PreviousUntil: at.Add(DefaultSecretOverlap)}),
	}
}

func eventType[E Event](version int, sample E) EventType {
	return EventType{
		Name:    sample.Type(),
		Version: version,
		Sample:  sample,
		New:     func() any { return new(E) },
		Value:   func(p any) Event { return *p.(*E) },
	}
}
