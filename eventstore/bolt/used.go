package bolt

import (
	"encoding/binary"
	"io"

	"payledger/eventstore/boltfile"
)

// usage tells which pages the newest state of a file uses, as far as that can
// still be read: those that the records' tree leads to, and, where the list of
// free pages is whole, those that it does not name.
type usage struct {
	pageSize int64
	pages    uint64
	reached  pageSet
	free     pageSet // nil: not known
}

func (u usage) has(offset int64) bool {
	if u.pageSize == 0 {
		return false
	}
	page := uint64(offset / u.pageSize)
	return u.reached.has(page) || (u.free != nil && page < u.pages && !u.free.has(page))
}

// usedPages reads the structure of a file as it is, with ordinary reads, each
// page once. A file of which one of the two states is unreadable has no newest
// one.
func usedPages(f io.ReaderAt, size int64) usage {
	m, err := boltfile.ReadMeta(f)
	if err != nil {
		return usage{}
	}
	m.Pages = min(m.Pages, uint64(size/m.PageSize))
	pages := boltfile.Pages{File: f, Meta: m}
	u := usage{pageSize: m.PageSize, pages: m.Pages, reached: newPageSet(m.Pages)}
	if free, err := pages.Free(); err == nil {
		u.free = newPageSet(m.Pages)
		for _, page := range free {
			u.free.add(page)
		}
	}
	u.reach(pages)
	return u
}

// pageSet is a set of pages.
type pageSet []uint64

func newPageSet(pages uint64) pageSet { return make(pageSet, pages/64+1) }
func (s pageSet) has(page uint64) bool {
	return page/64 < uint64(len(s)) && s[page/64]>>(page%64)&1 == 1
}
func (s pageSet) add(page uint64) { s[page/64] |= 1 << (page % 64) }

// reach adds the leaves that the tree of buckets leads to, and those of the
// buckets in it.
func (u *usage) reach(pages boltfile.Pages) {
	met := newPageSet(u.pages)
	for todo := []uint64{pages.Meta.Root}; len(todo) > 0; {
		number := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if number >= u.pages || met.has(number) {
			continue
		}
		met.add(number)
		p, err := pages.Read(number, nil)
		if err != nil {
			continue
		}
		if p.Leaf() {
			for i := range p.Following + 1 {
				u.reached.add(number + i)
			}
		}
		for i := range p.Len() {
			switch e, ok := p.Element(i); {
			case !ok:
			case p.Branch():
				todo = append(todo, e.Below)
			case p.Leaf() && e.Flags&boltfile.BucketFlag != 0 && len(e.Value) >= 8:
				todo = append(todo, binary.NativeEndian.Uint64(e.Value))
			}
		}
	}
}
