package bolt

import (
	"encoding/binary"
	"hash/fnv"
	"io"
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

const (
	maxUsedPage  = 16 << 20
	maxFollowing = 1 << 16 // pages of one leaf or list
)

// usedPages reads the structure of a file as it is, with ordinary reads, each
// page once. A file of which one of the two states is unreadable has no newest
// one.
func usedPages(f io.ReaderAt, size int64) usage {
	first, ok := stateAt(f, 0)
	if !ok {
		return usage{}
	}
	second, ok := stateAt(f, first.pageSize)
	if !ok || second.pageSize != first.pageSize {
		return usage{}
	}
	s := first
	if second.transaction > first.transaction {
		s = second
	}
	s.pages = min(s.pages, uint64(size/s.pageSize))
	u := usage{pageSize: s.pageSize, pages: s.pages, reached: newPageSet(s.pages)}
	u.free = s.free(f)
	s.reach(f, s.root, u.reached)
	return u
}

// fileState is one of the two states in a bbolt file: 16 bytes into its page,
// magic (4), version (4), page size (4), flags (4), root (16), page of the list
// of free ones (8), pages (8), transaction (8), FNV-1a of all these (8).
type fileState struct {
	pageSize                           int64
	root, freelist, pages, transaction uint64
}

func stateAt(f io.ReaderAt, at int64) (s fileState, ok bool) {
	const magic = 0xED0CDAED
	var b [64]byte
	if _, err := f.ReadAt(b[:], at+16); err != nil {
		return s, false
	}
	order := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	s = fileState{int64(order.Uint32(b[8:])), order.Uint64(b[16:]), order.Uint64(b[32:]), order.Uint64(b[40:]), order.Uint64(b[48:])}
	return s, order.Uint32(b[:]) == magic && order.Uint64(b[56:]) == sum.Sum64() && s.pageSize >= 1<<10 && s.pageSize <= maxUsedPage
}

// pageSet is a set of pages.
type pageSet []uint64

func newPageSet(pages uint64) pageSet { return make(pageSet, pages/64+1) }
func (s pageSet) has(page uint64) bool {
	return page/64 < uint64(len(s)) && s[page/64]>>(page%64)&1 == 1
}
func (s pageSet) add(page uint64) { s[page/64] |= 1 << (page % 64) }

// rawPage is a page with those that follow it: number (8), flags (2), elements
// (2), pages that follow (4), then elements of 16 bytes each.
type rawPage struct {
	flags    uint16
	elements int
	more     uint64
	body     []byte
}

const (
	pageHeader  = 16
	pageElement = 16

	pageBranch, pageLeaf, pageFree = 1, 2, 16
)

// page reads a page; false: it is not what was written there.
func (s fileState) page(f io.ReaderAt, number uint64) (p rawPage, ok bool) {
	if number < 2 || number >= s.pages {
		return p, false
	}
	b := make([]byte, s.pageSize)
	if _, err := f.ReadAt(b, int64(number)*s.pageSize); err != nil || binary.NativeEndian.Uint64(b) != number {
		return p, false
	}
	order := binary.NativeEndian
	p = rawPage{flags: order.Uint16(b[8:]), elements: int(order.Uint16(b[10:])), more: uint64(order.Uint32(b[12:])), body: b}
	if p.more > maxFollowing || number+p.more >= s.pages {
		return p, false
	}
	if p.more > 0 && p.flags != pageLeaf {
		p.body = make([]byte, int64(p.more+1)*s.pageSize)
		if _, err := f.ReadAt(p.body, int64(number)*s.pageSize); err != nil {
			return p, false
		}
	}
	return p, p.flags == pageFree || pageHeader+pageElement*p.elements <= len(p.body)
}

// free reads the list of free pages, nil if it cannot be one.
func (s fileState) free(f io.ReaderAt) pageSet {
	p, ok := s.page(f, s.freelist)
	if !ok || p.flags != pageFree {
		return nil
	}
	numbers, n := p.body[pageHeader:], uint64(p.elements)
	if n == 0xffff {
		n, numbers = binary.NativeEndian.Uint64(numbers), numbers[8:]
	}
	if n > uint64(len(numbers)/8) {
		return nil
	}
	free := newPageSet(s.pages)
	for before := uint64(1); n > 0; n-- {
		page := binary.NativeEndian.Uint64(numbers)
		if page <= before || page >= s.pages {
			return nil
		}
		free.add(page)
		numbers, before = numbers[8:], page
	}
	return free
}

// reach adds the leaves that a tree leads to, and those of the buckets in it.
func (s fileState) reach(f io.ReaderAt, root uint64, reached pageSet) {
	met := newPageSet(s.pages)
	for todo := []uint64{root}; len(todo) > 0; {
		number := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if number >= s.pages || met.has(number) {
			continue
		}
		met.add(number)
		p, ok := s.page(f, number)
		if !ok {
			continue
		}
		if p.flags == pageLeaf {
			for i := range p.more + 1 {
				reached.add(number + i)
			}
		}
		todo = append(todo, p.below()...)
	}
}

// below are the pages that a branch leads to, or the buckets of a leaf.
func (p rawPage) below() (pages []uint64) {
	order := binary.NativeEndian
	for i := range p.elements {
		at := pageHeader + pageElement*i
		e := p.body[at:]
		switch p.flags {
		case pageBranch:
			pages = append(pages, order.Uint64(e[8:]))
		case pageLeaf:
			value := uint64(at) + uint64(order.Uint32(e[4:])) + uint64(order.Uint32(e[8:]))
			if order.Uint32(e)&1 == 1 && value+8 <= uint64(len(p.body)) {
				pages = append(pages, order.Uint64(p.body[value:]))
			}
		}
	}
	return pages
}
