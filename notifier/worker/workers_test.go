package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
	"payledger/notifier/worker"
)

func TestWorkersTakeUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	b, dir := bustest.NewBook(t), t.TempDir()
	for range 3 {
		b.Routed(t)
		s := bustest.StartServer(t, bus.ServerConfig{Dir: dir})
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
	c := bustest.ConnectTo(t, bustest.StartServer(t, bus.ServerConfig{}))
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
	c := bustest.ConnectTo(t, bustest.StartServer(t, bus.ServerConfig{}))
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

// diary is a connector that notes its calls, and can fail or hang.
type diary struct {
	route string
	hang  chan struct{} // nil: does not

	mu    sync.Mutex
	fails int
	told  []string
}

func (d *diary) Route() string { return d.route }

func (d *diary) Assigned(ctx context.Context, p domain.Payment) error {
	return d.write(ctx, "assigned "+p.ID.String()+" "+p.Route)
}

func (d *diary) RefundRequested(ctx context.Context, p domain.Payment, r domain.Refund) error {
	return d.write(ctx, "refund "+p.ID.String()+" "+r.ID.String())
}

func (d *diary) write(ctx context.Context, entry string) error {
	if d.hang != nil {
		select {
		case <-d.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails > 0 {
		d.fails--
		return errors.New("the provider is out")
	}
	d.told = append(d.told, entry)
	return nil
}

func (d *diary) entries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}

func TestConnectorsHearOfTheirPayments(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, bus.ServerConfig{}))
	healthtest.Run(t, notifiertest.Relay(c, b).Run)
	quick, stuck := &diary{route: "quick", fails: 2}, &diary{route: "stuck", hang: make(chan struct{})}
	table := domain.RoutingTable{
		{Route: "stuck", Min: 1, Max: domain.MaxAmount, Weight: 1},
		{Route: "quick", Min: 1, Max: domain.MaxAmount, Weight: 1},
	}
	w, err := worker.New(worker.Config{
		Conn: c, Ledger: b.Ledger, LogID: b.LogID, IDs: b.IDs, Now: b.Now, Table: table, Unrouted: bustest.Views{Book: b}, Due: bustest.Views{Book: b}, Payments: bustest.Views{Book: b},
		Connectors: []connector.Connector{stuck, quick}, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	healthtest.Run(t, w.Run)
	var want []string
	for range 20 {
		id := b.Create(t, time.Hour)
		healthtest.Eventually(t, "it has a route", func() bool { return b.Payment(t, id).Status != domain.Created })
		if p := b.Payment(t, id); p.Route == "quick" {
			want = append(want, "assigned "+id.String()+" quick")
			s := bustest.Paid(p)
			s.Route = "quick"
			b.Do(t, id, domain.ApplySignal{Signal: s})
			refund := b.IDs.Next()
			b.Do(t, id, domain.CreateRefund{RefundID: refund})
			want = append(want, "refund "+id.String()+" "+refund.String())
		}
	}
	healthtest.Eventually(t, "the quick one has heard all", func() bool { return slices.Equal(quick.entries(), want) })
	if told := stuck.entries(); len(told) != 0 {
		t.Errorf("%v", told)
	}
	close(stuck.hang)
	healthtest.Eventually(t, "the stuck one has too", func() bool { return len(stuck.entries()) == 20-len(want)/2 })
}

func TestWorkersRefuseWrongSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]worker.Config{
		"table":   {Table: domain.RoutingTable{{Route: "a.b", Min: 1, Max: 2}}},
		"routes":  {Connectors: []connector.Connector{&diary{route: "a"}, &diary{route: "a"}}},
		"a route": {Connectors: []connector.Connector{&diary{route: "a b"}}},
	} {
		if _, err := worker.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
