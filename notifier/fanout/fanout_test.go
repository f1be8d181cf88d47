package fanout

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/delivery"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

// TestFanOutIsExactlyOnce restarts everything again and again, wipes the
// JetStream directory, deletes consumers and the JetStream stream in the midst
// of the work, and lets the lanes go down with what was under way.
func TestFanOutIsExactlyOnce(t *testing.T) {
	t.Parallel()
	s, lanes, dir := newShop(t), &lanesDouble{}, t.TempDir()
	s.paid(t) // before there is an endpoint
	s.endpoint(t, "we_all", domain.Kinds()...)
	s.endpoint(t, "we_final")
	for round := range 6 {
		server := bustest.StartServer(t, embedded.Config{Dir: dir})
		c := bustest.ConnectTo(t, server)
		stopRelay := healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
		w, stop := s.serve(t, c, lanes, nil)
		for i := range 60 {
			s.paid(t)
			s.Create(t, time.Hour)
			switch {
			case i == 20 && round%3 == 0:
				bustest.DeleteConsumers(t, c)
			case i == 20 && round%3 == 1:
				if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
					t.Fatal(err)
				}
			case i == 40 && round%3 == 2:
				lanes.mu.Lock()
				lanes.down = true
				lanes.mu.Unlock()
			}
		}
		if round%3 != 2 {
			last := s.Last(t)
			healthtest.Eventually(t, "events are enqueued", func() bool { return w.done.Load() >= uint64(last)-20 })
		}
		stop()
		stopRelay()
		c.Close()
		server.Shutdown()
		lanes.mu.Lock()
		lanes.down, lanes.unread = false, round%3 // it asks until it gets a position to begin at
		lanes.mu.Unlock()
		if round%2 == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{Dir: dir}))
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	_, stop := s.serve(t, c, lanes, nil)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...), s.listener("we_final", domain.FinalKinds()...)))
}

func TestWhoIsToldOfWhat(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	s.endpoint(t, "we_refunds", domain.KindRefundPending, domain.KindRefundFailed)
	s.endpoint(t, "we_off", domain.KindPaymentPaid)
	s.order(t, projects.DisableEndpoint{At: 1, EndpointID: "we_off", Reason: projects.DisabledByRequest})
	s.endpoint(t, "we_gone")
	s.paid(t)
	s.order(t, projects.RemoveEndpoint{EndpointID: "we_gone"})
	_, stop := s.serve(t, c, lanes, nil)
	id := s.paid(t)
	s.endpoint(t, "we_late", domain.KindPaymentPaid, domain.KindRefundPending)
	refund := s.IDs.Next()
	p := s.Do(t, id, domain.CreateRefund{RefundID: refund})
	late := bustest.Paid(p)
	late.Reference, late.RefundID, late.Outcome = "r", &refund, domain.OutcomeFailed
	s.Do(t, id, domain.ApplySignal{Signal: late})
	again := bustest.Paid(p)
	again.Reference += "-2"
	s.Do(t, id, domain.ApplySignal{Signal: again}) // late funds, which notify nobody
	s.paid(t)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, s.wanted(t,
		s.listener("we_refunds", domain.KindRefundPending, domain.KindRefundFailed),
		s.listener("we_off", domain.KindPaymentPaid),
		s.listener("we_late", domain.KindPaymentPaid, domain.KindRefundPending)))
}

// TestNewLanesBeginWithTheNewest: of what happened before they were made, the
// newest that an endpoint wants of a payment is sent, and earlier outcomes are
// listed.
func TestNewLanesBeginWithTheNewest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.paid(t)
	s.endpoint(t, "we_all", domain.Kinds()...)
	s.endpoint(t, "we_first", domain.KindPaymentCreated)
	inMidst := s.Routed(t)
	id := s.paid(t)
	s.Do(t, id, domain.CreateRefund{RefundID: s.IDs.Next()})
	lanes := &lanesDouble{base: s.Last(t)}
	s.Do(t, inMidst.ID, domain.ApplySignal{Signal: bustest.Paid(inMidst)})
	s.paid(t)

	var want []delivery.Event
	newest := make(map[string]delivery.Event)
	all := s.wanted(t, s.listener("we_all", domain.Kinds()...), s.listener("we_first", domain.KindPaymentCreated))
	for _, e := range all {
		if e.Position <= lanes.base {
			newest[e.Endpoint+e.Payment.String()] = e
		}
	}
	unconfirmed := 0
	for _, e := range all {
		known := e
		e.Unconfirmed = e.Position <= lanes.base && newest[e.Endpoint+e.Payment.String()] != known
		if e.Unconfirmed && e.Kind.Final() {
			unconfirmed++
		}
		if !e.Unconfirmed || e.Kind.Final() {
			want = append(want, e)
		}
	}
	if len(want) == len(all) || unconfirmed != 1 {
		t.Fatalf("%d of %d events are wanted, %d unconfirmed", len(want), len(all), unconfirmed)
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	_, stop := s.serve(t, c, lanes, nil)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, want)
}

// TestNobodyToTell: how far it got is noted now and then and at the end, and
// an endpoint that comes later hears of what is later.
func TestNobodyToTell(t *testing.T) {
	t.Parallel()
	s, lanes, metrics := newShop(t), &lanesDouble{}, prometheus.NewRegistry()
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	began := time.Now()
	_, stop := s.serve(t, c, lanes, metrics)
	for range 100 {
		s.paid(t)
	}
	healthtest.Eventually(t, "nothing is left", func() bool { return healthtest.Measured(t, metrics, "payledger_fanout_lag_events") == 0 })
	stop()
	lanes.mu.Lock()
	if most := 2 + int(time.Since(began)/checkpointEvery); lanes.calls > most || lanes.after != s.Last(t) {
		t.Errorf("noted %d times, want at most %d, up to %d of %d", lanes.calls, most, lanes.after, s.Last(t))
	}
	lanes.mu.Unlock()
	if at := healthtest.Measured(t, metrics, "payledger_fanout_position"); at != float64(s.Last(t)) {
		t.Errorf("position %v of %d", at, s.Last(t))
	}

	s.endpoint(t, "we_1")
	_, stop = s.serve(t, c, lanes, nil)
	s.paid(t)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_1", domain.FinalKinds()...)))
}

// TestFanOutBeginsWhereItMatters: what is before every endpoint is not read.
func TestFanOutBeginsWhereItMatters(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	s.paid(t)
	begins := func(want eventstore.Position) {
		t.Helper()
		f := New(Config{Ledger: s.Ledger, Lanes: lanes, Endpoints: s.views})
		if err := f.start(t.Context()); err != nil || f.first != want+1 {
			t.Errorf("from %d, %v; want behind %d", f.first, err, want)
		}
	}
	begins(s.Last(t))
	s.endpoint(t, "we_1")
	s.endpoint(t, "we_2")
	s.paid(t)
	begins(s.added["we_1"])
	s.order(t, projects.RemoveEndpoint{EndpointID: "we_1"})
	begins(s.added["we_2"])
	lanes.after = s.added["we_2"] + 2
	begins(lanes.after)
}
