package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/boltfile"
)

// proof is what is known of a log's file that was read from end to end.
type proof struct {
	log  domain.ID
	last eventstore.Position
}

// prove reads a log that nobody writes to from end to end: the structure of
// the file, every record and index, every event. each is told every record,
// nil for none; its error ends the reading.
func prove(a *app, path string, each func(eventstore.Stored) error) (_ proof, err error) {
	store, err := bolt.OpenReadOnly(path)
	if err != nil {
		return proof{}, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p := proof{log: store.LogID()}
	if p.last, err = store.Last(a.ctx); err != nil {
		return p, err
	}
	show := newProgress(a.stderr, "Checking the copy")
	codec := eventstore.NewCodec()
	for r, err := range store.Scan(a.ctx, 0, eventstore.Filter{}) {
		if err == nil {
			_, err = codec.Decode(r)
		}
		if err == nil && each != nil {
			err = each(r)
		}
		if err != nil {
			return p, err
		}
		show(r.Position, p.last)
	}
	return p, store.Verify(a.ctx)
}

// copyFile copies a file into a new one and syncs it.
func copyFile(from, to string, through func(io.Writer, int64) io.Writer) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := createPrivate(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(through(out, info.Size()), in)
	return errors.Join(err, out.Sync(), out.Close())
}

// createPrivate makes a file that is not there yet.
func createPrivate(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// give renames a synced file in place of what has the name, if it may, and
// else only if nothing has.
func give(tmp, name string, replace bool) error {
	if !replace {
		// Unlike a rename, a link never replaces what came there meanwhile.
		switch err := os.Link(tmp, name); {
		case errors.Is(err, fs.ErrExist):
			return errThere(name)
		case err == nil:
			return errors.Join(os.Remove(tmp), boltfile.SyncDir(filepath.Dir(name)))
		}
		// Not every file system has links.
		if _, err := os.Lstat(name); err == nil {
			return errThere(name)
		}
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return boltfile.SyncDir(filepath.Dir(name))
}

// place gives a small private file its name, which replaces nothing unless it
// may.
func (s *scratch) place(name string, content []byte, replace bool) error {
	tmp := s.file(filepath.Base(name))
	if err := writeFileSynced(tmp, content); err != nil {
		return err
	}
	return give(tmp, name, replace)
}

func errThere(name string) error {
	return fmt.Errorf("%s is there already: choose another name, or --force to replace it", name)
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
