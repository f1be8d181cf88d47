package wire

import (
	"payledger/domain"
	"payledger/domain/projects"
)

// AlertKind is what needs a merchant's attention.
type AlertKind string

// Alert is one alert; of its members only those its kind names are there.
type Alert struct {
	Kind       AlertKind               `json:"kind"`
	EndpointID string                  `json:"endpoint_id,omitzero"`
	URL        string                  `json:"url,omitzero"`
	Reason     projects.DisabledReason `json:"reason,omitzero"`
	Since      *domain.Instant         `json:"since,omitempty"`
	Until      *domain.Instant         `json:"until,omitempty"`
	Count      int                     `json:"count,omitzero"`
	PaymentID  *domain.ID              `json:"payment_id,omitempty"`
	Currency   domain.Currency         `json:"currency,omitzero"`
	Amount     *domain.Sum             `json:"amount,omitempty"`
}

// The alerts, the most urgent first.
const (
	AlertDisputed    AlertKind = "disputed"             // disputes of customers are open: currency, amount
	AlertLateFunds   AlertKind = "late_funds"           // money came that belongs to no payment: currency, amount
	AlertByHand      AlertKind = "refunded_at_provider" // more was returned by another hand than came late: currency, amount
	AlertDisabled    AlertKind = "endpoint_disabled"    // endpoint_id, url, reason, since
	AlertFailing     AlertKind = "endpoint_failing"     // endpoint_id, url, since
	AlertUndelivered AlertKind = "undelivered"          // endpoint_id, url, count: given up, parked, held or unconfirmed
	AlertUnrouted    AlertKind = "payments_not_routed"  // payment_id of the newest, since: no route for over a minute
	AlertSecret      AlertKind = "secret_overlap_ends"  // endpoint_id, url, until
)
