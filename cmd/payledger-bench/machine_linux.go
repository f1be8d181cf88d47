package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// waitUntil is more exact than a timer of the runtime, which may be a
// millisecond late. The caller has locked its thread.
func waitUntil(at time.Time) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for d := time.Until(at); d > 0; d = time.Until(at) {
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early
	}
}
