package delivery

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/tidwall/btree"
	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore/boltfile"
)

// What a transaction changes lies far apart in the file: each endpoint has rows
// of its own in most tables. So that this costs the disk no more than if they lay
// together, the rows of a transaction are written as one row of the journal, and
// kept in memory above those in the tables. Later, when there are many, they are
// put in their places, those that lie together at once, and leave the journal. It
// is a log-structured merge tree whose lowest level is bbolt's.
//
// Young rows become old together, when there are enough of them and no old ones
// any more. Each transaction puts some old rows in their places, so that there is
// never much to do at once; the journal keeps all its rows until the last of them
// is there, and loses the oldest first. Whatever it still holds can be read into
// memory in its order: what of it is in place already is written once more.
type memtable struct {
	most int // bytes of young rows that are enough

	mu         sync.Mutex // for young and old; the writer alone changes them, and reads them without
	young, old *rows
	size       int // bytes of the young

	// The rows of the transaction that is being written, and its number: who opens
	// the file as of it needs them, whether or not it is known to be durable.
	next   *rows
	nextID int

	// Rows of the journal, which are numbered from 1.
	last   uint64
	oldest uint64 // that may be there still
	upTo   uint64 // the last of those that are old
	placed uint64 // the last of those that are in their places
}

// rows are by table and key; a row that is nil is deleted.
type rows = btree.Map[string, []byte]

// enough is about a minute of 200 notifications a second.
const enough = 8 << 20

// rowOverhead is about what a row costs in memory beside its bytes.
const rowOverhead = 64

func newMemtable(most int) *memtable {
	return &memtable{most: most, young: new(rows), old: new(rows), oldest: 1}
}

// snapshot opens the file for reading, and answers the rows above it. They are as
// of the same moment: none that leaves memory later is missing from both.
func (m *memtable) snapshot(db *boltfile.File) (*bbolt.Tx, []*rows, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	btx, err := db.Begin()
	if err != nil {
		return nil, nil, err
	}
	above := []*rows{m.young.Copy(), m.old.Copy()}
	if m.next != nil && btx.ID() == m.nextID {
		above = slices.Insert(above, 0, m.next)
	}
	return btx, above, nil
}

// ready tells of a transaction that is about to be written.
func (m *memtable) ready(x *tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next, m.nextID = x.own, x.meta.Tx().ID()
}

// add takes in rows that are durable.
func (m *memtable) add(own *rows) {
	own.Scan(func(k string, v []byte) bool {
		m.size += len(k) + len(v) + rowOverhead
		m.young.Set(k, v)
		return true
	})
}

// took keeps memory in step with a transaction that is durable.
func (m *memtable) took(x *tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.oldest, m.next = x.journaled, x.trimmed, nil
	for range x.placed {
		m.old.PopMin()
	}
	m.add(x.own)
	if m.old.Len() > 0 {
		return
	}
	if m.placed = m.upTo; m.size >= m.most {
		m.old, m.young = m.young, new(rows)
		m.size, m.upTo = 0, m.last
	}
}

// replay reads the journal of a file that was just opened.
func (m *memtable) replay(x tables) error {
	return x.journal.ForEach(func(key, v []byte) error {
		own, err := parseRows(key, v)
		if err != nil {
			return err
		}
		if m.last = binary.BigEndian.Uint64(key); m.young.Len() == 0 {
			m.oldest = m.last
		}
		m.add(own)
		return nil
	})
}

// How many old rows a transaction puts in their places: more than it adds, so
// that there is an end to it. And how many rows of the journal it removes.
const (
	placeAtLeast = 32
	placePerRow  = 2
	trimAtOnce   = 16
)

// write writes what the transaction changed into the journal, and some of what
// former ones did into its place.
func (x *tx) write() error {
	m := x.lanes.memtable
	x.journaled, x.trimmed = m.last, m.oldest
	if x.own.Len() > 0 {
		x.journaled++
		key := journalKey(x.journaled)
		if err := x.journal.Put(key, appendRows(nil, key, x.own)); err != nil {
			return err
		}
	}
	if err := x.place(m.old, placeAtLeast+placePerRow*x.own.Len()); err != nil {
		return err
	}
	m.ready(x)
	return x.trim(m.placed)
}

// place puts up to n rows in their places.
func (x *tx) place(old *rows, n int) (err error) {
	old.Scan(func(k string, v []byte) bool {
		to, key := x.bucketOf(k[0]), []byte(k[1:])
		if v == nil {
			err = to.Delete(key)
		} else {
			err = to.Put(key, v)
		}
		x.placed++
		return err == nil && x.placed < n
	})
	return err
}

// trim removes some rows of the journal up to one.
func (x *tx) trim(upTo uint64) error {
	for n := 0; n < trimAtOnce && x.trimmed <= upTo; n++ {
		if err := x.journal.Delete(journalKey(x.trimmed)); err != nil {
			return err
		}
		x.trimmed++
	}
	return nil
}

func journalKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
