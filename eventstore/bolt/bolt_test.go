package bolt

import (
	"testing"

	"go.uber.org/goleak"

	"payledger/eventstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, create)
}
