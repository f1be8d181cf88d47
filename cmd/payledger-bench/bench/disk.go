package bench

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// allocated is the space that a file takes on disk, which for a sparse file is
// less than its length. A file that was just removed takes none.
func allocated(name string) (int64, error) {
	var s unix.Stat_t
	err := unix.Lstat(name, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return s.Blocks * 512, err
}
