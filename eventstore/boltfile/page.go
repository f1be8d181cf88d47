package boltfile

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
)

const (
	headerSize  = 16
	elementSize = 16
	bucketSize  = 16

	maxFollowing = 1 << 16 // 256 MiB, beyond any value and any list of free pages

	flagBranch = 1
	flagLeaf   = 2
	flagFree   = 16

	// BucketFlag marks an element that is a bucket.
	BucketFlag = 1
)

// Pages reads the pages of a file without bbolt.
type Pages struct {
	File io.ReaderAt
	Meta Meta
}

// Page is a page with those that follow it.
type Page struct {
	Number    uint64
	Following uint64 // how many pages follow it, as it says itself
	flags     uint16
	elements  int
	body      []byte
}

// Read reads a page and those that follow it, into buf if it is large enough. It
// checks only that they exist and that the page has this number.
func (p Pages) Read(number uint64, buf []byte) (Page, error) {
	if number < 2 || number >= p.Meta.Pages {
		return Page{}, damage("there is no page %d", number)
	}
	buf, err := p.bytes(number, 1, buf)
	if err != nil {
		return Page{}, err
	}
	page := parsePage(buf)
	switch {
	case page.Number != number:
		return page, damage("page %d is not what was written there", number)
	case page.Following >= p.Meta.Pages-number || page.Following > maxFollowing:
		return page, damage("page %d is followed by more pages than there are", number)
	case page.Following > 0:
		if page.body, err = p.bytes(number, page.Following+1, buf); err != nil {
			return page, err
		}
	}
	return page, nil
}

func (p Pages) bytes(number, n uint64, buf []byte) ([]byte, error) {
	size := int(n) * int(p.Meta.PageSize)
	buf = slices.Grow(buf[:0], size)[:size]
	if _, err := p.File.ReadAt(buf, int64(number)*p.Meta.PageSize); err != nil {
		return nil, damage("reading page %d: %v", number, err)
	}
	return buf, nil
}

// parsePage reads the header; body has one at least.
func parsePage(body []byte) Page {
	order := binary.NativeEndian
	return Page{
		Number: order.Uint64(body), flags: order.Uint16(body[8:]), elements: int(order.Uint16(body[10:])),
		Following: uint64(order.Uint32(body[12:])), body: body,
	}
}

// Leaf reports whether the page is marked as a leaf.
func (p Page) Leaf() bool { return p.flags == flagLeaf }

// Branch reports whether the page is marked as a branch.
func (p Page) Branch() bool { return p.flags == flagBranch }

// Len is the number of elements in the page's header.
func (p Page) Len() int { return p.elements }

// Element is an element of a leaf or a branch. Key and Value are valid until the
// buffer of the page is used again.
type Element struct {
	Flags      uint32
	Key, Value []byte // a branch has no values
	Below      uint64 // page below a branch
}

// Element reads the element at i; false: it is not within the page.
func (p Page) Element(i int) (e Element, ok bool) {
	at := headerSize + elementSize*i
	if i < 0 || i >= p.elements || at+elementSize > len(p.body) {
		return e, false
	}
	b := p.body[at:]
	order := binary.NativeEndian
	var place, key, value uint64
	if p.Leaf() {
		e.Flags = order.Uint32(b)
		place, key, value = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:])), uint64(order.Uint32(b[12:]))
	} else {
		place, key, e.Below = uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint64(b[8:])
	}
	from := uint64(at) + place
	if from+key+value > uint64(len(p.body)) {
		return e, false
	}
	e.Key, e.Value = p.body[from:from+key:from+key], p.body[from+key:from+key+value]
	return e, true
}

// check checks that a leaf or a branch is as bbolt writes it: elements without
// gaps, keys in rising order, and no more pages than they need. pageSize 0 means a
// bucket within a value.
func (p Page) check(pageSize int64) error {
	if !p.Leaf() && !p.Branch() {
		return damage("page %d is no branch and no leaf", p.Number)
	}
	end := headerSize + elementSize*p.elements
	if end > len(p.body) {
		return damage("page %d has more elements than fit in it", p.Number)
	}
	var before []byte
	for i := range p.elements {
		e, ok := p.Element(i)
		place := headerSize + elementSize*i
		if p.Leaf() {
			place += int(binary.NativeEndian.Uint32(p.body[place+4:]))
		} else {
			place += int(binary.NativeEndian.Uint32(p.body[place:]))
		}
		switch {
		case !ok || place != end || len(e.Key) == 0:
			return damage("page %d: element %d is not where it was written", p.Number, i)
		case i > 0 && bytes.Compare(before, e.Key) >= 0:
			return damage("page %d: the keys do not rise at element %d", p.Number, i)
		}
		end += len(e.Key) + len(e.Value)
		before = e.Key
	}
	switch {
	case pageSize == 0 && (end != len(p.body) || p.Number != 0 || p.Following != 0):
		return damage("a bucket within a page is not what was written there")
	case pageSize > 0 && p.Following != uint64((int64(end)+pageSize-1)/pageSize-1):
		return damage("page %d is followed by %d pages, which is not what its content needs", p.Number, p.Following)
	case p.Branch() && p.elements == 0:
		return damage("page %d is a branch to nothing", p.Number)
	}
	return nil
}

// first is the first key, nil of an empty leaf.
func (p Page) first() []byte {
	e, _ := p.Element(0)
	return e.Key
}

func (p Page) last() []byte {
	e, _ := p.Element(p.elements - 1)
	return e.Key
}

// Free reads the list of free pages, in rising order.
func (p Pages) Free() ([]uint64, error) {
	list, err := p.Read(p.Meta.Freelist, nil)
	if err != nil {
		return nil, err
	}
	free, err := list.free(p.Meta.PageSize)
	if n := len(free); err == nil && n > 0 && (free[0] < 2 || free[n-1] >= p.Meta.Pages) {
		err = damage("the list of free pages names others")
	}
	return free, err
}

// free lists the pages of a list of free ones.
func (p Page) free(pageSize int64) ([]uint64, error) {
	numbers, n := p.body[headerSize:], uint64(p.elements)
	if n == 0xffff {
		n = binary.NativeEndian.Uint64(numbers)
		numbers = numbers[8:]
	}
	if p.flags != flagFree || n > uint64(len(numbers)/8) {
		return nil, damage("the list of free pages is none")
	}
	// bbolt sizes the list before it allocates the list's own pages, which may be from the free ones.
	if had := n + p.Following + 1; p.Following != freePages(n, pageSize) && p.Following != freePages(had, pageSize) {
		return nil, damage("the list of free pages is followed by %d pages, which is not what it needs", p.Following)
	}
	all := make([]uint64, n)
	for i := range all {
		if all[i] = binary.NativeEndian.Uint64(numbers[8*i:]); i > 0 && all[i] <= all[i-1] {
			return nil, damage("the list of free pages does not rise at %d", all[i])
		}
	}
	return all, nil
}

// freePages is how many pages follow a list of n free ones.
func freePages(n uint64, pageSize int64) uint64 {
	if n >= 0xffff {
		n++
	}
	return (headerSize + 8*n) / uint64(pageSize)
}
