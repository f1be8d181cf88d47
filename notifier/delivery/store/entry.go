package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bbolt "go.etcd.io/bbolt"
)

// Place is where an entry is among all that the nodes of a cluster share: its number,
// and what tells it from another entry of that number. A file has the entries up to
// its place; the zero place: it shares nothing yet.
type Place struct {
	Number uint64
	Sum    [8]byte
}

func (p Place) value() []byte {
	return append(binary.BigEndian.AppendUint64(nil, p.Number), p.Sum[:]...)
}

func (t Tables) place() (p Place) {
	if v := t.meta.Get([]byte(keyShared)); len(v) == 16 {
		p = Place{binary.BigEndian.Uint64(v), [8]byte(v[8:])}
	}
	return p
}

// Share gives an entry, the rows that a change writes, to the other nodes of a
// cluster. It returns the entry's place once a majority of them keeps it for good,
// before this file has it. After an error the change is taken back, and it is not
// known whether the others have it.
type Share func(entry []byte) (Place, error)

// Share makes every change go to share from now on. Nobody else may use the file.
func (f *File) Share(share Share) { f.share = share }

// errEntry: the bytes are no entry that this program knows.
var errEntry = errors.New("not an entry of the lane file")

// entryFormat is the first byte of an entry. Its rows follow: the bucket's place in
// buckets, the length of the key, the key, one more than the length of the value, and
// the value. A row that is deleted has 0 instead.
const entryFormat = 1

// entry collects the rows that a change writes.
type entry struct{ rows []byte }

// wrote notes a row that was written.
func (x *Tx) wrote(b *bbolt.Bucket, key, value []byte) {
	if e := x.entry; e != nil {
		x.row(b, key)
		e.rows = append(binary.AppendUvarint(e.rows, uint64(len(value))+1), value...)
	}
}

// removed notes a row that was deleted.
func (x *Tx) removed(b *bbolt.Bucket, key []byte) {
	if e := x.entry; e != nil {
		x.row(b, key)
		e.rows = append(e.rows, 0)
	}
}

func (x *Tx) row(b *bbolt.Bucket, key []byte) {
	e := x.entry
	e.rows = append(e.rows, byte(slices.Index(x.all(), b)))
	e.rows = append(binary.AppendUvarint(e.rows, uint64(len(key))), key...)
}

// shared shares what a change has written and notes the entry's place.
func (f *File) shared(x *Tx) error {
	if x.err != nil || x.entry == nil {
		return x.err
	}
	at, err := f.share(append([]byte{entryFormat}, x.entry.rows...))
	if err != nil {
		return err
	}
	return x.meta.Put([]byte(keyShared), at.value())
}

// Shared is the place of the last entry that is in the file.
func (f *File) Shared() (at Place, err error) {
	err = f.View(func(t Tables) error {
		at = t.place()
		return nil
	})
	return at, err
}

// Apply writes an entry of another node; one without bytes has no rows. It returns
// once that is synced.
func (f *File) Apply(at Place, e []byte) error {
	return f.explain(f.db.Update(func(btx *bbolt.Tx) error {
		t := tablesOf(btx)
		if had := t.place(); at.Number <= had.Number {
			return fmt.Errorf("entry %d comes after entry %d", at.Number, had.Number)
		}
		if err := t.write(e); err != nil {
			return err
		}
		return t.meta.Put([]byte(keyShared), at.value())
	}))
}

// write writes the rows of an entry.
func (t Tables) write(e []byte) error {
	if len(e) == 0 {
		return nil
	}
	if e[0] != entryFormat {
		return fmt.Errorf("%w: format %d: was it written by a newer payledger?", errEntry, e[0])
	}
	to := t.all()
	for e = e[1:]; len(e) > 0; {
		in := int(e[0])
		key, rest, ok := cut(e[1:], 0)
		if !ok || len(key) == 0 || in >= len(to) {
			return fmt.Errorf("%w: a row has no key", errEntry)
		}
		if len(rest) > 0 && rest[0] == 0 {
			if err := to[in].Delete(key); err != nil {
				return err
			}
			e = rest[1:]
			continue
		}
		value, rest, ok := cut(rest, 1)
		if !ok {
			return fmt.Errorf("%w: a row has no end", errEntry)
		}
		if err := to[in].Put(key, value); err != nil {
			return err
		}
		e = rest
	}
	return nil
}

// cut takes bytes off that begin with their length and so many more.
func cut(b []byte, more uint64) (first, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n < more || n-more > uint64(len(b)-used) {
		return nil, nil, false
	}
	end := used + int(n-more)
	return b[used:end:end], b[end:], true
}
