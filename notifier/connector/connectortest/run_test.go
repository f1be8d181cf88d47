package connectortest_test

import (
	"testing"

	"payledger/notifier/connector/connectortest"
)

// TestRun: the tests can be passed, by a provider in memory.
func TestRun(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(*testing.T) connectortest.Provider { return connectortest.NewMemory() })
}
