package wire

import "payledger/domain"

// OpenWork is one thing that is to be done or learned at a provider.
type OpenWork struct {
	ProjectID string    `json:"project_id"`
	PaymentID domain.ID `json:"payment_id"`
	Route     string    `json:"route"`
	domain.Work
	domain.Looks
}

// ConnectorStatus is what a route's connector does.
type ConnectorStatus struct {
	Route string `json:"route"`
	RouteAttempts
	Open   map[domain.WorkKind]int `json:"open"`            // things at the provider, counted once a minute
	Lost   int                     `json:"lost,omitzero"`   // open payments there that are not polled: the connector is gone
	Paused bool                    `json:"paused,omitzero"` // by the operator
}

// RouteAttempts are the attempts of some time.
type RouteAttempts struct {
	Begun       uint64   `json:"attempts_begun"`
	Paid        uint64   `json:"attempts_paid"`
	Failed      uint64   `json:"attempts_failed"`
	SuccessRate *float64 `json:"success_rate"` // the paid ones of those that ended; null: none did
}

// AttemptsOf are the attempts with their success rate.
func AttemptsOf(begun, paid, failed uint64) RouteAttempts {
	a := RouteAttempts{Begun: begun, Paid: paid, Failed: failed}
	if ended := paid + failed; ended > 0 {
		rate := float64(paid) / float64(ended)
		a.SuccessRate = &rate
	}
	return a
}
