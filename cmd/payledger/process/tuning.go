package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A small heap is collected several times a second under load, and each time
// requests are delayed by some milliseconds. So the heap may grow first, however
// little of it is in use, by what is allocated in growTime, to between restHeap and
// smallHeap. What a heap that may grow less does not need goes back to the system.
// A large heap is mostly JetStream's index, small objects for every payment, which
// take long to mark: with Go's default of 100 percent a service with millions of
// payments spends a sixth of its CPU time on it. At rest it may grow little: what a load
// left goes back to the system only with a few collections, and these come with growth.
const (
	restHeap   = 64 << 20
	smallHeap  = 256 << 20
	growTime   = 8    // seconds
	paceFalls  = 32   // seconds in which the pace that counts falls to a third: a pause is no rest
	maxGrowth  = 1600 // percent: the live heap may grow fast
	minGrowth  = 175  // percent
	restGrowth = 50   // percent, where less is allocated than restHeap in growTime
	heapCheck  = time.Second
)

// heapGrowth is the GC percentage for a heap with this many live bytes in which this many are
// allocated a second.
func heapGrowth(live, pace uint64) int {
	size := min(max(pace, restHeap/growTime)*growTime, smallHeap)
	room := (size - min(live, size)) * 100 / max(live, 1)
	least := uint64(minGrowth)
	if pace < restHeap/growTime {
		least = restGrowth
	}
	return int(max(least, min(room, maxGrowth)))
}

// memoryShare is the part of a container's memory that Go may use. The rest is for what Go does not
// count but the container does: pages of the mapped files.
const memoryShare = 0.6

// heedLimit has Go collect garbage early enough for the limit, in bytes, of the
// container, and returns how to undo that. GOMEMLIMIT wins. Where there is no limit, or
// none can be read, nothing changes.
func heedLimit(of memlimit.Provider) (undo func()) {
	before := debug.SetMemoryLimit(-1)
	_, _ = memlimit.Set(memlimit.WithProvider(of), memlimit.WithRatio(memoryShare))
	return func() { debug.SetMemoryLimit(before) }
}

// RoomyHeap sets the GC percentage by heapGrowth, and the memory limit by that of the
// container, until stop is called. If GOGC or GOMEMLIMIT is set, it has its usual effect.
func RoomyHeap() (stop func() error) {
	undo := heedLimit(memlimit.FromCgroup)
	if _, set := os.LookupEnv("GOGC"); set {
		return func() error { undo(); return nil }
	}
	stopping := make(chan struct{})
	pace, allocated := uint64(smallHeap/growTime), uint64(0)
	adapt := func() (found int) {
		live, all := heapNow()
		pace, allocated = max(all-allocated, pace-pace/paceFalls), all
		return debug.SetGCPercent(heapGrowth(live, pace))
	}
	found := adapt()
	var working sync.WaitGroup
	working.Go(func() {
		defer debug.SetGCPercent(found)
		tick := time.NewTicker(heapCheck)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				adapt()
			case <-stopping:
				return
			}
		}
	})
	return func() error {
		close(stopping)
		working.Wait()
		undo()
		return nil
	}
}

// heapNow is how many bytes the last collection found in use, and how many were ever allocated.
func heapNow() (live, allocated uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
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
