package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// Scratch is a directory payledger-DIGITS.tmp for unfinished files. It lies
// in the directory of the finished files, so that a rename finishes them. The
// process locks it while it uses it. One without a lock was left by a killed
// process; the next command that makes a scratch directory there removes it.
type Scratch struct {
	dir  string
	held *os.File
}

// NewScratch makes a scratch directory in dir, and sweeps that before.
func NewScratch(dir string, files ...string) (*Scratch, error) {
	if err := Sweep(dir, files...); err != nil {
		return nil, err
	}
	for {
		name, err := os.MkdirTemp(dir, "payledger-*.tmp")
		if err != nil {
			return nil, err
		}
		held, err := holdUnfinished(name)
		switch {
		case err == nil:
			return &Scratch{name, held}, nil
		case !swept(err):
			return nil, errors.Join(err, os.Remove(name))
		}
	}
}

// File names a file in it.
func (s *Scratch) File(name string) string { return filepath.Join(s.dir, name) }

// Remove removes it with everything in it.
func (s *Scratch) Remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.held.Close())
}

// unfinished matches the names that a killed process may leave: scratch
// directories, and the temporary files of WriteFileSynced and bolt.Init.
const unfinished = `^(payledger-[0-9]+\.tmp|(.+)(\.[0-9]+\.tmp|\.init-[0-9]+))$`

// Sweep removes what killed processes left in a directory: scratch directories
// and, of the files named, the unfinished ones. What a running process holds
// stays.
func Sweep(dir string, files ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what was left unfinished: %w", err)
	}
	of := make(map[string]bool)
	for _, name := range files {
		of[filepath.Base(name)] = true
	}
	pattern := regexp.MustCompile(unfinished)
	var errs []error
	for _, e := range entries {
		m := pattern.FindStringSubmatch(e.Name())
		if len(m) == 0 {
			continue
		}
		if file := m[2]; (file == "" && e.IsDir()) || (e.Type().IsRegular() && of[file]) {
			errs = append(errs, sweepOne(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func sweepOne(name string) error {
	held, err := holdUnfinished(name)
	if err != nil {
		return nil // in use, gone, or not lockable: leave it
	}
	defer held.Close() //nolint:errcheck // only locked
	return os.RemoveAll(name)
}

// holdUnfinished locks a file or directory. On a file system without locks it
// fails for every process, so nothing is ever swept there.
func holdUnfinished(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return lockUnfinished(f)
}

// lockUnfinished locks a file that was just opened or made. If another process
// has swept it meanwhile, the error is fs.ErrNotExist.
func lockUnfinished(f *os.File) (*os.File, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		var mine, there fs.FileInfo
		if mine, err = f.Stat(); err == nil {
			if there, err = os.Lstat(f.Name()); err == nil && !os.SameFile(mine, there) {
				err = fs.ErrNotExist
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// createUnfinished makes a temporary file in the directory of name, locked
// until it is closed.
func createUnfinished(name string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
		if err != nil {
			return nil, err
		}
		if f, err = lockUnfinished(f); err == nil || !swept(err) {
			return f, err
		}
	}
}

// swept reports whether another process removed or locked what was just made,
// because it took it for a leftover.
func swept(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK)
}
