package bolt

import (
	"cmp"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DefaultFloor is the free space, in bytes, below which the log is not written.
const DefaultFloor = 256 << 20

// isLow reports whether so little space is free that the log is not written. An error of the file
// system counts as enough.
func (s *Store) isLow() bool {
	free, err := FreeSpace(filepath.Dir(s.path))
	return err == nil && free < cmp.Or(s.options.MinFree, DefaultFloor)
}

// FreeSpace is what an unprivileged process may still write, in bytes.
func FreeSpace(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // types differ by system
}
