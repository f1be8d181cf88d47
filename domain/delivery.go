package domain

import "time"

// What is promised of deliveries whatever the settings, and told on the page
// for those who receive them.
const (
	AnswerTime     = 15 * time.Second    // in which the head of an answer has to be complete
	MaxRetryAfter  = 6 * time.Hour       // the longest wait that an answer can ask for
	MaxFailingTime = 5 * 24 * time.Hour  // an endpoint that takes nothing for so long is disabled
	KeepDeliveries = 30 * 24 * time.Hour // how long one is listed after it was settled
)

// DeliveryState is where the notification of one event to one endpoint
// stands.
type DeliveryState string

// The states. Pending may still be tried; the others are settled. A resend makes
// one pending again, as long as nothing later of its payment went out.
const (
	DeliveryPending    DeliveryState = "pending"
	DeliveryDelivered  DeliveryState = "delivered"
	DeliverySuperseded DeliveryState = "superseded" // something later was known before it was sent
	DeliveryGivenUp    DeliveryState = "given_up"   // every try failed
	DeliveryParked     DeliveryState = "parked"     // the target may not be called
	DeliveryHeld       DeliveryState = "held"       // the endpoint is or was disabled
	DeliveryCancelled  DeliveryState = "cancelled"  // the endpoint was removed

	// DeliveryUnconfirmed is an outcome that may have been delivered: the record
	// of it was lost, and a later event of the payment was sent in its place.
	DeliveryUnconfirmed DeliveryState = "unconfirmed"
)

// DeliveryStates lists every state.
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
	NextAttemptAt *Instant        `json:"next_attempt_at"` // null unless pending and first in its payment's line
	Attempts      []AttemptObject `json:"attempts"`        // oldest first
}

// AttemptObject is one request of a delivery.
type AttemptObject struct {
	At         Instant `json:"at"`
	Status     int     `json:"status,omitzero"` // HTTP status, when there was an answer
	Error      string  `json:"error,omitzero"`  // class of the failure, "" when delivered
	DurationMS int64   `json:"duration_ms"`
	Answer     string  `json:"answer,omitzero"` // the first 1 KiB of the answer's body
}

// DeliveryFilter narrows a list of deliveries, which is newest first. Empty
// members match everything.
type DeliveryFilter struct {
	Project  string
	Endpoint string // needed unless Event or Payment is given
	Event    ID
	Payment  ID
	State    DeliveryState
	After    string // where the page before ended, as DeliveryPage told
	Limit    int
}

// DeliveryPage is one page of a list of deliveries.
type DeliveryPage struct {
	Deliveries []DeliveryObject
	After      string // "" at the end
}

// EndpointHealth is how deliveries to one endpoint go.
type EndpointHealth struct {
	Pending      int      `json:"pending"`       // deliveries not settled
	Undelivered  int      `json:"undelivered"`   // given up, parked, held or unconfirmed
	FailingSince *Instant `json:"failing_since"` // first failure since the last success
	OpenUntil    *Instant `json:"paused_until"`  // the circuit breaker is open
}
