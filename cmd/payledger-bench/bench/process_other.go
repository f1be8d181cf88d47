//go:build !linux

package bench

import (
	"os"
	"runtime"
	"time"
)

// What only Linux tells is reported as 0 or unknown elsewhere.

func processCPU(int) time.Duration { return 0 }

func anonymousMemory(int) int64 { return 0 }

func waitUntil(at time.Time) { <-time.After(time.Until(at)) }

func sharpTimers() {}

func dataSync(f *os.File) error { return f.Sync() }

func fileSystem(string) string { return "unknown" }

func processor() string { return runtime.GOARCH }
