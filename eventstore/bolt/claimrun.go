package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/bits"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
)

// The form of a run; see the package comment.
const (
	keysMagic    = "payledger claims 2\n"
	foreverMagic = "payledger forever2\n"
	runBlock     = 4096
	runSum       = runBlock - 4
	runEntry     = 24
	runPerBlock  = runSum / runEntry
	runBurst     = 4 << 20 // bytes written between syncs, so that none is long
)

// kind says whose claims an index holds.
type kind struct {
	log     domain.ID
	forever bool // those for ever; there are no spans, nothing is forgotten
}

func (k kind) magic() string {
	if k.forever {
		return foreverMagic
	}
	return keysMagic
}

// runSpan says which records a run is about.
type runSpan struct {
	kind
	from, to eventstore.Position
	event    domain.ID // of the record at to
}

func (s runSpan) name() string { return fmt.Sprintf("%016x-%016x", s.from, s.to) }

// claimEntry is one key of a run.
type claimEntry struct {
	name claimName
	at   eventstore.Position
}

func (e claimEntry) compare(o claimEntry) int { return bytes.Compare(e.name[:], o.name[:]) }

// run is a file of claims, ordered by name and never changed.
type run struct {
	runSpan
	path    string
	data    []byte // the file, mapped
	entries int
	blocks  int           // of entries
	filter  int           // blocks behind those
	checked []atomic.Bool // blocks whose checksum was right
}

// damagedRun: a run is not what was written.
type damagedRun struct {
	path   string
	reason string
}

func (e *damagedRun) Error() string {
	return fmt.Sprintf("the index of claims is damaged in %s: %s", e.path, e.reason)
}

// openRun opens a run. A *damagedRun is none of this log, or of another kind.
func openRun(path string, k kind) (_ *run, err error) {
	bad := func(reason string) (*run, error) { return nil, &damagedRun{path, reason} }
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < runBlock || size%runBlock != 0 {
		return bad("its size")
	}
	r := &run{path: path}
	if r.data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	head := r.data[:runBlock]
	n := len(k.magic())
	r.runSpan = runSpan{
		kind: kind{domain.ID(head[n:]), k.forever},
		from: eventstore.Position(binary.BigEndian.Uint64(head[n+16:])), to: eventstore.Position(binary.BigEndian.Uint64(head[n+24:])),
		event: domain.ID(head[n+32:]),
	}
	r.entries = int(binary.BigEndian.Uint64(head[n+48:]))
	r.filter = int(binary.BigEndian.Uint64(head[n+56:]))
	r.blocks = (r.entries + runPerBlock - 1) / runPerBlock
	switch {
	case string(head[:n]) != k.magic(), !sumsUp(head), r.kind != k, r.name() != filepath.Base(path), r.from > r.to,
		r.entries < 0, r.filter < 0, r.entries > 0 && r.filter == 0, size/runBlock != int64(1+r.blocks+r.filter):
		r.unmap()
		return bad("its first block")
	}
	r.checked = make([]atomic.Bool, r.blocks+r.filter)
	return r, nil
}

func (r *run) unmap() {
	_ = unix.Munmap(r.data)
	r.data = nil
}

// remove deletes the file. Nobody reads it any more.
func (r *run) remove() {
	r.unmap()
	_ = os.Remove(r.path) // what stays is deleted at the next start
}

func blockSum(b []byte) uint32 { return crc32.Checksum(b[:runSum], crc32.MakeTable(crc32.Castagnoli)) }

func sumsUp(b []byte) bool { return binary.BigEndian.Uint32(b[runSum:]) == blockSum(b) }

func (r *run) raw(block int) []byte { return r.data[(1+block)*runBlock : (2+block)*runBlock] }

// sound answers a block, which is as it was written.
func (r *run) sound(i int) ([]byte, error) {
	b := r.raw(i)
	if !r.checked[i].Load() {
		if !sumsUp(b) {
			return nil, &damagedRun{r.path, fmt.Sprintf("block %d has another checksum", i+1)}
		}
		r.checked[i].Store(true)
	}
	return b, nil
}

// block answers a block's entries.
func (r *run) block(i int) ([]byte, error) {
	b, err := r.sound(i)
	if err != nil {
		return nil, err
	}
	return b[:min(runPerBlock, r.entries-i*runPerBlock)*runEntry], nil
}

// mayHave reports false when the run has no such name.
func (r *run) mayHave(n claimName) (bool, error) {
	if r.entries == 0 {
		return false, nil
	}
	i, at := lineOf(n, r.filter)
	b, err := r.sound(r.blocks + i)
	return err == nil && marked(b[at:at+filterLine], n), err
}

// beyond reports whether a block begins behind a name.
func (r *run) beyond(block int, n claimName) bool {
	return bytes.Compare(r.raw(block)[:len(n)], n[:]) > 0
}

// find answers the record that claimed a key, 0 if none of the run's did.
// Names are spread evenly, so the search begins where the name should be.
func (r *run) find(n claimName) (eventstore.Position, error) {
	if may, err := r.mayHave(n); !may || err != nil {
		return 0, err
	}
	guess, _ := bits.Mul64(binary.BigEndian.Uint64(n[:]), uint64(r.blocks))
	lo, hi := int(guess), int(guess)+1
	for step := 1; lo > 0 && r.beyond(lo, n); step *= 2 {
		lo, hi = max(0, lo-step), lo
	}
	for step := 1; hi < r.blocks && !r.beyond(hi, n); step *= 2 {
		lo, hi = hi, min(r.blocks, hi+step)
	}
	at := lo + sort.Search(hi-lo-1, func(i int) bool { return r.beyond(lo+1+i, n) })
	// That it is this block and no other is told by its first name and the
	// next block's: both blocks must be as they were written.
	b, err := r.block(at)
	if err == nil && at+1 < r.blocks {
		_, err = r.block(at + 1)
	}
	if err != nil {
		return 0, err
	}
	if (at > 0 && r.beyond(at, n)) || (at+1 < r.blocks && !r.beyond(at+1, n)) {
		return 0, &damagedRun{r.path, "its blocks are out of order"}
	}
	i := sort.Search(len(b)/runEntry, func(i int) bool { return bytes.Compare(b[i*runEntry:i*runEntry+len(n)], n[:]) >= 0 })
	if e := b[i*runEntry:]; len(e) > 0 && claimName(e) == n {
		return eventstore.Position(binary.BigEndian.Uint64(e[len(n):])), nil
	}
	return 0, nil
}

// runCursor goes through a run's entries in order.
type runCursor struct {
	run  *run
	next int    // block
	rest []byte // of the block before
}

// peek answers the entry that is next; ok is false at the end.
func (c *runCursor) peek() (e claimEntry, ok bool, err error) {
	for len(c.rest) == 0 {
		if c.next == c.run.blocks {
			return e, false, nil
		}
		if c.rest, err = c.run.block(c.next); err != nil {
			return e, false, err
		}
		c.next++
	}
	return claimEntry{claimName(c.rest), eventstore.Position(binary.BigEndian.Uint64(c.rest[len(e.name):]))}, true, nil
}

func (c *runCursor) step() { c.rest = c.rest[runEntry:] }

// merged yields the entries of two runs in order. Of a name in both, the newer
// run's counts.
func merged(older, newer *run) iter.Seq2[claimEntry, error] {
	return func(yield func(claimEntry, error) bool) {
		o, n := &runCursor{run: older}, &runCursor{run: newer}
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

// runsIn opens the runs of a log that fit together, oldest first: the first
// one begins at floor or before, each other one behind the one before. The
// rest is deleted: parts of what was merged since, what was not finished, and
// what is of another course of the log.
func runsIn(dir string, k kind, floor eventstore.Position, holds func(eventstore.Position, domain.ID) bool) (runs []*run, next eventstore.Position, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	var found []*run
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		path := filepath.Join(dir, file.Name())
		r, err := openRun(path, k)
		switch {
		case errors.As(err, new(*damagedRun)) || strings.HasSuffix(path, unfinished):
			err = os.Remove(path)
		case err == nil && !holds(r.to, r.event):
			r.remove()
		case err == nil:
			found = append(found, r)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	// Of those that begin together the longest was merged last.
	sort.Slice(found, func(i, j int) bool {
		return found[i].from < found[j].from || (found[i].from == found[j].from && found[i].to > found[j].to)
	})
	for _, r := range found {
		fits := r.from == next
		if len(runs) == 0 {
			fits = r.from <= floor && r.to >= floor
		}
		if !fits {
			r.remove()
			continue
		}
		runs, next = append(runs, r), r.to+1
	}
	if len(runs) == 0 {
		next = floor
	}
	return runs, next, nil
}
