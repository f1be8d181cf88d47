package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// bbolt follows the numbers of pages wherever they lead. Where damage has made
// them lead back, it would go around for ever, or until the memory or a stack
// is used up, which nothing can recover from. So the branches are walked once:
// every page is free, or reached once, or neither. Of a small file this is done
// before bbolt sees it. Of a large one only the way to each bucket's last leaf
// is, which the next records will go, and the rest while the log is in use:
// nothing that grows with the log keeps a server from being ready.
//
// A page has a header of 16 bytes, then elements of 16 bytes:
//
//	header   0 page (8)  8 flags (2)  10 elements (2)  12 pages that follow (4)
//	branch   0 key's place, size (8)  8 page below (8)
//	leaf     0 flags (4)  4 key's place, from the element (4)  8 key's size (4)  12 value's size (4)
//	free     the numbers of free pages (8 each); with 0xffff elements the first one is their number
//
// A bucket is a leaf's element with flag 1, whose value begins with the number
// of its root page, 0 if the bucket is in the value itself.
const (
	headerSize  = 16
	elementSize = 16

	flagBranch = 1
	flagLeaf   = 2
	flagFree   = 16
	flagBucket = 1
)

// walkAtOnce is how many pages a file may have to be walked before it is used:
// 256 MiB of the usual pages take some ten milliseconds.
const walkAtOnce = 1 << 16

type treeWalk struct {
	file     io.ReaderAt
	stop     <-chan struct{} // closed when the walk is not wanted any more
	pageSize int64
	pages    uint64   // in use: numbers are below
	met      []uint64 // a bit for each page
}

var errStopped = errors.New("the log was closed")

func newTreeWalk(f io.ReaderAt, m metaPage) *treeWalk {
	return &treeWalk{file: f, pageSize: int64(m.pageSize), pages: m.pages, met: make([]uint64, m.pages/64+1)}
}

// checkTree walks the branches of the state that m describes. It reads no
// leaves, but those that tell where the buckets begin.
func checkTree(f io.ReaderAt, m metaPage) error { return newTreeWalk(f, m).all(m) }

func (w *treeWalk) all(m metaPage) error {
	roots, err := w.bucketRoots(m)
	for _, root := range roots {
		if err == nil {
			err = w.walk(root, nil)
		}
	}
	return err
}

// checkEdges walks from each bucket's root to its last leaf.
func checkEdges(f io.ReaderAt, m metaPage) error {
	w := newTreeWalk(f, m)
	roots, err := w.bucketRoots(m)
	for _, root := range roots {
		if err == nil {
			err = w.edge(root)
		}
	}
	return err
}

// bucketRoots walks the list of free pages and the tree of the buckets' names.
func (w *treeWalk) bucketRoots(m metaPage) (roots []uint64, err error) {
	if err := w.markFree(m.freelist); err != nil {
		return nil, err
	}
	err = w.walk(m.root, func(leaf treePage) error {
		var err error
		roots, err = leaf.buckets(roots)
		return err
	})
	return roots, err
}

// walkBeside walks the branches of the state that m describes, the newest,
// while the log is used. What is wrong is fatal.
func (s *Store) walkBeside(m metaPage) error {
	// While there is a reader of this state, none of its pages is used again.
	tx, err := s.db.Begin(false)
	if err != nil {
		return err
	}
	w := newTreeWalk(s.file, m)
	w.stop = s.closing
	s.walking.Go(func() {
		err := w.all(m)
		if err != nil && !errors.Is(err, errStopped) {
			s.fail(&OpenError{
				Path: s.path, Err: ErrDamaged, Detail: err.Error(),
				Advice: "keep a copy of the file and restore the newest backup",
			})
		}
		_ = tx.Rollback()
	})
	return nil
}

// meet notes that the page was met.
func (w *treeWalk) meet(page uint64) error {
	if page < 2 || page >= w.pages {
		return fmt.Errorf("there is no page %d", page)
	}
	if w.met[page/64]>>(page%64)&1 == 1 {
		return fmt.Errorf("page %d is used twice", page)
	}
	w.met[page/64] |= 1 << (page % 64)
	return nil
}

func (w *treeWalk) markFree(at uint64) error {
	if err := w.meet(at); err != nil {
		return fmt.Errorf("the list of free pages: %w", err)
	}
	p, err := w.read(at)
	if err != nil {
		return fmt.Errorf("the list of free pages: %w", err)
	}
	numbers, n := p.body[headerSize:], uint64(p.elements)
	if n == 0xffff {
		n = binary.NativeEndian.Uint64(numbers)
		numbers = numbers[8:]
	}
	if p.flags != flagFree || n > uint64(len(numbers)/8) {
		return errors.New("the list of free pages is none")
	}
	for i := range n {
		if err := w.meet(binary.NativeEndian.Uint64(numbers[8*i:])); err != nil {
			return fmt.Errorf("the list of free pages: %w", err)
		}
	}
	return nil
}

// walk meets every page of a tree. All leaves of a tree are at one depth, so
// of a branch's pages only the first is read to tell what they are. eachLeaf,
// if set, is called for each leaf.
func (w *treeWalk) walk(root uint64, eachLeaf func(treePage) error) error {
	if err := w.meet(root); err != nil {
		return err
	}
	for todo := []uint64{root}; len(todo) > 0; {
		select {
		case <-w.stop:
			return errStopped
		default:
		}
		p, err := w.read(todo[len(todo)-1])
		if err != nil {
			return err
		}
		todo = todo[:len(todo)-1]
		if p.flags == flagLeaf {
			if eachLeaf != nil {
				if err := eachLeaf(p); err != nil {
					return err
				}
			}
			continue
		}
		if err := p.mustBranch(); err != nil {
			return err
		}
		below, err := p.below(w)
		if err != nil {
			return err
		}
		first, err := w.read(below[0])
		if err != nil {
			return err
		}
		if first.flags != flagLeaf || eachLeaf != nil {
			todo = append(todo, below...)
		}
	}
	return nil
}

// edge meets the pages from a tree's root to its last leaf.
func (w *treeWalk) edge(at uint64) error {
	for {
		if err := w.meet(at); err != nil {
			return err
		}
		p, err := w.read(at)
		if err != nil || p.flags == flagLeaf {
			return err
		}
		if err := p.mustBranch(); err != nil {
			return err
		}
		at = p.child(int(p.elements) - 1)
	}
}

// treePage is a page with the pages that follow it.
type treePage struct {
	number          uint64
	flags, elements uint16
	body            []byte
}

func (w *treeWalk) read(number uint64) (treePage, error) {
	body := make([]byte, w.pageSize)
	at := int64(number) * w.pageSize
	if _, err := w.file.ReadAt(body, at); err != nil {
		return treePage{}, fmt.Errorf("reading page %d: %w", number, err)
	}
	order := binary.NativeEndian
	p := treePage{number: number, flags: order.Uint16(body[8:]), elements: order.Uint16(body[10:])}
	more := uint64(order.Uint32(body[12:]))
	if order.Uint64(body) != number || number+more >= w.pages {
		return p, fmt.Errorf("page %d is not what was written there", number)
	}
	if more > 0 && p.flags != flagLeaf {
		body = make([]byte, int64(more+1)*w.pageSize)
		if _, err := w.file.ReadAt(body, at); err != nil {
			return p, fmt.Errorf("reading page %d: %w", number, err)
		}
	}
	p.body = body
	if p.flags == flagBranch && headerSize+elementSize*int(p.elements) > len(body) {
		return p, fmt.Errorf("page %d has more elements than room", number)
	}
	return p, nil
}

func (p treePage) mustBranch() error {
	if p.flags != flagBranch || p.elements == 0 {
		return fmt.Errorf("page %d is no branch and no leaf", p.number)
	}
	return nil
}

func (p treePage) child(i int) uint64 {
	return binary.NativeEndian.Uint64(p.body[headerSize+elementSize*i+8:])
}

// below are the pages below a branch, each met once.
func (p treePage) below(w *treeWalk) ([]uint64, error) {
	pages := make([]uint64, p.elements)
	for i := range pages {
		pages[i] = p.child(i)
		if err := w.meet(pages[i]); err != nil {
			return nil, fmt.Errorf("below page %d: %w", p.number, err)
		}
	}
	return pages, nil
}

// buckets appends the root pages of a leaf's buckets.
func (p treePage) buckets(roots []uint64) ([]uint64, error) {
	order := binary.NativeEndian
	for i := range int(p.elements) {
		at := headerSize + elementSize*i
		if at+elementSize > len(p.body) {
			return nil, fmt.Errorf("page %d has more elements than room", p.number)
		}
		e := p.body[at : at+elementSize]
		if order.Uint32(e)&flagBucket == 0 {
			continue
		}
		value := uint64(at) + uint64(order.Uint32(e[4:])) + uint64(order.Uint32(e[8:]))
		if value+8 > uint64(len(p.body)) {
			return nil, fmt.Errorf("page %d: a bucket is outside of it", p.number)
		}
		if root := order.Uint64(p.body[value:]); root != 0 {
			roots = append(roots, root)
		}
	}
	return roots, nil
}
