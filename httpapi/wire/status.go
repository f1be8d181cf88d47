package wire

import "payledger/domain"

// Status is how a running server is.
type Status struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`

	StartedAt domain.Instant `json:"started_at"`
	BaseURL   string         `json:"base_url"`

	Ready   bool     `json:"ready"`   // it records payments
	Trouble []string `json:"trouble"` // why it does not, or what is delayed

	Position     uint64 `json:"position"` // of the last event
	RoutingRules int    `json:"routing_rules"`

	Connectors []ConnectorStatus `json:"connectors"` // with the attempts of the last 24 hours

	NotificationsPending     int `json:"notifications_pending"`
	NotificationsUndelivered int `json:"notifications_undelivered"`

	DiskFreeBytes    uint64 `json:"disk_free_bytes"`
	DiskFreeMinBytes uint64 `json:"disk_free_min_bytes"` // below it nothing is recorded

	Limits []Limit `json:"limits"` // of projects without limits
}

// OperatorsPayment is a payment as the operator sees it.
type OperatorsPayment struct {
	ProjectID string `json:"project_id"`
	PaymentFacts
	Attempts        []domain.Attempt        `json:"attempts"`         // in order
	LateFunds       []domain.LateFund       `json:"late_funds"`       // in the order they came
	Returns         []domain.Return         `json:"returns"`          // of late funds, oldest first
	ProviderRefunds []domain.ProviderRefund `json:"provider_refunds"` // by another hand, oldest first
	Settlements     []domain.Settlement     `json:"settlements"`      // of money in suspense, oldest first
}
