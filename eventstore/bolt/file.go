package bolt

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"payledger/eventstore/boltfile"
)

// openFile opens the log's file. Before bbolt opens it, everything is checked that
// the next commits will touch: the branches of the trees, the list of free pages,
// and the leaves of all buckets except the records, of which only the last leaf
// changes. Of a file with more than atOnce pages only the edges are checked.
func openFile(path string, readOnly bool, atOnce uint64) (*boltfile.File, error) {
	f, err := boltfile.Open(path, boltfile.Options{
		ReadOnly: readOnly, AtOnce: atOnce, Check: boltfile.Check{Leaves: notRecords},
	})
	var foreignFile *boltfile.ForeignError
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, os.ErrNotExist):
		err = &OpenError{
			Path: path, Err: ErrMissing,
			Advice: "check the path of the data directory, or make a new one with payledger init",
		}
	case errors.Is(err, unix.EISDIR):
		err = foreign(path, "a directory")
	case errors.Is(err, boltfile.ErrLocked):
		err = &OpenError{Path: path, Err: ErrLocked, Advice: "stop the payledger that runs on this data directory first"}
	case errors.Is(err, boltfile.ErrMoved):
		err = replacing(path)
	case errors.As(err, &foreignFile):
		err = foreign(path, err.Error())
	case boltfile.Damaged(err):
		err = damaged(path, err.Error())
	default:
		err = &OpenError{Path: path, Err: err}
	}
	return nil, err
}

func notRecords(bucket string) bool { return bucket != string(bucketRecords) }

func replacing(path string) error {
	return &OpenError{Path: path, Err: ErrLocked, Detail: "it is being replaced", Advice: "try again"}
}

// Hold takes the lock of the log's file, whatever its content, so that nobody can
// open it before release. Errors are ErrMissing, ErrLocked and the system's.
func Hold(path string) (release func() error, err error) {
	release, err = boltfile.Hold(path)
	switch {
	case err == nil:
		return release, nil
	case errors.Is(err, os.ErrNotExist):
		err = &OpenError{Path: path, Err: ErrMissing}
	case errors.Is(err, boltfile.ErrLocked):
		err = &OpenError{Path: path, Err: ErrLocked}
	case errors.Is(err, boltfile.ErrMoved):
		err = replacing(path)
	default:
		err = &OpenError{Path: path, Err: fmt.Errorf("locking: %w", err)}
	}
	return nil, err
}
