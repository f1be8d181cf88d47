package bench

import (
	"context"
	"os"
	"runtime"
	"time"
)

// pacers is how many loads are paced at the same time, at most. While it sleeps
// in the kernel, each keeps one of Go's processors from the connections.
const pacers = 2

// pace says when each request of an open loop is due, evenly spread. Nobody
// who is late holds it up.
func pace(ctx context.Context, start time.Time, rate int, d time.Duration, due chan<- time.Time) error {
	runtime.LockOSThread() // never unlocked: the thread, with its timers, ends with the goroutine
	sharpTimers()
	every := time.Second / time.Duration(rate)
	for at := start; at.Sub(start) < d; at = at.Add(every) {
		waitUntil(at)
		select {
		case due <- at:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration { return processCPU(os.Getpid()) }
