package bolt

import (
	"time"

	"golang.org/x/sys/unix"
)

// spaceEvery is how often the free space is looked at.
const spaceEvery = time.Second

// space watches the free space of the log's file system. Only the committer
// uses it.
type space struct {
	path   string
	min    uint64
	now    func() time.Time
	free   func(path string) (uint64, error)
	looked time.Time
	full   bool
}

// low reports whether the free space was below the floor at the last look. A
// file system that does not tell is taken to have room.
func (s *space) low() bool {
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
