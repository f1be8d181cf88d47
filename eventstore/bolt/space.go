package bolt

import (
	"time"

	"golang.org/x/sys/unix"
)

// spaceEvery is the time between two looks at the free space.
const spaceEvery = time.Second

// Space watches the free space of a file system. It is for one goroutine.
type Space struct {
	path   string
	min    uint64
	now    func() time.Time
	free   func(path string) (uint64, error)
	looked time.Time
	full   bool
}

// NewSpace watches the file system with this path. The space is low below floor
// bytes; 0 is DefaultMinFree.
func NewSpace(path string, floor uint64) *Space {
	if floor == 0 {
		floor = DefaultMinFree
	}
	return &Space{path: path, min: floor, now: time.Now, free: freeSpace}
}

// Low reports whether the free space was below the floor at the last look. If it
// cannot be read, there is room.
func (s *Space) Low() bool {
	now := s.now()
	if d := now.Sub(s.looked); !s.looked.IsZero() && d >= 0 && d < spaceEvery {
		return s.full
	}
	free, err := s.free(s.path)
	s.looked, s.full = now, err == nil && free < s.min
	return s.full
}

// freeSpace is what an unprivileged process may still write, in bytes.
func freeSpace(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // types differ by system
}
