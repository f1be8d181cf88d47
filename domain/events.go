package domain

import "time"

// Event is something that happened, in the shape in which it is recorded.
// Events are values; once one has been recorded its wire name and its meaning
// never change. A changed shape is a new version in Events and an upcaster
// from the old one.
type Event interface {
	// Type is the wire name, for instance "payment.paid".
	Type() string
}

// PaymentEvent is an event of a payment's stream.
type PaymentEvent interface {
	Event
	evolvePayment(Payment) Payment
	postings() []Posting
}

// ProjectEvent is an event of a project's stream.
type ProjectEvent interface {
	Event
	evolveProject(Project) Project
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
