package claims

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"payledger/eventstore/boltfile"
)

// The form of a table; see the package comment. Tables of any other version than the magic names are
// deleted and rebuilt.
const (
	magic        = "payledger claims 3\n"
	blockSize    = 4096
	blockData    = blockSize - 4 // before the checksum
	entrySize    = 24
	blockEntries = blockData / entrySize
	writeSize    = 4 << 20 // bytes written between syncs, so that no sync takes long
)

// span says which records a table covers.
type span struct {
	log      [16]byte // the log's id
	from, to uint64
	event    [16]byte // id of the event at to
}

func (s span) name() string { return fmt.Sprintf("%016x-%016x", s.from, s.to) }

// entry is one key of a table.
type entry struct {
	name Name
	at   uint64
}

func (e entry) compare(o entry) int { return bytes.Compare(e.name[:], o.name[:]) }

// table is a file of claims, ordered by name and never changed.
type table struct {
	span
	path    string
	data    []byte // the file, mapped
	entries int
	blocks  int           // of entries
	filter  int           // blocks after those
	checked []atomic.Bool // blocks whose checksum was verified
}

// DamagedError: a table is damaged. It has been deleted.
type DamagedError struct {
	Path   string
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the index of claims is damaged in %s: %s", e.Path, e.Reason)
}

// openTable opens a table. A *DamagedError is also answered for a table of
// another log or version.
func openTable(path string, log [16]byte) (_ *table, err error) {
	damaged := func(reason string) (*table, error) { return nil, &DamagedError{path, reason} }
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size, head := info.Size(), make([]byte, blockSize)
	if size < blockSize || size%blockSize != 0 {
		return damaged("its size")
	}
	if _, err := f.ReadAt(head, 0); err != nil {
		return damaged(err.Error())
	}
	t := &table{path: path}
	if t.data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	const n = len(magic)
	t.span = span{
		log: [16]byte(head[n:]), from: binary.BigEndian.Uint64(head[n+16:]), to: binary.BigEndian.Uint64(head[n+24:]),
		event: [16]byte(head[n+32:]),
	}
	t.entries = int(binary.BigEndian.Uint64(head[n+48:]))
	t.filter = int(binary.BigEndian.Uint64(head[n+56:]))
	t.blocks = (t.entries + blockEntries - 1) / blockEntries
	switch {
	case string(head[:n]) != magic, !sumMatches(head), t.log != log, t.name() != filepath.Base(path), t.from > t.to,
		t.entries < 0, t.filter < 0, t.entries > 0 && t.filter == 0, size/blockSize != int64(1+t.blocks+t.filter):
		t.unmap()
		return damaged("its first block")
	}
	t.checked = make([]atomic.Bool, t.blocks+t.filter)
	return t, nil
}

func (t *table) unmap() {
	_ = unix.Munmap(t.data)
	t.data = nil
}

// remove deletes the file. No goroutine may read the table any more.
func (t *table) remove() {
	t.unmap()
	_ = os.Remove(t.path) // a file that stays is deleted at the next start
}

// guard runs fn, which reads the table. A fault in the mapped file is a *DamagedError.
func (t *table) guard(fn func() error) error {
	err := boltfile.Guard(fn)
	if boltfile.Damaged(err) {
		return &DamagedError{t.path, "it cannot be read: " + err.Error()}
	}
	return err
}

func sumMatches(b []byte) bool {
	return binary.BigEndian.Uint32(b[blockData:]) == boltfile.Sum(b[:blockData])
}

// raw is a block after the first one, not verified.
func (t *table) raw(block int) []byte { return t.data[(1+block)*blockSize : (2+block)*blockSize] }

// verified is a block whose checksum matches.
func (t *table) verified(i int) ([]byte, error) {
	b := t.raw(i)
	if !t.checked[i].Load() {
		if !sumMatches(b) {
			return nil, &DamagedError{t.path, fmt.Sprintf("block %d has another checksum", i+1)}
		}
		t.checked[i].Store(true)
	}
	return b, nil
}

// block is the entries of a block.
func (t *table) block(i int) ([]byte, error) {
	b, err := t.verified(i)
	if err != nil {
		return nil, err
	}
	return b[:min(blockEntries, t.entries-i*blockEntries)*entrySize], nil
}

// mayHave reports false when the table does not have the name.
func (t *table) mayHave(n Name) (bool, error) {
	if t.entries == 0 {
		return false, nil
	}
	i, at := lineOf(n, t.filter)
	b, err := t.verified(t.blocks + i)
	return err == nil && mayHave(b[at:at+filterLine], n), err
}

// isAfter reports whether a block begins with a name greater than this one.
func (t *table) isAfter(block int, n Name) bool {
	return bytes.Compare(t.raw(block)[:len(n)], n[:]) > 0
}

// find returns the position of the record that claimed a key, 0 if no record of
// the table did. Names are evenly distributed, so the search begins where the
// name should be.
func (t *table) find(n Name) (uint64, error) {
	if may, err := t.mayHave(n); !may || err != nil {
		return 0, err
	}
	guess, _ := bits.Mul64(binary.BigEndian.Uint64(n[:]), uint64(t.blocks))
	lo, hi := int(guess), int(guess)+1
	for step := 1; lo > 0 && t.isAfter(lo, n); step *= 2 {
		lo, hi = max(0, lo-step), lo
	}
	for step := 1; hi < t.blocks && !t.isAfter(hi, n); step *= 2 {
		lo, hi = hi, min(t.blocks, hi+step)
	}
	at := lo + sort.Search(hi-lo-1, func(i int) bool { return t.isAfter(lo+1+i, n) })
	// The first names of this block and of the next one decide that it is this
	// block: so both are verified.
	b, err := t.block(at)
	if err == nil && at+1 < t.blocks {
		_, err = t.block(at + 1)
	}
	if err != nil {
		return 0, err
	}
	if (at > 0 && t.isAfter(at, n)) || (at+1 < t.blocks && !t.isAfter(at+1, n)) {
		return 0, &DamagedError{t.path, "its blocks are out of order"}
	}
	i := sort.Search(len(b)/entrySize, func(i int) bool { return bytes.Compare(b[i*entrySize:i*entrySize+len(n)], n[:]) >= 0 })
	if e := b[i*entrySize:]; len(e) > 0 && Name(e) == n {
		return binary.BigEndian.Uint64(e[len(n):]), nil
	}
	return 0, nil
}

// cursor goes through the entries of a table in order.
type cursor struct {
	table *table
	next  int    // block
	rest  []byte // of the block before it
}

// peek is the next entry; ok is false at the end.
func (c *cursor) peek() (e entry, ok bool, err error) {
	for len(c.rest) == 0 {
		if c.next == c.table.blocks {
			return e, false, nil
		}
		if err := c.table.guard(func() error {
			b, err := c.table.block(c.next)
			c.rest = bytes.Clone(b) // it is read outside
			return err
		}); err != nil {
			return e, false, err
		}
		c.next++
	}
	return entry{Name(c.rest), binary.BigEndian.Uint64(c.rest[len(e.name):])}, true, nil
}

func (c *cursor) step() { c.rest = c.rest[entrySize:] }

// merged yields the entries of two tables in order. If both have a name, the
// entry of the newer table counts.
func merged(older, newer *table) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		o, n := &cursor{table: older}, &cursor{table: newer}
		for {
			a, oldLeft, err := o.peek()
			b, newLeft, newErr := n.peek()
			if err = errors.Join(err, newErr); err != nil || (!oldLeft && !newLeft) {
				if err != nil {
					yield(a, err)
				}
				return
			}
			order := a.compare(b)
			if oldLeft && (!newLeft || order <= 0) {
				o.step()
				if newLeft && order == 0 {
					continue
				}
			} else {
				n.step()
				a = b
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}

// tablesIn opens the tables of a log that fit together, oldest first: the first
// one begins at position 1, each other one where the one before it ends. The others are deleted: parts of tables that were merged
// since, unfinished ones, and those of another history of the log. next is the
// first position that the tables do not cover.
func tablesIn(dir string, log [16]byte, holds func(at uint64, event [16]byte) bool) (tables []*table, next uint64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	var found []*table
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		path := filepath.Join(dir, file.Name())
		t, err := openTable(path, log)
		switch {
		case errors.As(err, new(*DamagedError)) || strings.HasSuffix(path, unfinished):
			err = os.Remove(path)
		case err == nil && !holds(t.to, t.event):
			t.remove()
		case err == nil:
			found = append(found, t)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	// Of tables that begin together the longest was merged last.
	sort.Slice(found, func(i, j int) bool {
		return found[i].from < found[j].from || (found[i].from == found[j].from && found[i].to > found[j].to)
	})
	next = 1
	for _, t := range found {
		if t.from != next {
			t.remove()
			continue
		}
		tables, next = append(tables, t), t.to+1
	}
	return tables, next, nil
}
