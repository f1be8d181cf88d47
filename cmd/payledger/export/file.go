package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"payledger/cmd/payledger/datadir"
)

const exportBuffer = 1 << 18

// ToFile writes the export to a file that does not exist yet, and syncs it.
func (x *Pass) ToFile(ctx context.Context, name string) (done Done, err error) {
	err = whenWhole(name, func(unfinished string) error {
		done, err = x.create(ctx, unfinished)
		return err
	})
	return done, err
}

// whenWhole has a file or directory written under a temporary name, and renames it once it is
// complete: an interrupted export leaves nothing that looks finished.
func whenWhole(name string, create func(unfinished string) error) (err error) {
	name = filepath.Clean(name)
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists: choose another name", name)
	}
	work, err := datadir.NewScratch(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	unfinished := work.File(filepath.Base(name))
	if err := create(unfinished); err != nil {
		return err
	}
	return datadir.MoveInto(unfinished, name, false)
}

func (x *Pass) create(ctx context.Context, name string) (done Done, err error) {
	f, err := datadir.CreatePrivate(name)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	done.Events, err = x.ToStream(ctx, f)
	done.Position = max(x.last, x.after)
	return done, errors.Join(err, f.Sync())
}
