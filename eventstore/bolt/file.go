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
// lock that bbolt takes on the descriptor again. The state is that of the
// newest transaction; of its branches the right edges alone were walked if it
// has more than atOnce pages.
func openLocked(path string, flag int, mode os.FileMode, shared bool, atOnce uint64) (_ *os.File, newest metaPage, _ error) {
	f, err := os.OpenFile(path, flag, mode)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, newest, &OpenError{
			Path: path, Err: ErrMissing,
			Advice: "check the path of the data directory, or make a new one with payledger init",
		}
	case errors.Is(err, unix.EISDIR):
		return nil, newest, foreign(path, "a directory")
	case err != nil:
		return nil, newest, &OpenError{Path: path, Err: err}
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
			newest, err = inspect(path, f, atOnce)
		}
	}
	if err != nil {
		_ = release(f)
		return nil, newest, err
	}
	return f, newest, nil
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
func inspect(path string, f *os.File, atOnce uint64) (newest metaPage, err error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return newest, &OpenError{Path: path, Err: err}
	case !info.Mode().IsRegular():
		return newest, foreign(path, "not a regular file")
	case info.Size() == 0:
		return newest, damaged(path, "the file is empty")
	}
	first, ok := readMetaPage(f, 0)
	pageSize := int64(first.pageSize)
	if !ok {
		// The page size is not known then; look wherever a second copy can be.
		for pageSize = 1 << 10; pageSize <= 16<<20; pageSize *= 2 {
			if second, found := readMetaPage(f, pageSize); found && int64(second.pageSize) == pageSize {
				return newest, damaged(path, "the first page is unreadable")
			}
		}
		return newest, foreign(path, "no page of it is known")
	}
	second, ok := readMetaPage(f, pageSize)
	if !ok {
		return newest, damaged(path, "the second page is unreadable")
	}
	newest = first
	if second.transaction > first.transaction {
		newest = second
	}
	if want := int64(newest.pages) * pageSize; info.Size() < want {
		return newest, damaged(path, fmt.Sprintf("it was cut off: %d bytes, %d are in use", info.Size(), want))
	}
	check := checkTree
	if newest.pages > atOnce {
		check = checkEdges
	}
	if err := check(f, newest); err != nil {
		return newest, damaged(path, err.Error())
	}
	return newest, nil
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
