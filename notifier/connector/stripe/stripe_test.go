package stripe_test

import (
	"testing"

	"go.uber.org/goleak"

	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/stripe/stripetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConnector: what every connector promises.
func TestConnector(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(t *testing.T) connectortest.Provider { return stripetest.Start(t) })
}
