package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"payledger/eventstore/boltfile"
)

// WriteFileSynced writes a private file under another name, syncs it and
// renames it, so that name holds either nothing, the old or the new content.
// A killed process may leave the other file; Sweep removes it.
func WriteFileSynced(name string, content []byte) error {
	f, err := createUnfinished(name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return boltfile.SyncDir(filepath.Dir(name))
}

// makeDirSynced makes a private directory and its missing parents, and syncs
// each parent, so that they survive a power cut.
func makeDirSynced(name string) error {
	parent := filepath.Dir(name)
	err := os.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != name {
		if err := makeDirSynced(parent); err != nil {
			return err
		}
		err = os.Mkdir(name, 0o700)
	}
	existed := errors.Is(err, fs.ErrExist)
	if err != nil && !existed {
		return err
	}
	// A directory that exists may come from an attempt that was cut short, so its
	// parent is synced too, unless that cannot be read.
	if err := boltfile.SyncDir(parent); err != nil && (!existed || !errors.Is(err, fs.ErrPermission)) {
		return err
	}
	return nil
}

// CopyFile copies a file into a new one and syncs it.
func CopyFile(from, to string, through func(io.Writer, int64) io.Writer) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := CreatePrivate(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(through(out, info.Size()), in)
	return errors.Join(err, out.Sync(), out.Close())
}

// CreatePrivate makes a file that is not there yet.
func CreatePrivate(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// MoveInto renames a synced file to name. It replaces an existing file only with
// replace; otherwise the error is ErrExists.
func MoveInto(tmp, name string, replace bool) error {
	if !replace {
		// Unlike a rename, a link never replaces a file made in the meantime.
		switch err := os.Link(tmp, name); {
		case errors.Is(err, fs.ErrExist):
			return ErrExists(name)
		case err == nil:
			return errors.Join(os.Remove(tmp), boltfile.SyncDir(filepath.Dir(name)))
		}
		// Not every file system has links.
		if _, err := os.Lstat(name); err == nil {
			return ErrExists(name)
		}
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return boltfile.SyncDir(filepath.Dir(name))
}

// ErrExists is the error that a file is there already.
func ErrExists(name string) error {
	return fmt.Errorf("%s is there already: choose another name, or --force to replace it", name)
}

// RemoveIfExists removes a file, if it exists; after a power cut it is not back.
func RemoveIfExists(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, boltfile.SyncDir(filepath.Dir(name)))
	}
	return nil
}

// SameFile reports whether two names are of one file.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Exists reports whether there is something of that name.
func Exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
