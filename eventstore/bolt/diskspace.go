package bolt

import (
	"time"

	"golang.org/x/sys/unix"
)

// DefaultFloor is the free space, in bytes, below which the log is not written.
const DefaultFloor = 256 << 20

// spaceEvery is the time between two checks of the free space.
const spaceEvery = time.Second

// space watches the free space of a file system, so that writing stops before the disk is full. It
// is for one goroutine.
type space struct {
	path   string
	floor  uint64
	free   func(path string) (uint64, error)
	looked time.Time
	low    bool
}

// newSpace watches the file system with this path. The space is low below floor bytes.
func newSpace(path string, floor uint64) *space {
	return &space{path: path, floor: floor, free: FreeSpace}
}

// isLow reports whether the free space was below the floor at the last check. An error of the check
// counts as enough space.
func (w *space) isLow() bool {
	if w.looked.IsZero() || time.Since(w.looked) >= spaceEvery {
		w.looked, w.low = time.Now(), w.isLowNow()
	}
	return w.low
}

// isLowNow checks now. Any goroutine may call it.
func (w *space) isLowNow() bool {
	free, err := w.free(w.path)
	return err == nil && free < w.floor
}

// FreeSpace is what an unprivileged process may still write, in bytes.
func FreeSpace(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // types differ by system
}
