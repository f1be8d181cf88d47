package boltfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SyncDir syncs a directory: its names survive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReplacedError says how a file lost its name. Its content stays as long as it is
// open.
type ReplacedError struct{ Reason string }

func (e *ReplacedError) Error() string { return e.Reason }

// InPlace checks that the path still leads to the open file, and that the file is
// not shorter than before: else the error is a *ReplacedError or a *DamagedError.
// It is one system call.
func (f *File) InPlace() error {
	var there unix.Stat_t
	err := unix.Stat(f.path, &there)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return &ReplacedError{"it was removed or renamed"}
	case err != nil:
		return fmt.Errorf("it cannot be checked: %w", err)
	case there.Dev != f.opened.Dev || there.Ino != f.opened.Ino:
		return &ReplacedError{"another file was put in its place"}
	}
	switch longest := f.longest.Load(); {
	case there.Size < longest:
		return damage("it was cut off while it was open: %d bytes are left of %d", there.Size, longest)
	case there.Size > longest:
		f.longest.CompareAndSwap(longest, there.Size)
	}
	return nil
}

// Hold takes the lock of a file without reading it, so that no process can open it before unlock.
// The error is ErrLocked, ErrMoved or the system's.
func Hold(path string) (unlock func() error, err error) {
	f := &File{path: path}
	if err := f.lock(Options{}); err != nil {
		if f.file != nil {
			_ = f.file.Close()
		}
		return nil, err
	}
	return func() error { return release(f.file) }, nil
}
