package domain

import "time"

// The limits of deliveries that no setting changes. The documentation page for
// receivers states them.
const (
	AnswerTime     = 15 * time.Second    // an endpoint must complete the response header within it
	MaxRetryAfter  = 6 * time.Hour       // the longest Retry-After that is honoured
	MaxFailingTime = 5 * 24 * time.Hour  // an endpoint that fails for this long is disabled
	KeepDeliveries = 30 * 24 * time.Hour // how long a delivery is listed after it was settled
)

// DeliveryState is the state of the delivery of one event to one endpoint.
type DeliveryState string

// The states. A pending delivery is still tried; in every other state it is
// settled. A resend makes it pending again, unless a later event of its payment
// has already been sent.
const (
	DeliveryPending    DeliveryState = "pending"
	DeliveryDelivered  DeliveryState = "delivered"
	DeliverySuperseded DeliveryState = "superseded" // a later event of the payment was recorded before it was sent
	DeliveryGivenUp    DeliveryState = "given_up"   // every attempt failed
	DeliveryParked     DeliveryState = "parked"     // the target may not be called
	DeliveryHeld       DeliveryState = "held"       // the endpoint is or was disabled
	DeliveryCancelled  DeliveryState = "cancelled"  // the endpoint was removed

	// DeliveryUnconfirmed: the event reports an outcome and may have been delivered,
	// but the record of its delivery was lost. A later event of the payment was
	// sent instead.
	DeliveryUnconfirmed DeliveryState = "unconfirmed"
)

// DeliveryStates returns every state.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{
		DeliveryPending, DeliveryDelivered, DeliverySuperseded, DeliveryGivenUp, DeliveryParked, DeliveryHeld, DeliveryCancelled,
		DeliveryUnconfirmed,
	}
}

// DeliveryObject is a delivery as merchants see it.
type DeliveryObject struct {
	EventID       ID              `json:"event_id"` // the webhook-id
	EndpointID    string          `json:"endpoint_id"`
	Type          Kind            `json:"type"`
	PaymentID     *ID             `json:"payment_id"` // null for endpoint.test
	Sequence      uint64          `json:"sequence"`   // within the payment; 0 for endpoint.test
	Position      uint64          `json:"position"`   // in the log; 0 for endpoint.test
	State         DeliveryState   `json:"state"`
	CreatedAt     Instant         `json:"created_at"`      // when it was enqueued
	NextAttemptAt *Instant        `json:"next_attempt_at"` // null unless it is the next pending one of its payment
	Attempts      []AttemptObject `json:"attempts"`        // oldest first
}

// AttemptObject is one request of a delivery.
type AttemptObject struct {
	At         Instant `json:"at"`
	Status     int     `json:"status,omitzero"` // HTTP status; 0 when there was no response
	Error      string  `json:"error,omitzero"`  // class of the failure, "" when delivered
	DurationMS int64   `json:"duration_ms"`
	Answer     string  `json:"answer,omitzero"` // the first 1 KiB of the response body
}

// DeliveryFilter selects deliveries for a list, newest first. Empty members
// match everything.
type DeliveryFilter struct {
	Project  string // required with Payment
	Endpoint string // required unless Event or Payment is set
	Event    ID
	Payment  ID
	State    DeliveryState
	After    string // DeliveryPage.After of the previous page
	Limit    int
}

// DeliveryPage is one page of a list of deliveries.
type DeliveryPage struct {
	Deliveries []DeliveryObject
	After      string // DeliveryFilter.After of the next page; "" on the last
}

// EndpointHealth summarises the deliveries to one endpoint.
type EndpointHealth struct {
	Pending      int      `json:"pending"`       // deliveries not settled
	Undelivered  int      `json:"undelivered"`   // given up, parked, held or unconfirmed
	FailingSince *Instant `json:"failing_since"` // first failure since the last success
	OpenUntil    *Instant `json:"paused_until"`  // the circuit breaker is open until then

	// LastFailure is the last attempt that failed; nil: none since the last success.
	LastFailure *AttemptObject `json:"last_failure"`
}
