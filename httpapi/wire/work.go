package wire

import "payledger/domain"

// OpenWork is one thing that is to be done or learned at a provider.
type OpenWork struct {
	ProjectID string    `json:"project_id"`
	PaymentID domain.ID `json:"payment_id"`
	Route     string    `json:"route"`
	domain.Work
	Looks
}

// Looks is how a payment is followed at its provider. It is known while a server
// runs, and counts from when the payment came into its memory.
type Looks struct {
	Tries     int             `json:"tries"`
	LastError string          `json:"last_error,omitzero"` // of the last try, or why there is none
	NextTry   *domain.Instant `json:"next_try"`            // null: not known
}
