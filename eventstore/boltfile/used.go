package boltfile

import (
	"encoding/binary"
	"io"
)

// Used is the pages that the newest state of a file uses, as far as that can
// still be read: the leaves that its trees lead to and, if the list of free pages
// can be read, all pages that are not in it. The zero value has none.
type Used struct {
	meta    Meta
	reached bits
	free    bits // nil: not known
}

// Has reports whether the page with the byte at the offset is used.
func (u Used) Has(offset int64) bool {
	if u.meta.PageSize == 0 || offset/u.meta.PageSize >= int64(u.meta.Pages) {
		return false
	}
	page := uint64(offset / u.meta.PageSize)
	return u.reached.has(page) || (u.free != nil && !u.free.has(page))
}

// ReadUsed reads the structure of a file, however damaged it is, with ordinary
// reads, each page once. If one of the two states cannot be read, it is unknown
// which one is the newest.
func ReadUsed(f io.ReaderAt, size int64) Used {
	m, err := ReadMeta(f)
	if err != nil {
		return Used{}
	}
	m.Pages = min(m.Pages, uint64(size/m.PageSize))
	pages := Pages{File: f, Meta: m}
	u := Used{meta: m, reached: newBits(m.Pages)}
	if free, err := pages.Free(); err == nil {
		u.free = newBits(m.Pages)
		for _, page := range free {
			u.free.set(page)
		}
	}
	u.reach(pages)
	return u
}

// reach adds the leaves that the tree of buckets leads to, and those of the
// buckets in it.
func (u *Used) reach(pages Pages) {
	met := newBits(u.meta.Pages)
	for todo := []uint64{pages.Meta.Root}; len(todo) > 0; {
		number := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if number >= u.meta.Pages || met.has(number) {
			continue
		}
		met.set(number)
		p, err := pages.Read(number, nil)
		if err != nil {
			continue
		}
		if p.Leaf() {
			for i := range p.Following + 1 {
				u.reached.set(number + i)
			}
		}
		for i := range p.Len() {
			switch e, ok := p.Element(i); {
			case !ok:
			case p.Branch():
				todo = append(todo, e.Below)
			case p.Leaf() && e.Flags&BucketFlag != 0 && len(e.Value) >= 8:
				todo = append(todo, binary.NativeEndian.Uint64(e.Value))
			}
		}
	}
}
