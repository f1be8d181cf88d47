package notifier

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"payledger/domain"
)

// TestRepairs does each repair in the running process, while signals wait.
// Only a new SIGNALS loses them, and then it is kept beside.
func TestRepairs(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{EventsStream, SignalsStream} {
		for _, how := range repairs() {
			t.Run(stream+" "+string(how), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, t.TempDir())
				s.works(t)
				s.subscriber(t, 10)
				s.stopEnforcer()
				var waiting []domain.ID
				for range 5 {
					p := s.routed(t)
					waiting = append(waiting, p.ID)
					s.publish(t, p)
				}
				if err := s.srv.repair(how, stream); err != nil {
					t.Fatal(err)
				}
				run(t, s.enforcer.Run)
				s.works(t)
				lost := how == repairStore || how == repairEmpty && stream == SignalsStream
				if n := s.open(t, waiting); (n > 0) != lost {
					t.Errorf("%d of the signals that waited were lost", n)
				}
				aside, err := filepath.Glob(filepath.Join(s.dir, "*"+aside+"*"))
				if err != nil || (len(aside) > 0) != lost {
					t.Errorf("put aside: %q, %v", aside, err)
				}
				if first := s.subscriber(t, 1); first > 11 || how == repairRestart && first != 11 {
					t.Errorf("the subscriber goes on with %d", first)
				}
				if n := s.repaired(how); n != 1 {
					t.Errorf("%v repairs are counted", n)
				}
			})
		}
	}
}

func (s *site) repaired(how repair) float64 {
	return testutil.ToFloat64(s.srv.repaired.WithLabelValues(string(how)))
}

// TestOnlyTheNewestIsKeptAside: damage that comes again does not fill the disk.
func TestOnlyTheNewestIsKeptAside(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerConfig{})
	for range keptAside + 2 {
		if err := s.repair(repairStore, ""); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := filepath.Glob(filepath.Join(s.config.Dir, "*"+aside+"*")); err != nil || len(all) != keptAside {
		t.Errorf("%q, %v", all, err)
	}
}

// TestWatchdogEscalates: as long as nothing moves, every repair is tried, and
// none while the disk takes no writes. TestLadder shows their order.
func TestWatchdogEscalates(t *testing.T) {
	t.Parallel()
	s := newSite(t, filepath.Join(t.TempDir(), "nats"))
	s.works(t)
	var stuck atomic.Bool
	stuck.Store(true)
	config := s.watchdog.config
	config.Metrics, config.Stall, config.MaxPause = nil, 20*time.Millisecond, 100*time.Millisecond
	w := NewWatchdog(config)
	w.parts = []*watched{{name: "part", waits: "It waits.", stream: SignalsStream, look: func(context.Context) (uint64, bool) {
		return 0, stuck.Load()
	}}}
	stop := run(t, w.Run)
	for _, how := range repairs() {
		eventually(t, "the repair is done: "+string(how), func() bool { return s.repaired(how) > 0 })
	}
	if got := w.Degraded(); !slices.Equal(got, []string{"It waits."}) {
		t.Errorf("it tells %q", got)
	}
	stuck.Store(false)
	eventually(t, "it tells that nothing waits", func() bool { return len(w.Degraded()) == 0 })
	stop()
	s.works(t)

	s.stop()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	if err := s.srv.writable(); err == nil || !strings.Contains(err.Error(), "all goes on by itself") {
		t.Errorf("%v", err)
	}
	if err := s.srv.repair(repairStore, ""); !errors.Is(err, ErrServerClosed) {
		t.Errorf("%v", err)
	}
}

// TestLadder: the pauses between repairs grow, and after a long quiet the
// cheapest comes first again.
func TestLadder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l ladder
		began := time.Now()
		var hows []repair
		var at []int // seconds
		for range 3000 {
			if how, due := l.next(time.Now(), 15*time.Second, 10*time.Minute); due {
				hows, at = append(hows, how), append(at, int(time.Since(began).Seconds()))
			}
			time.Sleep(time.Second)
		}
		want := []int{0, 15, 45, 105, 225, 465, 945, 1545, 2145, 2745}
		if !slices.Equal(at, want) || !slices.Equal(hows[:5], append(repairs(), repairRestart)) {
			t.Errorf("%v at %v", hows, at)
		}
		time.Sleep(3 * time.Hour)
		if how, due := l.next(time.Now(), 15*time.Second, 10*time.Minute); !due || how != repairRestart {
			t.Errorf("%s, %v after a long quiet", how, due)
		}
	})
}

// TestParkingThatFailsIsSaid while another JetStream stream takes PARKED's
// subject.
func TestParkingThatFailsIsSaid(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	if _, err := c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{parkedSubject}}); err != nil {
		t.Fatal(err)
	}
	e := newEnforcer(t, c, b)
	w := NewWatchdog(WatchdogConfig{Conn: c, Relay: newRelay(c, b), Workers: newWorkers(t, c, b), Enforcer: e, Log: testLog(t)})
	run(t, e.Run)
	eventually(t, "it is said", func() bool { return slices.Equal(w.Degraded(), []string{parkingFails}) })
}
