package httpapi

import (
	"errors"
	"time"

	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Config is what the public handler needs besides the merchants' operations.
type Config struct {
	merchant.Config

	Account  *account.Keys // of the account's cookies and forms; nil: no account
	Log      zerolog.Logger
	Metrics  prometheus.Registerer // nil: none
	Ready    func() error          // nil: always ready; the error says why not
	Degraded func() []string       // nil: never; sentences on work that waits although requests are answered

	// RetrySchedule are the waits before each try of a notification, for the
	// page that explains them. Needed with Webhooks.
	RetrySchedule []time.Duration

	// Attempts hand the customers of the payment page over to providers. nil: none.
	Attempts checkout.Attempts

	// Connectors judge the notifications of providers. nil: no row for them.
	Connectors Connectors
}

// checked fills in the defaults of what is not the merchants', and refuses what cannot work.
func (c Config) checked() (Config, error) {
	if c.Webhooks != nil && len(c.RetrySchedule) == 0 {
		return c, errors.New("httpapi: RetrySchedule is needed with Webhooks")
	}
	if c.Degraded == nil {
		c.Degraded = func() []string { return nil }
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	return c, nil
}
