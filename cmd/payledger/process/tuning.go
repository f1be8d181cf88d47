package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A small heap is collected several times a second under load, and each time
// requests are delayed by some milliseconds. So the heap may grow to smallHeap
// first, however little of it is in use. A large heap is mostly JetStream's index,
// small objects for every payment, which take long to mark: with Go's default of
// 100 percent a service with millions of payments spends a sixth of its CPU time
// on it.
const (
	smallHeap = 256 << 20
	maxGrowth = 1600 // percent: the live heap may grow fast
	minGrowth = 175  // percent
	heapCheck = time.Second
)

// heapGrowth is the GC percentage for a heap with this many live bytes.
func heapGrowth(live uint64) int {
	room := (smallHeap - min(live, smallHeap)) * 100 / max(live, 1)
	return int(max(minGrowth, min(room, maxGrowth)))
}

// RoomyHeap sets the GC percentage by heapGrowth until stop is called. It does
// nothing if GOGC is set; GOMEMLIMIT has its usual effect.
func RoomyHeap() (stop func() error) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() error { return nil }
	}
	stopping := make(chan struct{})
	found := debug.SetGCPercent(heapGrowth(liveHeap()))
	var working sync.WaitGroup
	working.Go(func() {
		defer debug.SetGCPercent(found)
		tick := time.NewTicker(heapCheck)
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

// MoreProcessors sets GOMAXPROCS to twice the machine's processors, and at least
// four more. Go polls the network when a processor runs out of work, otherwise
// only every 10 ms, so a burst of work on all of them made requests wait; with
// more of them the kernel shares the machine. It does nothing if GOMAXPROCS is
// set, or under a CPU quota, which more threads would only use up sooner.
func MoreProcessors() (restore func() error) {
	before := runtime.GOMAXPROCS(0)
	if _, set := os.LookupEnv("GOMAXPROCS"); !set && before == runtime.NumCPU() {
		runtime.GOMAXPROCS(max(2*before, before+4))
	}
	return func() error {
		runtime.GOMAXPROCS(before)
		return nil
	}
}
