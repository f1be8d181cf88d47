package notifier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"payledger/eventstore/storetest"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// TestFullDisk fills JetStream's disk to the last byte while payments go on,
// and makes room again: all that waited is routed and judged, in the running
// process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, whileFull := range map[string]func(t *testing.T, s *site){
		"running": func(t *testing.T, s *site) {
			healthtest.Eventually(t, "the watchdog tells what waits", func() bool { return len(s.watchdog.Degraded()) > 0 })
		},
		"running, signals": func(t *testing.T, s *site) {
			p := s.Routed(t)
			healthtest.Eventually(t, "no signal finds room", func() bool {
				s.tell(t, p)
				err := s.srv.Err()
				return err != nil && strings.Contains(err.Error(), bus.SignalsStream)
			})
		},
		"running, checkpoints": func(t *testing.T, s *site) {
			healthtest.Eventually(t, "no checkpoint finds room", func() bool {
				s.signed.Publish(make([]byte, 8<<10))
				err := s.srv.Err()
				return err != nil && strings.Contains(err.Error(), bus.CheckpointsStream)
			})
		},
		"restarted": func(t *testing.T, s *site) {
			s.stop()
			s.start(t)
			s.Create(t, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewTmpfs(t, 16)
			s := newSite(t, filepath.Join(disk, "nats"))
			s.works(t)
			s.subscriber(t, 5)
			filler := fill(t, disk)
			waiting := s.Routed(t) // its signal finds no room, or does
			for range 2000 {
				s.Create(t, time.Hour)
			}
			s.tell(t, waiting)
			whileFull(t, s)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			bustest.AllRouted(t, s.Book)
			s.works(t)
			if first := s.subscriber(t, 1); first > 6 {
				t.Errorf("the subscriber goes on with %d", first)
			}
		})
	}
}

// TestPowerCut cuts the power under JetStream, which syncs nothing by itself.
// Young files come back empty then, and what was put in another's place by
// renaming, as the state of consumers is, comes back whole. Each signal sent
// afterwards is judged all the same.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for name, cuts := range map[string][]storetest.Cut{
		"with the journal": {storetest.CutWithJournal, storetest.CutAtOnce},
		"at once":          {storetest.CutAtOnce, storetest.CutWithJournal},
	} {
		if os.Getenv("PAYLEDGER_LONG") == "" {
			cuts = cuts[:1]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewDisk(t, 64)
			// A watchdog that starts JetStream anew would put signals aside.
			s := &site{Book: bustest.NewBook(t), dir: filepath.Join(disk.Dir, "nats"), stall: healthtest.Patience}
			s.start(t)
			for _, how := range cuts {
				s.works(t)
				s.subscriber(t, 10)
				for range 3 {
					s.pays(t, 20)
				}
				disk.Cut(how)
				s.stop()
				disk.Restore()
				s.dir = filepath.Join(disk.Dir, "nats")
				s.start(t)
				s.judgesEach(t, 10)
			}
			s.works(t)
		})
	}
}

// fill takes all the room there is.
func fill(t *testing.T, disk string) (name string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}
