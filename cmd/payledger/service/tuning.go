package service

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A small heap fills up several times a second under load, and each time it is
// collected what is under way is held up by some milliseconds. So the heap may
// grow to smallHeap before it is collected, however little of it is in use. A
// large one is mostly JetStream's index, small objects of every payment there
// is, and looking through them takes long: with Go's own 100 percent a service
// with millions of payments spends a sixth of its time on it.
const (
	smallHeap   = 256 << 20
	mostGrowth  = 1600 // percent: what is in use may grow fast
	leastGrowth = 175  // percent
	heapLook    = time.Second
)

// heapGrowth is by how many percent a heap of which so much is in use may
// grow before it is collected.
func heapGrowth(live uint64) int {
	room := (smallHeap - min(live, smallHeap)) * 100 / max(live, 1)
	return int(max(leastGrowth, min(room, mostGrowth)))
}

// RoomyHeap lets the heap grow by heapGrowth until it is stopped. An operator
// who has set GOGC is heeded, and Go heeds GOMEMLIMIT by itself.
func RoomyHeap() (stop func() error) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() error { return nil }
	}
	stopping := make(chan struct{})
	found := debug.SetGCPercent(heapGrowth(liveHeap()))
	var working sync.WaitGroup
	working.Go(func() {
		defer debug.SetGCPercent(found)
		tick := time.NewTicker(heapLook)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				debug.SetGCPercent(heapGrowth(liveHeap()))
			case <-stopping:
				return
			}
		}
	})
	return func() error {
		close(stopping)
		working.Wait()
		return nil
	}
}

// liveHeap is what the last collection found in use.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// moreProcessors gives Go twice the processors of the machine, and at least
// four more. Go looks at the network when one of them runs out of work, else
// only every 10 ms, so that a burst of work on all of them kept requests
// waiting; with more of them the kernel shares the machine out. An operator who
// has set GOMAXPROCS is heeded, and so is a limit of CPU time, which more
// threads would only use up sooner.
func moreProcessors() (restore func() error) {
	before := runtime.GOMAXPROCS(0)
	if _, set := os.LookupEnv("GOMAXPROCS"); !set && before == runtime.NumCPU() {
		runtime.GOMAXPROCS(max(2*before, before+4))
	}
	return func() error {
		runtime.GOMAXPROCS(before)
		return nil
	}
}
