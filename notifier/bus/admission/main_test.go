package admission

import (
	"testing"

	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }
