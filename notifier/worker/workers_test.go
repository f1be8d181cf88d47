package worker_test

import (
	"testing"
	"time"

	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

func TestWorkersTakeUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	for range 3 {
		b.Routed(t)
		for range 30 { // before the workers are there
			b.Create(t, time.Hour)
		}
		stop := healthtest.Run(t, notifiertest.Workers(t, b).Run)
		for range 30 {
			b.Create(t, time.Hour)
		}
		bustest.AllRouted(t, b)
		stop()
	}
}
