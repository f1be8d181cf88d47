package notifier

import (
	"os"
	"testing"

	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) {
	healthtest.VerifyMain(m, func() {
		if serverBinary.dir != "" {
			_ = os.RemoveAll(serverBinary.dir)
		}
	})
}
