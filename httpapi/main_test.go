package httpapi

import (
	"testing"

	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) {
	healthtest.Overlap()
	m.Run()
}
