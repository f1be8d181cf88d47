package notifier

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"payledger/eventstore/storetest"
)

// TestFullDisk fills JetStream's disk to the last byte while payments go on,
// and makes room again: all that waited is routed and judged, in the running
// process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, whileFull := range map[string]func(t *testing.T, s *site){
		"running": func(t *testing.T, s *site) {
			eventually(t, "the watchdog tells what waits", func() bool { return len(s.watchdog.Degraded()) > 0 })
		},
		"restarted": func(t *testing.T, s *site) {
			s.stop()
			s.start(t)
			s.create(t, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewTmpfs(t, 16)
			s := newSite(t, filepath.Join(disk, "nats"))
			s.works(t)
			s.subscriber(t, 5)
			filler := fill(t, disk)
			waiting := s.routed(t) // its signal finds no room, or does
			for range 2000 {
				s.create(t, time.Hour)
			}
			s.tell(t, waiting)
			whileFull(t, s)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			allRouted(t, s.book)
			s.works(t)
			if first := s.subscriber(t, 1); first > 6 {
				t.Errorf("the subscriber goes on with %d", first)
			}
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
