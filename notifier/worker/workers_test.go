package worker_test

import (
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
	"payledger/notifier/worker"
)

func TestWorkersTakeUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	b, dir := bustest.NewBook(t), t.TempDir()
	for range 3 {
		b.Routed(t)
		s := bustest.StartServer(t, embedded.Config{Dir: dir})
		c := bustest.ConnectTo(t, s)
		stopRelay := healthtest.Run(t, notifiertest.Relay(c, b).Run)
		for range 30 { // before the workers are there
			b.Create(t, time.Hour)
		}
		bustest.SameAsLog(t, c.JetStream(), b)
		stop := healthtest.Run(t, notifiertest.Workers(t, c, b).Run)
		for range 30 {
			b.Create(t, time.Hour)
		}
		bustest.AllRouted(t, b)
		stop()
		for range 30 { // for the next round
			b.Create(t, time.Hour)
		}
		stopRelay()
		c.Close()
		s.Shutdown()
	}
}

func TestDispatcherSurvivesTheLossOfItsConsumer(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, notifiertest.Relay(c, b).Run)
	healthtest.Run(t, notifiertest.Workers(t, c, b).Run)
	for i := range 4 {
		for range 20 {
			b.Create(t, time.Hour)
		}
		bustest.AllRouted(t, b)
		bustest.SameAsLog(t, c.JetStream(), b)
		if i%2 == 0 {
			bustest.DeleteConsumers(t, c)
		} else if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
			t.Fatal(err)
		}
	}
	b.Create(t, time.Hour)
	bustest.AllRouted(t, b)
}

// TestWorkersAfterTheLogWasRestored starts the workers on a copy that is longer
// than the log, before the relay has made it anew: they must not go on from
// where that copy ends.
func TestWorkersAfterTheLogWasRestored(t *testing.T) {
	t.Parallel()
	longer, restored := bustest.NewBook(t), bustest.NewBook(t)
	restored.LogID = longer.LogID
	for range 30 {
		longer.Create(t, time.Hour)
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	stop := healthtest.Run(t, notifiertest.Relay(c, longer).Run)
	bustest.SameAsLog(t, c.JetStream(), longer)
	stop()

	restored.Routed(t)
	c = bustest.ConnectTo(t, c.Server()) // that of another process, in which no relay has looked yet
	w := notifiertest.Workers(t, c, restored)
	healthtest.Run(t, w.Run)
	healthtest.Eventually(t, "the workers see that the copy is not of this log", func() bool { return w.Err() != nil })
	healthtest.Run(t, notifiertest.Relay(c, restored).Run)
	for range 10 {
		restored.Create(t, time.Hour)
	}
	bustest.AllRouted(t, restored)
	healthtest.Eventually(t, "the workers are well", func() bool { return w.Err() == nil })
}

func TestWorkersRefuseAWrongTable(t *testing.T) {
	t.Parallel()
	if _, err := worker.New(worker.Config{Table: func() domain.RoutingTable { return domain.RoutingTable{{Route: "a.b", Min: 1, Max: 2}} }}); err == nil {
		t.Error("no error")
	}
}
