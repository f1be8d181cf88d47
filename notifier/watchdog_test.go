package notifier

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

// TestRepairs does each repair in the running process, while signals wait.
// Only a new SIGNALS loses them, and then it is kept beside.
func TestRepairs(t *testing.T) {
	t.Parallel()
	for _, aside := range []string{"", bus.EventsStream, bus.SignalsStream} {
		t.Run("aside "+aside, func(t *testing.T) {
			t.Parallel()
			// The watchdog, which could repair too, waits.
			s := &site{Book: bustest.NewBook(t), dir: t.TempDir(), stall: healthtest.Patience}
			s.start(t)
			s.works(t)
			s.subscriber(t, 10)
			s.parks(t)
			s.stopEnforcer()
			var waiting []domain.ID
			for range 5 {
				p := s.Routed(t)
				waiting = append(waiting, p.ID)
				s.publish(t, p)
			}
			if err := s.srv.Repair(aside); err != nil {
				t.Fatal(err)
			}
			healthtest.Run(t, s.enforcer.Run)
			s.works(t)
			lost := aside == bus.SignalsStream
			if n := s.open(t, waiting); (n > 0) != lost {
				t.Errorf("%d of the signals that waited were lost", n)
			}
			kept, err := filepath.Glob(filepath.Join(s.dir, "*"+embedded.Aside+"*"))
			if err != nil || (len(kept) > 0) != lost {
				t.Errorf("moved aside: %q, %v", kept, err)
			}
			if n := s.parked(t); n != 1 {
				t.Errorf("%d signals are parked, want 1", n)
			}
			first := s.subscriber(t, 1)
			if first > 11 || aside != bus.EventsStream && first != 11 {
				t.Errorf("the subscriber goes on with %d", first)
			}
			how := "restart"
			if aside != "" {
				how = "aside"
			}
			if n := s.repaired(how); n != 1 {
				t.Errorf("%v repairs are counted", n)
			}
		})
	}
}

// parks sends a signal that cannot be judged and waits until it is parked.
func (s *site) parks(t *testing.T) {
	t.Helper()
	if _, err := s.conn.JetStream().Publish(healthtest.Within(t), bus.SignalSubject(domain.SandboxRoute, "prj_x", domain.ID{1}), []byte("what is this")); err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "a signal is parked", func() bool { return s.parked(t) == 1 })
}

// parked counts the signals in PARKED.
func (s *site) parked(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healthtest.Patience)
	defer cancel()
	stream, err := s.conn.JetStream().Stream(ctx, bus.ParkedStream)
	if err != nil {
		return 0
	}
	return int(stream.CachedInfo().State.Msgs)
}

func (s *site) repaired(how string) float64 {
	families, err := s.metrics.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "payledger_jetstream_repairs_total" && m.GetLabel()[0].GetValue() == how {
				return m.GetCounter().GetValue()
			}
		}
	}
	panic("repairs are not counted")
}

// TestWatchdogEscalates: as long as nothing moves, every repair is tried. TestEscalation shows their order.
func TestWatchdogEscalates(t *testing.T) {
	t.Parallel()
	s := newSite(t, filepath.Join(t.TempDir(), "nats"))
	s.works(t)
	var stuck atomic.Bool
	stuck.Store(true)
	config := s.watchdog.config
	config.Metrics, config.Stall, config.MaxPause = nil, 20*time.Millisecond, 100*time.Millisecond
	w := NewWatchdog(config)
	w.parts = []*watched{{name: "part", waits: "It waits.", stream: bus.SignalsStream, look: func(context.Context) (uint64, bool) {
		return 0, stuck.Load()
	}}}
	stop := healthtest.Run(t, w.Run)
	for _, how := range []string{"restart", "aside"} {
		healthtest.Eventually(t, "the repair is done: "+how, func() bool { return s.repaired(how) > 0 })
	}
	if got := w.Degraded(); !slices.Equal(got, []string{"It waits."}) {
		t.Errorf("it tells %q", got)
	}
	stuck.Store(false)
	healthtest.Eventually(t, "it tells that nothing waits", func() bool { return len(w.Degraded()) == 0 })
	stop()
	s.works(t)
}

// TestEscalation: the pauses between repairs grow, and after a long quiet the
// cheaper comes first again.
func TestEscalation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e escalation
		began := time.Now()
		var renews []bool
		var at []int // seconds
		for range 3000 {
			if renew, due := e.next(time.Now(), 15*time.Second, 10*time.Minute); due {
				renews, at = append(renews, renew), append(at, int(time.Since(began).Seconds()))
			}
			time.Sleep(time.Second)
		}
		want := []int{0, 15, 45, 105, 225, 465, 945, 1545, 2145, 2745}
		if !slices.Equal(at, want) || !slices.Equal(renews[:4], []bool{false, true, false, true}) {
			t.Errorf("%v at %v", renews, at)
		}
		time.Sleep(3 * time.Hour)
		if renew, due := e.next(time.Now(), 15*time.Second, 10*time.Minute); !due || renew {
			t.Errorf("%v, %v after a long quiet", renew, due)
		}
	})
}

// TestParkingThatFailsIsSaid while another JetStream stream takes PARKED's
// subject.
func TestParkingThatFailsIsSaid(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	if _, err := c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{bus.ParkedSubject}}); err != nil {
		t.Fatal(err)
	}
	e := notifiertest.Enforcer(t, c, b)
	w := NewWatchdog(WatchdogConfig{Conn: c, Relay: relayOf(c, b), Enforcer: e, Log: healthtest.Log(t)})
	healthtest.Run(t, e.Run)
	healthtest.Eventually(t, "it is said", func() bool { return slices.Equal(w.Degraded(), []string{parkingFails}) })
}
