package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/eventstore"
)

// Backup copies the log as it is at one moment: the copy is a log of its own
// with the same id, ends at a durable position and can be opened once it is
// complete. begin is called once with that position and the bytes that will
// come, and answers where they go.
//
// Appends go on meanwhile. Until the copy is done no page it needs is written
// over, so the file grows by what is appended; a writer that takes the bytes
// slowly should give up at some time.
func (s *Store) Backup(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error {
	if _, err := s.tail.last(); err != nil {
		return err
	}
	return s.view(0, func(tx *bbolt.Tx) error {
		var last eventstore.Position
		if k, _ := tx.Bucket(bucketRecords).Cursor().Last(); len(k) == 8 {
			last = eventstore.Position(binary.BigEndian.Uint64(k))
		}
		// The transaction may show a group that is not durable yet. A copy
		// with events that a power cut then takes from the log would be of
		// another course than the log.
		if last > 0 {
			if err := s.wait(ctx, last-1); err != nil {
				return err
			}
		}
		w, err := begin(last, tx.Size())
		if err != nil {
			return err
		}
		to := &sink{ctx: ctx, w: w}
		if _, err := tx.WriteTo(to); err != nil {
			return cmp.Or(to.err, err)
		}
		return nil
	})
}

// sink is a writer that fails once ctx has ended. It keeps the error, of which
// bbolt passes on only the text.
type sink struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (n int, err error) {
	if s.err = s.ctx.Err(); s.err == nil {
		n, s.err = s.w.Write(b)
	}
	return n, s.err
}

// Hold takes the lock of the log's file, whatever is in it, so that nobody can
// open it until it is let go. Errors are ErrMissing, ErrLocked and the
// system's.
func Hold(path string) (letGo func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &OpenError{Path: path, Err: ErrMissing}
	case err != nil:
		return nil, &OpenError{Path: path, Err: err}
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = &OpenError{Path: path, Err: ErrLocked}
	case err != nil:
		err = &OpenError{Path: path, Err: fmt.Errorf("locking: %w", err)}
	default:
		err = stillThere(path, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() error { return release(f) }, nil
}

// stillThere makes sure that the file that was locked is the one at the path:
// between opening and locking another may have been put in its place.
func stillThere(path string, f *os.File) error {
	locked, err := f.Stat()
	if err != nil {
		return &OpenError{Path: path, Err: err}
	}
	there, err := os.Stat(path)
	if err != nil || !os.SameFile(locked, there) {
		return &OpenError{Path: path, Err: ErrLocked, Detail: "it is being replaced", Advice: "try again"}
	}
	return nil
}
