package main

import (
	"os"
	"runtime"
)

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
