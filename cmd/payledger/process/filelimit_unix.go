//go:build unix

package process

import "golang.org/x/sys/unix"

// openFileLimit is how many files the process may have open, if that is
// limited.
func openFileLimit() (n uint64, limited bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Cur), true //nolint:unconvert // signed on some systems
}
