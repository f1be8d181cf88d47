package boltfile

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Check says how much of a file's structure is checked. The zero value is all of
// it.
type Check struct {
	// Leaves reports of which buckets every leaf is read; nil means of all. Of the
	// others only the last leaf is read, to which new keys at the end are added.
	Leaves func(bucket string) bool
	// Edges checks only the pages on the way to the last leaf of each bucket. It is
	// then not known which pages are in use.
	Edges bool
	// Pace is called before each page is read; its error ends the check.
	Pace func() error
}

// maxDepth is far beyond that of any tree that fits on a disk.
const maxDepth = 40

// Run checks the state that m describes; its pages must not be written to meanwhile. It keeps one
// page for each level of a tree in memory. The error for damage is a *DamagedError.
func (c Check) Run(f io.ReaderAt, m Meta) error {
	w := &walk{Check: c, pages: Pages{f, m}, met: newBits(m.Pages), unread: newBits(m.Pages)}
	if err := w.freelist(); err != nil {
		return err
	}
	if err := w.buckets(); err != nil || c.Edges {
		return err
	}
	return w.account()
}

type walk struct {
	Check
	pages  Pages
	met    bits                 // free or in use
	unread bits                 // leaves that were met and not read
	levels [2 * maxDepth][]byte // buffers for a page at each level of two trees, one in another
}

type bits []uint64

func newBits(n uint64) bits         { return make(bits, n/64+1) }
func (b bits) has(page uint64) bool { return b[page/64]>>(page%64)&1 == 1 }
func (b bits) set(page uint64)      { b[page/64] |= 1 << (page % 64) }

// meet notes that pages are used or free. A second way to one of them is damage.
func (w *walk) meet(page, following uint64) error {
	for ; ; page++ {
		if page < 2 || page >= w.pages.Meta.Pages {
			return damage("there is no page %d", page)
		}
		if w.met.has(page) {
			return damage("page %d is used twice", page)
		}
		if w.met.set(page); following == 0 {
			return nil
		}
		following--
	}
}

func (w *walk) freelist() error {
	p, err := w.read(w.pages.Meta.Freelist, 0)
	if err != nil {
		return err
	}
	free, err := p.free(w.pages.Meta.PageSize)
	if err != nil {
		return err
	}
	if err := w.meet(p.Number, p.Following); err != nil {
		return err
	}
	for _, page := range free {
		if err := w.meet(page, 0); err != nil {
			return damage("the list of free pages: %v", err)
		}
	}
	return nil
}

func (w *walk) read(page uint64, level int) (Page, error) {
	if w.Pace != nil {
		if err := w.Pace(); err != nil {
			return Page{}, err
		}
	}
	p, err := w.pages.Read(page, w.levels[level])
	if err == nil {
		w.levels[level] = p.body
	}
	return p, err
}

// buckets walks the tree of the buckets' names, and each bucket.
func (w *walk) buckets() error {
	top := &tree{walk: w, every: true, each: func(p Page) error {
		for i := range p.Len() {
			e, _ := p.Element(i)
			if e.Flags != BucketFlag || len(e.Value) < bucketSize {
				return damage("page %d: element %d is no bucket", p.Number, i)
			}
			if err := w.bucket(string(e.Key), e.Value); err != nil {
				return err
			}
		}
		return nil
	}}
	_, err := top.node(w.pages.Meta.Root, 0, nil, nil)
	return err
}

func (w *walk) bucket(name string, value []byte) error {
	t := &tree{walk: w, deeper: maxDepth, edge: w.Edges, every: !w.Edges && (w.Leaves == nil || w.Leaves(name)), each: values}
	root := binary.NativeEndian.Uint64(value)
	if root != 0 {
		if len(value) != bucketSize {
			return damage("bucket %q is not what was written", name)
		}
		_, err := t.node(root, 0, nil, nil)
		return err
	}
	if len(value) < bucketSize+headerSize {
		return damage("bucket %q is not what was written", name)
	}
	p := parsePage(value[bucketSize:])
	if err := p.check(0); err != nil || !p.Leaf() {
		return damage("bucket %q is not what was written: %v", name, err)
	}
	return values(p)
}

// values checks that a leaf of a bucket holds nothing but values.
func values(p Page) error {
	for i := range p.Len() {
		if e, _ := p.Element(i); e.Flags != 0 {
			return damage("page %d: element %d is no value", p.Number, i)
		}
	}
	return nil
}

// tree is a walk through one tree.
type tree struct {
	*walk
	deeper int  // added to the level
	every  bool // every leaf is read
	edge   bool // only the way to the last leaf is walked
	each   func(Page) error
}

// node walks a page and the pages below it. Unless it is a root, its first key is
// low; all its keys are less than high, if there is one.
func (t *tree) node(page uint64, level int, low, high []byte) (leaf bool, err error) {
	if level == maxDepth {
		return false, damage("page %d lies deeper than any", page)
	}
	p, err := t.read(page, level+t.deeper)
	if err != nil {
		return false, err
	}
	if err := p.check(t.pages.Meta.PageSize); err != nil {
		return false, err
	}
	if err := t.meet(page, p.Following); err != nil {
		return false, err
	}
	switch {
	case level > 0 && !bytes.Equal(p.first(), low):
		return false, damage("page %d does not begin with the key that leads to it", page)
	case high != nil && bytes.Compare(p.last(), high) >= 0:
		return false, damage("page %d holds keys of the page after it", page)
	case p.Leaf():
		return true, t.each(p)
	}
	return false, t.below(p, level, high)
}

// below walks the pages below a branch. All leaves are at one depth: if the last
// page is a leaf, the others are leaves too.
func (t *tree) below(p Page, level int, high []byte) error {
	last := p.Len() - 1
	e, _ := p.Element(last)
	leaves, err := t.node(e.Below, level+1, e.Key, high)
	if err != nil || t.edge {
		return err
	}
	for i := range last {
		e, _ := p.Element(i)
		next, _ := p.Element(i + 1)
		if leaves && !t.every {
			if err := t.meet(e.Below, 0); err != nil {
				return err
			}
			t.unread.set(e.Below)
			continue
		}
		leaf, err := t.node(e.Below, level+1, e.Key, next.Key)
		if err != nil {
			return err
		}
		if leaf != leaves {
			return damage("page %d is not at the same depth as its siblings", e.Below)
		}
	}
	return nil
}

// account checks that every page was met. One that was not has to belong to a leaf
// of several pages that was not read.
func (w *walk) account() error {
	leaf := uint64(0)
	for page := uint64(2); page < w.pages.Meta.Pages; page++ {
		if w.met.has(page) {
			if leaf = 0; w.unread.has(page) {
				leaf = page
			}
			continue
		}
		if leaf == 0 {
			return damage("page %d is neither in use nor free", page)
		}
		p, err := w.read(leaf, 0)
		if err == nil {
			err = p.check(w.pages.Meta.PageSize)
		}
		if err == nil && (!p.Leaf() || p.Following < page-leaf) {
			err = damage("page %d is neither in use nor free", page)
		}
		if err == nil {
			err = w.meet(leaf+1, p.Following-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
