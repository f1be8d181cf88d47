package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

const (
	metaOffset  = 16
	metaLen     = 64
	boltMagic   = 0xED0CDAED
	minPageSize = 1 << 10
	maxPageSize = 16 << 20
)

// Meta is the state of a file after a transaction.
type Meta struct {
	PageSize    int64
	Root        uint64 // page of the tree of buckets
	Freelist    uint64 // page with the free pages
	Pages       uint64 // in use: numbers are below
	Transaction uint64
}

// Size is the least length of a file with this state, in bytes.
func (m Meta) Size() int64 { return int64(m.Pages) * m.PageSize }

// ReadMeta returns the newest state. A copy of it is far smaller than what a disk
// writes at once, so a crash does not tear it: if one copy is unreadable, it was
// damaged later, and bbolt would silently go back to the transaction before. The error
// is a *DamagedError.
func ReadMeta(f io.ReaderAt) (Meta, error) {
	first, ok := readMeta(f, 0)
	if !ok {
		// The page size is unknown, so the second copy can be at several offsets.
		for size := int64(minPageSize); size <= maxPageSize; size *= 2 {
			if second, found := readMeta(f, size); found && second.PageSize == size {
				return Meta{}, damage("the first page is unreadable")
			}
		}
		return Meta{}, &DamagedError{"no page of it is known", true}
	}
	second, ok := readMeta(f, first.PageSize)
	switch {
	case !ok, second.PageSize != first.PageSize:
		return Meta{}, damage("the second page is unreadable")
	case second.Transaction > first.Transaction:
		return second, nil
	}
	return first, nil
}

func readMeta(f io.ReaderAt, at int64) (Meta, bool) {
	var b [metaLen]byte
	if _, err := f.ReadAt(b[:], at+metaOffset); err != nil {
		return Meta{}, false
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	m := Meta{
		PageSize: int64(order.Uint32(b[8:])), Root: order.Uint64(b[16:]), Freelist: order.Uint64(b[32:]),
		Pages: order.Uint64(b[40:]), Transaction: order.Uint64(b[48:]),
	}
	return m, order.Uint32(b[:]) == boltMagic && order.Uint64(b[56:]) == sum.Sum64() &&
		m.PageSize >= minPageSize && m.PageSize <= maxPageSize && m.Pages < 1<<40
}

// DamagedError: the file is not what was written.
type DamagedError struct {
	Reason  string
	Foreign bool // nothing in it is bbolt's
}

func (e *DamagedError) Error() string { return e.Reason }

func damage(format string, args ...any) error {
	return &DamagedError{Reason: fmt.Sprintf(format, args...)}
}
