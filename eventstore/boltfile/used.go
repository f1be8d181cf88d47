package boltfile

import (
	"io"
	"slices"
)

// Used is the pages that the newest state of a file uses: all that its list of free pages does not
// name. The zero value has none.
type Used struct {
	meta Meta
	free []uint64 // in rising order
}

// Has reports whether the page with the byte at the offset is used.
func (u Used) Has(offset int64) bool {
	if u.meta.PageSize == 0 {
		return false
	}
	page := uint64(offset / u.meta.PageSize)
	_, free := slices.BinarySearch(u.free, page)
	return page < u.meta.Pages && !free
}

// ReadUsed reads which pages a file uses, with ordinary reads. If one of the two states cannot be
// read, it is unknown which one is the newest; then, or if the list of free pages cannot be read, it
// is the zero value.
func ReadUsed(f io.ReaderAt) Used {
	m, err := ReadMeta(f)
	if err != nil {
		return Used{}
	}
	free, err := Pages{File: f, Meta: m}.Free()
	if err != nil {
		return Used{}
	}
	return Used{m, free}
}
