package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	berrors "go.etcd.io/bbolt/errors"
)

const (
	// scrubPages is how many unused pages are read, and overwritten if need be, while writers wait.
	scrubPages = 1 << 10
	// scrubWait is how long writers wait for readers.
	scrubWait = 50 * time.Millisecond
	// scrubPoll is how often it is looked whether readers have ended.
	scrubPoll = 2 * time.Millisecond
)

// errUnsynced: the last commit failed, and what is on the disk is unknown.
var errUnsynced = errors.New("unused pages cannot be overwritten: the last commit failed, and the disk may hold the state before it")

// Scrub overwrites every page that is in no use with zeroes and syncs the file: no byte that was
// deleted before the call is left in it. bbolt leaves deleted bytes in free pages, and what a
// transaction wrote that a crash or an error ended in these or behind the last page in use. Pages in
// use hold none, since bbolt fills them from zeroed buffers. A disk or file system that writes in
// other places than it was told to, and snapshots of it, may keep what they held.
//
// It runs beside readers and writers. Writers wait for it for some milliseconds at a time, and up to
// 50 ms for readers of an older state than the newest. If these read for longer, such as a backup, it
// tries again when they have ended, until ctx ends. What it has overwritten by then stays so, and the
// next call finishes soon.
//
// A crash in the middle spoils nothing. What is overwritten is listed as free by the newest state, and
// that state is on disk: the first sync sees to it for one that was found by Open, each commit for its
// own, and after a commit that failed nothing is overwritten. If the next state does not reach the
// disk, this one is found. The state before it, the other of the two in the file, does lose pages;
// no open returns to it, because a file with an unreadable state is refused as damaged.
func (f *File) Scrub(ctx context.Context) error {
	switch {
	case f.ro:
		return berrors.ErrDatabaseReadOnly
	case f.closing.Load():
		return ErrClosed
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("syncing before unused pages are overwritten: %w", err)
	}
	for page, more := uint64(0), true; more; {
		tx, err := f.Begin()
		if err != nil {
			return err
		}
		state := tx.ID()
		f.End(tx)
		// Here writers do not wait. Readers that begin from now on are likely to end soon.
		if err := f.awaitReaders(ctx, state); err != nil {
			return err
		}
		if page, more, err = f.scrubFrom(ctx, page); err != nil {
			return err
		}
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("syncing overwritten pages: %w", err)
	}
	return nil
}

// scrubFrom overwrites the unused pages from one on, as many as may be at once. It answers where to go
// on, and whether there are more: the same page if readers of an older state did not end in time.
func (f *File) scrubFrom(ctx context.Context, page uint64) (next uint64, more bool, err error) {
	select {
	case f.writing <- struct{}{}:
		defer func() { <-f.writing }()
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	switch {
	case f.Err() != nil:
		return 0, false, f.Err()
	case f.closing.Load():
		return 0, false, ErrClosed
	case f.unsynced:
		return 0, false, errUnsynced
	}
	// Overwriting would make a file that was cut off longer.
	if err := f.InPlace(); Damaged(err) {
		return 0, false, f.breaks(err)
	}
	m, err := ReadMeta(f.file)
	if err != nil {
		return 0, false, err
	}
	// Readers of this state use none of its free pages, and no reader can begin at an older one.
	waiting, cancel := context.WithTimeout(ctx, scrubWait)
	defer cancel()
	if f.awaitReaders(waiting, int(m.Transaction)) != nil {
		return page, true, ctx.Err()
	}
	unused, err := f.unused(m)
	if err != nil {
		return 0, false, err
	}
	i, _ := slices.BinarySearch(unused, page)
	unused = unused[i:]
	now := unused[:min(len(unused), scrubPages)]
	buf, zeroes := make([]byte, m.PageSize), make([]byte, m.PageSize)
	for _, page := range now {
		at := int64(page) * m.PageSize
		if _, err = f.file.ReadAt(buf, at); err == nil && !bytes.Equal(buf, zeroes) {
			_, err = f.file.WriteAt(zeroes, at)
		}
		if err != nil {
			return 0, false, fmt.Errorf("overwriting an unused page: %w", err)
		}
		next = page + 1
	}
	return next, len(unused) > len(now), nil
}

// unused lists the pages that a state does not use, in rising order: free ones, and those that the file
// is longer than needed.
func (f *File) unused(m Meta) ([]uint64, error) {
	pages, err := Pages{f.file, m}.Free()
	if err != nil {
		return nil, err
	}
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	for page := m.Pages; int64(page) < info.Size()/m.PageSize; page++ {
		pages = append(pages, page)
	}
	return pages, nil
}

// awaitReaders waits until no transaction reads a state before this one.
func (f *File) awaitReaders(ctx context.Context, state int) error {
	for f.readBefore(state) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scrubPoll):
		}
	}
	return ctx.Err()
}

func (f *File) readBefore(state int) bool {
	f.reading.Lock()
	defer f.reading.Unlock()
	for s := range f.readers {
		if s < state {
			return true
		}
	}
	return false
}
