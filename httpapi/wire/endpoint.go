package wire

import (
	"payledger/domain"
	"payledger/domain/projects"
)

// Endpoint is an endpoint as its merchant sees it. The secret is in the
// answers that make one and in no other.
type Endpoint struct {
	ID          string                   `json:"id"`
	URL         string                   `json:"url"`
	Kinds       []domain.Kind            `json:"kinds"`
	Description *string                  `json:"description"`
	Status      string                   `json:"status"`          // enabled or disabled
	Reason      *projects.DisabledReason `json:"disabled_reason"` // null while enabled, as the next
	DisabledAt  *domain.Instant          `json:"disabled_at"`
	CreatedAt   domain.Instant           `json:"created_at"`
	Secret      string                   `json:"secret,omitempty"`
	Previous    *domain.Instant          `json:"previous_secret_until"` // null when one secret signs
	Health      domain.EndpointHealth    `json:"health"`
}

// Enabled reports whether notifications are sent.
func (e Endpoint) Enabled() bool { return e.Status == "enabled" }

// Recovery is how many notifications a request has enqueued.
type Recovery struct {
	Enqueued int `json:"enqueued"`
}
