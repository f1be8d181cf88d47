package claims

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"time"
)

// When the memtable is sealed. The next start reads no more records again than
// these and those that come while a table is written.
const (
	memtableClaims  = 1 << 15
	memtableRecords = 1 << 16

	// While the index is rebuilt the memtable may be larger.
	rebuildClaims = 1 << 19

	// Tables are merged until each is this many times as large as the next one.
	// No table gets more than maxEntries: its filter is made in memory.
	tableGrowth = 3
	maxEntries  = 1 << 24

	retryDelay = time.Second // after a table could not be written
)

// ErrClosed: the index was closed.
var ErrClosed = errors.New("the index of claims is closed")

// Name is what the index knows a key by: the first half of the SHA-256 of the
// key and its project.
type Name [16]byte

// NameOf is the name of a project's key; project is "" for a permanent claim.
func NameOf(project string, key [32]byte) Name {
	sum := sha256.Sum256(append(append(make([]byte, 0, 96), key[:]...), project...))
	return Name(sum[:])
}

// Config are the settings of Open.
type Config struct {
	Dir string   // is made if it does not exist
	Log [16]byte // the log's id

	// Holds reports whether the log has the event at the position. Tables for
	// which it does not are of another history of the log and are deleted.
	Holds func(at uint64, event [16]byte) bool

	// Damaged is called with a *DamagedError of a table. The table has been
	// deleted, and the process must end: the next start rebuilds the index.
	Damaged func(error)
}

// Index finds the record that claimed a key: the newest claims are in memory,
// the others in tables. It is safe for concurrent use, but only one goroutine at a
// time may call Add, Remove, Full and Seal. Add comes before the record is
// durable, so Find may answer a position after the last durable one.
type Index struct {
	config Config

	mu         sync.RWMutex
	memtable   map[Name]uint64
	sealed     *batch   // a memtable that is being written as a table, nil for none
	tables     []*table // oldest first
	closed     bool
	incomplete error // a record that may have claimed a key cannot be read

	next uint64 // the first position that the memtable covers; of the goroutine that adds

	seals   chan *batch
	working sync.WaitGroup
	stop    chan struct{}
}

// batch is a sealed memtable.
type batch struct {
	span
	claims  map[Name]uint64
	written bool // as a table; merging may still be under way
}

// Open opens the index of a log. Records from Next on are not covered: they are
// passed to Rebuild or Unreadable, then Start is called, and only then the
// others.
func Open(c Config) (*Index, error) {
	if err := os.Mkdir(c.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	x := &Index{
		config: c, memtable: make(map[Name]uint64),
		seals: make(chan *batch, 1), stop: make(chan struct{}),
	}
	var err error
	x.tables, x.next, err = tablesIn(c.Dir, c.Log, c.Holds)
	return x, err
}

// Next is the first position that the index does not cover when it was opened.
func (x *Index) Next() uint64 { return x.next }

// Rebuild adds the claim of a record, nil for none. event is the record's.
func (x *Index) Rebuild(at uint64, event [16]byte, claim *Name) error {
	if claim != nil {
		x.memtable[*claim] = at
	}
	if len(x.memtable) >= rebuildClaims && x.incomplete == nil {
		return x.write(x.seal(at, event))
	}
	return nil
}

// Unreadable notes that a record cannot be read. From then on Find answers err for a
// key that it does not find: the record may have claimed it.
func (x *Index) Unreadable(err error) { x.incomplete = cmp.Or(x.incomplete, err) }

// Find returns the position of the record that claimed the key of that name, 0
// if none did. The error is ErrClosed, a *DamagedError, or that of Unreadable.
func (x *Index) Find(n Name) (uint64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return 0, ErrClosed
	}
	at := x.memtable[n]
	if at == 0 && x.sealed != nil {
		at = x.sealed.claims[n]
	}
	for i := len(x.tables) - 1; at == 0 && i >= 0; i-- {
		t := x.tables[i]
		if err := t.guard(func() (err error) {
			at, err = t.find(n)
			return err
		}); err != nil {
			x.damaged(err)
			return 0, err
		}
	}
	if at == 0 {
		return 0, x.incomplete
	}
	return at, nil
}

// Add notes that the record at the position claims the key of that name.
func (x *Index) Add(n Name, at uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.memtable[n] = at
}

// Remove takes back an Add, before the record is durable.
func (x *Index) Remove(n Name, at uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.memtable[n] == at {
		delete(x.memtable, n)
	}
}

// Full reports whether the memtable, which covers the records up to this
// position, is large enough to be sealed.
func (x *Index) Full(at uint64) bool {
	return len(x.memtable) >= memtableClaims || at >= x.next+memtableRecords
}

// Seal seals the memtable, unless an earlier one is still being written. All
// records up to this one are durable, and those after it claim nothing yet.
func (x *Index) Seal(at uint64, event [16]byte) {
	x.mu.RLock()
	busy := x.sealed != nil || x.incomplete != nil
	x.mu.RUnlock()
	if !busy && at >= x.next {
		x.seals <- x.seal(at, event)
	}
}

func (x *Index) seal(to uint64, event [16]byte) *batch {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := &batch{span: span{x.config.Log, x.next, to, event}, claims: x.memtable}
	x.sealed, x.memtable = b, make(map[Name]uint64, memtableClaims)
	x.next = to + 1
	return b
}

// Start begins to write sealed memtables in the background, until Close or until
// a table is damaged.
func (x *Index) Start() {
	x.working.Go(func() {
		for b := range x.seals {
			for err := x.write(b); err != nil; err = x.write(b) {
				if x.damaged(err) {
					return
				}
				select {
				case <-x.stop:
					return // what is not written is read again at the next start
				case <-time.After(retryDelay):
				}
			}
		}
	})
}

// Close waits for the work in the background. Nothing may be added any more.
func (x *Index) Close() {
	close(x.stop)
	close(x.seals)
	x.working.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.tables {
		t.unmap()
	}
	x.tables, x.closed = nil, true
}

// write writes a batch as a table, unless that was done before, then merges tables.
func (x *Index) write(b *batch) error {
	x.mu.RLock()
	tables := x.tables
	x.mu.RUnlock()
	if !b.written {
		t, err := writeTable(x.config.Dir, b.span, len(b.claims), b.ordered(), x.stop)
		if err != nil {
			return err
		}
		tables = append(slices.Clip(tables), t)
		x.mu.Lock()
		x.tables, x.sealed = tables, nil
		x.mu.Unlock()
		b.written = true
	}
	for n := len(tables); n >= 2; n = len(tables) {
		older, newer := tables[n-2], tables[n-1]
		if older.entries > tableGrowth*newer.entries || older.entries+newer.entries > maxEntries {
			break
		}
		s := span{x.config.Log, older.from, newer.to, newer.event}
		t, err := writeTable(x.config.Dir, s, older.entries+newer.entries, merged(older, newer), x.stop)
		if err != nil {
			return err
		}
		tables = append(tables[:n-2:n-2], t)
		x.mu.Lock()
		x.tables = tables
		x.mu.Unlock() // no goroutine reads the former ones any more
		older.remove()
		newer.remove()
	}
	return nil
}

func (b *batch) ordered() iter.Seq2[entry, error] {
	entries := make([]entry, 0, len(b.claims))
	for name, at := range b.claims {
		entries = append(entries, entry{name, at})
	}
	slices.SortFunc(entries, entry.compare)
	return func(yield func(entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// damaged reports whether the error is that of a damaged table. The table is
// deleted, so that the next start rebuilds the index.
func (x *Index) damaged(err error) bool {
	d, ok := errors.AsType[*DamagedError](err)
	if ok {
		_ = os.Remove(d.Path)
		x.config.Damaged(fmt.Errorf("%w; it was deleted and is rebuilt at the next start", err))
	}
	return ok
}
