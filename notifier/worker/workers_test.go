package worker_test

import (
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
	"payledger/notifier/worker"
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

func TestWorkersRefuseAWrongTable(t *testing.T) {
	t.Parallel()
	if _, err := worker.New(worker.Config{Table: func() domain.RoutingTable { return domain.RoutingTable{{Route: "a.b", Min: 1, Max: 2}} }}); err == nil {
		t.Error("no error")
	}
}
