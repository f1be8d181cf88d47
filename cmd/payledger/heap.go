package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A small heap fills up several times a second under load, and each time it is
// collected what is under way is held up by some milliseconds. So the heap may
// grow to smallHeap before it is collected, however little of it is in use. A
// larger one doubles, as Go has it.
const (
	smallHeap  = 256 << 20
	goGrowth   = 100  // percent
	mostGrowth = 1600 // percent: what is in use may grow fast
	heapLook   = time.Second
)

// heapGrowth is by how many percent a heap of which so much is in use may
// grow before it is collected.
func heapGrowth(live uint64) int {
	if live >= smallHeap/2 {
		return goGrowth
	}
	return int(min(mostGrowth, (smallHeap-live)*100/max(live, 1)))
}

// roomyHeap lets the heap grow by heapGrowth until it is stopped. An operator
// who has set GOGC is heeded, and Go heeds GOMEMLIMIT by itself.
func roomyHeap() (stop func() error) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() error { return nil }
	}
	stopping := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		defer debug.SetGCPercent(goGrowth)
		tick := time.NewTicker(heapLook)
		defer tick.Stop()
		for {
			debug.SetGCPercent(heapGrowth(liveHeap()))
			select {
			case <-tick.C:
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
