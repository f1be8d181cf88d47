package adapter_test

import (
	"testing"

	"go.uber.org/goleak"

	"payledger/notifier/connector/connectortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConnector(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(t *testing.T) connectortest.Provider { return judged(t) })
}
