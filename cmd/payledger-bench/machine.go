package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Values from /proc are 0 on other systems than Linux.

// processCPU is the CPU time that a process has used.
func processCPU(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const ticks = 100 // a second, fixed by the kernel's interface
	return time.Duration(user+system) * time.Second / ticks
}

// anonymousMemory is the resident memory of a process that maps no file, in
// bytes.
func anonymousMemory(pid int) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(entry(fmt.Sprintf("/proc/%d/status", pid), "RssAnon"), " kB"), 10, 64)
	return kib << 10
}

// processor names the machine's processor.
func processor() string {
	if name := entry("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	return runtime.GOARCH
}

// entry is the first value of that name in a file of "name: value" lines.
func entry(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if n, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// allocated is the space that a file takes on disk in bytes, which for a sparse
// file is less than its length.
func allocated(d fs.DirEntry) (int64, error) {
	info, err := d.Info()
	if err != nil {
		return 0, err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512, nil
	}
	return info.Size(), nil
}
