package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openLocked opens an existing file, takes its lock and makes sure that bbolt
// can open it without going back to an older state by itself. It is the same
// lock that bbolt takes on the descriptor again.
func openLocked(path string, flag int, mode os.FileMode, shared bool) (*os.File, error) {
	f, err := os.OpenFile(path, flag, mode)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &OpenError{
			Path: path, Err: ErrMissing,
			Advice: "check the path of the data directory, or make a new one with payledger init",
		}
	case errors.Is(err, unix.EISDIR):
		return nil, foreign(path, "a directory")
	case err != nil:
		return nil, &OpenError{Path: path, Err: err}
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = &OpenError{Path: path, Err: ErrLocked, Advice: "stop the payledger that runs on this data directory first"}
	case err != nil:
		err = &OpenError{Path: path, Err: fmt.Errorf("locking: %w", err)}
	default:
		if err = stillThere(path, f); err == nil {
			err = inspect(path, f)
		}
	}
	if err != nil {
		_ = release(f)
		return nil, err
	}
	return f, nil
}

// release gives the lock back and closes the file. Closing alone would leave
// the lock with a process that is being forked at this moment until it has
// become another program.
func release(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// A bbolt file begins with two pages, each holding a header of 16 bytes and a
// copy of the file's state, in the machine's byte order:
//
//	0 magic (4)  4 version (4)  8 page size (4)  12 flags (4)  16 root (16)
//	32 freelist (8)  40 pages in use (8)  48 transaction (8)  56 FNV-1a of 0…55 (8)
const (
	metaOffset = 16
	metaLen    = 64
	boltMagic  = 0xED0CDAED
)

// inspect looks at the copies. The states of the last two transactions
// alternate between them, and bbolt takes the older one when the newer is
// unreadable. A copy is far smaller than a disk's unit of writing, so a crash
// does not tear it: one that is unreadable was damaged later, and with the
// newest the last commit would silently be gone.
func inspect(path string, f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return &OpenError{Path: path, Err: err}
	case !info.Mode().IsRegular():
		return foreign(path, "not a regular file")
	case info.Size() == 0:
		return damaged(path, "the file is empty")
	}
	first, ok := readMetaPage(f, 0)
	pageSize := int64(first.pageSize)
	if !ok {
		// The page size is not known then; look wherever a second copy can be.
		for pageSize = 1 << 10; pageSize <= 16<<20; pageSize *= 2 {
			if second, found := readMetaPage(f, pageSize); found && int64(second.pageSize) == pageSize {
				return damaged(path, "the first page is unreadable")
			}
		}
		return foreign(path, "no page of it is known")
	}
	second, ok := readMetaPage(f, pageSize)
	if !ok {
		return damaged(path, "the second page is unreadable")
	}
	newest := first
	if second.transaction > first.transaction {
		newest = second
	}
	if want := int64(newest.pages) * pageSize; info.Size() < want {
		return damaged(path, fmt.Sprintf("it was cut off: %d bytes, %d are in use", info.Size(), want))
	}
	if err := checkTree(f, newest); err != nil {
		return damaged(path, err.Error())
	}
	return nil
}

type metaPage struct {
	pageSize    uint32
	root        uint64
	freelist    uint64
	pages       uint64
	transaction uint64
}

func readMetaPage(f io.ReaderAt, at int64) (metaPage, bool) {
	var b [metaLen]byte
	if _, err := f.ReadAt(b[:], at+metaOffset); err != nil {
		return metaPage{}, false
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	m := metaPage{
		pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		pages: order.Uint64(b[40:]), transaction: order.Uint64(b[48:]),
	}
	return m, order.Uint32(b[:]) == boltMagic && order.Uint64(b[56:]) == sum.Sum64() && m.pageSize >= 1<<10
}
