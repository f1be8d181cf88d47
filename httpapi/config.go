package httpapi

import (
	"time"

	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what the public handler needs besides the merchants' operations. Nothing may be
// nil, unless it says what that means.
type Config struct {
	merchant.Config

	Account  *account.Keys // of the account's cookies and forms
	Log      zerolog.Logger
	Metrics  prometheus.Registerer // nil: none
	Ready    func() error          // the error says why it is not ready
	Degraded func() []string       // sentences on work that waits although requests are answered

	// RetrySchedule are the waits before each try of a notification, for the
	// page that explains them.
	RetrySchedule []time.Duration

	// Attempts hand the customers of the payment page over to providers. nil: none.
	Attempts checkout.Attempts

	// Connectors judge the notifications of providers.
	Connectors Connectors
}
