package boltfile

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// reserveStep is how much more than needed is reserved, if there is as much free space.
const reserveStep = 1 << 20

// Reserve reserves disk blocks for the next transaction, which may add n bytes of pages to the
// file: its commit does not fail for lack of space, however fast others fill the disk. The error is
// ErrFull, and the file is as it was. Where the file system cannot reserve, or copies on write,
// Reserve promises nothing.
func (f *File) Reserve(n int64) error {
	tx, err := f.Begin()
	if err != nil {
		return nil // the transaction itself fails with it
	}
	size := tx.Size()
	f.End(tx)
	need := size + n + size/512 // a list of all pages as free ones has eight bytes for each of 4 KiB
	f.reserving.Lock()
	defer f.reserving.Unlock()
	if need <= f.reserved {
		return nil
	}
	from := max(f.reserved, size)
	for _, to := range [...]int64{need + reserveStep, need} {
		err = unix.EINTR // by a signal, such as Go's own to its threads
		for errors.Is(err, unix.EINTR) {
			err = unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		}
		switch {
		case err == nil:
			f.reserved = to
			return nil
		case !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT):
			f.reserved = math.MaxInt64
			return nil
		}
	}
	return ErrFull
}
