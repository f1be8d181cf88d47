// Package diskspace watches the free space of a file system, so that writing
// stops before the disk is full.
package diskspace

import (
	"time"

	"golang.org/x/sys/unix"
)

// DefaultFloor is the free space, in bytes, below which the log is not written.
const DefaultFloor = 256 << 20

// period is the time between two checks of the free space.
const period = time.Second

// Watch watches a file system. It is for one goroutine.
type Watch struct {
	path   string
	floor  uint64
	free   func(path string) (uint64, error)
	looked time.Time
	low    bool
}

// New watches the file system with this path. The space is low below floor bytes.
func New(path string, floor uint64) *Watch {
	return &Watch{path: path, floor: floor, free: Free}
}

// Low reports whether the free space was below the floor at the last check. An error of the check
// counts as enough space.
func (w *Watch) Low() bool {
	if w.looked.IsZero() || time.Since(w.looked) >= period {
		w.looked, w.low = time.Now(), w.LowNow()
	}
	return w.low
}

// LowNow checks now. Any goroutine may call it.
func (w *Watch) LowNow() bool {
	free, err := w.free(w.path)
	return err == nil && free < w.floor
}

// Free is what an unprivileged process may still write, in bytes.
func Free(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // types differ by system
}
