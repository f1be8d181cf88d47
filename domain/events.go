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

// Idempotency remembers, as digests, under which idempotency key a command
// came and what it asked for.
type Idempotency struct {
	Key         Digest `json:"key"`
	Fingerprint Digest `json:"fingerprint"`
}

// Link is everything the payment link and the creation answer depend on, so
// that both stay the same when the program's settings change.
type Link struct {
	Base       string `json:"base"`        // public URL without a trailing slash
	KeyVersion int    `json:"key_version"` // master key the token is made with
	Render     int    `json:"render"`      // version of the creation answer's form
}

// PaymentCreated opens a payment's stream.
type PaymentCreated struct {
	CreatedAt   Instant      `json:"created_at"`
	ExpiresAt   Instant      `json:"expires_at"`
	Amount      Amount       `json:"amount"`
	Currency    Currency     `json:"currency"`
	Description *string      `json:"description"`
	Payload     JSON         `json:"payload"`
	Link        Link         `json:"link"`
	Idempotency *Idempotency `json:"idempotency,omitempty"`
}

// PaymentRouteAssigned names the provider channel that will collect the
// money; the payment now awaits it.
type PaymentRouteAssigned struct {
	Route string `json:"route"`
}

// PaymentPaid records that the money came.
type PaymentPaid struct {
	Signal Signal `json:"signal"`
}

// PaymentExpired records that the payment's time ran out.
type PaymentExpired struct {
	Reason string  `json:"reason"` // ReasonDeadline or ReasonProvider
	Signal *Signal `json:"signal,omitempty"`
}

// PaymentFailed records that the payment cannot succeed any more.
type PaymentFailed struct {
	Reason string  `json:"reason"` // ReasonNoRoute or ReasonProvider
	Signal *Signal `json:"signal,omitempty"`
}

// PaymentSignalRefused records a provider's signal that changed nothing. Of a
// payment that has many only some are recorded: see MaxRefused.
type PaymentSignalRefused struct {
	Reason     string `json:"reason"`
	Signal     Signal `json:"signal"`
	Unrecorded uint64 `json:"unrecorded,omitzero"` // at least so many were refused and not recorded since the one before
}

// PaymentLateFunds records money that came and could not count as the
// payment: it is owed to somebody and awaits the operator.
type PaymentLateFunds struct {
	Reason string `json:"reason"`
	Signal Signal `json:"signal"`
}

// RefundCreated records that the whole payment is to be returned.
type RefundCreated struct {
	RefundID    ID           `json:"refund_id"`
	CreatedAt   Instant      `json:"created_at"`
	Amount      Amount       `json:"amount"`
	Currency    Currency     `json:"currency"`
	Idempotency *Idempotency `json:"idempotency,omitempty"`
}

// RefundSucceededEvent records that the money was returned.
type RefundSucceededEvent struct {
	RefundID ID     `json:"refund_id"`
	Signal   Signal `json:"signal"`
}

// RefundFailedEvent records that the money could not be returned.
type RefundFailedEvent struct {
	RefundID ID     `json:"refund_id"`
	Signal   Signal `json:"signal"`
}

// ProjectRegistered opens a project's stream.
type ProjectRegistered struct {
	Name     string   `json:"name"` // shown to customers as the merchant
	Settings Settings `json:"settings"`
}

// ProjectChanged replaces a project's name and settings.
type ProjectChanged struct {
	Name     string   `json:"name"`
	Settings Settings `json:"settings"`
}

// ProjectDisabled closes a project's API. Its payments live on.
type ProjectDisabled struct{}

// KeyIssued adds an API key. Only the key's SHA-256 is ever recorded.
type KeyIssued struct {
	KeyID  string  `json:"key_id"`
	Hash   Digest  `json:"hash"`
	Scopes []Scope `json:"scopes"`
}

// KeyRevoked takes an API key out of use.
type KeyRevoked struct {
	KeyID string `json:"key_id"`
}

// WebhookEndpointAdded adds an address that is notified of the project's
// events from now on. Its first secret is of generation 1.
type WebhookEndpointAdded struct {
	EndpointID  string  `json:"endpoint_id"`
	CreatedAt   Instant `json:"created_at"`
	URL         string  `json:"url"`
	Kinds       []Kind  `json:"kinds"`
	Description *string `json:"description"`
	KeyVersion  int     `json:"key_version"`
}

// WebhookEndpointChanged replaces what an endpoint's owner can set.
type WebhookEndpointChanged struct {
	EndpointID  string  `json:"endpoint_id"`
	URL         string  `json:"url"`
	Kinds       []Kind  `json:"kinds"`
	Description *string `json:"description"`
}

// WebhookEndpointDisabled stops notifications to an endpoint.
type WebhookEndpointDisabled struct {
	At         Instant        `json:"at"`
	EndpointID string         `json:"endpoint_id"`
	Reason     DisabledReason `json:"reason"`
}

// WebhookEndpointEnabled lets an endpoint be notified again.
type WebhookEndpointEnabled struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookEndpointRemoved takes an endpoint away.
type WebhookEndpointRemoved struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookSecretRotated gives an endpoint the secret of another generation; the
// one before stays good until an instant.
type WebhookSecretRotated struct {
	EndpointID    string  `json:"endpoint_id"`
	Generation    int     `json:"generation"`
	KeyVersion    int     `json:"key_version"`
	PreviousUntil Instant `json:"previous_until"`
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

// The wire name of each event.
func (PaymentCreated) Type() string          { return TypePaymentCreated }
func (PaymentRouteAssigned) Type() string    { return TypePaymentRouteAssigned }
func (PaymentPaid) Type() string             { return TypePaymentPaid }
func (PaymentExpired) Type() string          { return TypePaymentExpired }
func (PaymentFailed) Type() string           { return TypePaymentFailed }
func (PaymentSignalRefused) Type() string    { return TypePaymentSignalRefused }
func (PaymentLateFunds) Type() string        { return TypePaymentLateFunds }
func (RefundCreated) Type() string           { return TypeRefundCreated }
func (RefundSucceededEvent) Type() string    { return TypeRefundSucceeded }
func (RefundFailedEvent) Type() string       { return TypeRefundFailed }
func (ProjectRegistered) Type() string       { return TypeProjectRegistered }
func (ProjectChanged) Type() string          { return TypeProjectChanged }
func (ProjectDisabled) Type() string         { return TypeProjectDisabled }
func (KeyIssued) Type() string               { return TypeKeyIssued }
func (KeyRevoked) Type() string              { return TypeKeyRevoked }
func (WebhookEndpointAdded) Type() string    { return TypeWebhookEndpointAdded }
func (WebhookEndpointChanged) Type() string  { return TypeWebhookEndpointChanged }
func (WebhookEndpointDisabled) Type() string { return TypeWebhookEndpointDisabled }
func (WebhookEndpointEnabled) Type() string  { return TypeWebhookEndpointEnabled }
func (WebhookEndpointRemoved) Type() string  { return TypeWebhookEndpointRemoved }
func (WebhookSecretRotated) Type() string    { return TypeWebhookSecretRotated }

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
