package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

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

// Save gives the open file another name in the directory of the one it lost, or if that fails one
// directory up or among the temporary files. There must be no writer meanwhile. The name is synced
// when Save returns.
func (f *File) Save(now time.Time) (name string, err error) {
	dir := filepath.Dir(f.path)
	base := filepath.Base(f.path) + now.UTC().Format(".saved-20060102T150405.000Z")
	failed := make([]error, 0, 3)
	for _, dir := range []string{dir, filepath.Dir(filepath.Clean(dir)), os.TempDir()} {
		name := filepath.Join(dir, base)
		err := f.saveAs(name)
		if err == nil {
			return name, nil
		}
		failed = append(failed, fmt.Errorf("saving it as %s: %w", name, err))
	}
	return "", errors.Join(failed...)
}

func (f *File) saveAs(name string) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// A file that has a name left somewhere can be given another one.
	fd := fmt.Sprintf("/proc/self/fd/%d", f.file.Fd())
	if unix.Linkat(unix.AT_FDCWD, fd, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW) != nil {
		if err := f.copyTo(name); err != nil {
			return errors.Join(err, os.RemoveAll(name))
		}
	}
	return errors.Join(f.file.Sync(), SyncDir(dir), SyncDir(filepath.Dir(dir)))
}

// copyTo leaves the whole file under the name or nothing, unless the process ends
// meanwhile.
func (f *File) copyTo(name string) error {
	out, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// bbolt never uses the descriptor's file offset.
	_, err = f.file.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(out, f.file)
	}
	if err = errors.Join(err, out.Sync()); err == nil {
		was, wasErr := ReadMeta(f.file)
		is, isErr := ReadMeta(out)
		if err = errors.Join(wasErr, isErr); err == nil && is != was {
			err = errors.New("the copy is not the same")
		}
	}
	return errors.Join(err, out.Close())
}
