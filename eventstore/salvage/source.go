package salvage

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
)

// Source is one copy of the log, as far as it can be read.
type Source struct {
	Name string
	// Log is the id of the copy's log, zero if it does not tell.
	Log domain.ID
	// Kind is for people: what the copy is.
	Kind Kind
	// Checked: what is read has a checksum of its own.
	Checked bool

	read func(Place) (eventstore.Stored, error)

	Places  []Place // by position
	Trouble string  // what could not be read, for people
}

// Kind is a kind of copies.
type Kind string

// The kinds.
const (
	KindLedger Kind = "ledger" // a log's file: its own, a damaged one, a backup
	KindExport Kind = "export"
	KindEvents Kind = "events" // what JetStream holds
)

// Place is where a record is said to be.
type Place struct {
	Position eventstore.Position
	Offset   int64
	Size     int32
	Sum      uint32 // of the record, where the copy has one
	Durable  bool   // what is there was acknowledged, as far as the copy tells
}

// Ledger reads a log's file, whatever has become of it.
func Ledger(ctx context.Context, name string, f io.ReaderAt, size int64, told func(done int64)) (*Source, error) {
	s := &Source{Name: name, Kind: KindLedger, Checked: true}
	remains, err := bolt.Carve(ctx, f, size, told, func(c bolt.Carved) error {
		s.Places = append(s.Places, Place{c.Position, c.Offset, int32(c.Size), c.Sum, c.Used})
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Log = remains.LogID
	if remains.Unread > 0 {
		s.Trouble = fmt.Sprintf("the disk does not give %d bytes of it", remains.Unread)
	}
	s.read = func(p Place) (eventstore.Stored, error) {
		return bolt.ReadCarved(f, bolt.Carved{Position: p.Position, Offset: p.Offset, Size: int(p.Size)})
	}
	s.arrange()
	return s, nil
}

// Lines reads exported lines, in any order: an export, or those that what
// JetStream holds was written to just now.
func Lines(ctx context.Context, name string, kind Kind, f io.ReaderAt, size int64) (*Source, error) {
	s := &Source{Name: name, Kind: kind, Checked: kind == KindEvents}
	bad := 0
	for l, err := range eachLine(io.NewSectionReader(f, 0, size)) {
		if err == nil && len(s.Places)%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		r, err := audit.Line(l.bytes)
		if err != nil {
			bad++
			continue
		}
		s.Places = append(s.Places, Place{Position: r.Position, Offset: l.offset, Size: int32(len(l.bytes)), Durable: true})
	}
	if bad > 0 {
		s.Trouble = fmt.Sprintf("%d lines of it cannot be read", bad)
	}
	s.read = func(p Place) (eventstore.Stored, error) {
		b := make([]byte, p.Size)
		if _, err := f.ReadAt(b, p.Offset); err != nil {
			return eventstore.Stored{}, err
		}
		r, err := audit.Line(b)
		if err == nil && r.Position != p.Position {
			err = errors.New("it changed while it was read")
		}
		return r, err
	}
	s.arrange()
	return s, nil
}

type line struct {
	offset int64
	bytes  []byte // up to maxLine of it, valid until the next
}

const (
	maxLine   = eventstore.MaxBody + 1<<10
	lineBegin = `{"position":`
)

// eachLine yields lines without their ends; of one that is too long, the
// beginning.
func eachLine(r io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		in := bufio.NewReaderSize(r, maxLine)
		for at := int64(0); ; {
			b, err := in.ReadSlice('\n')
			l := line{at, bytes.TrimSuffix(b, []byte("\n"))}
			at += int64(len(b))
			if i := bytes.Index(l.bytes, []byte(lineBegin)); i > 0 { // behind what is none
				l = line{l.offset + int64(i), l.bytes[i:]}
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				l.bytes = nil // the next read changes it
				more, err = in.ReadSlice('\n')
				at += int64(len(more))
			}
			switch {
			case err != nil && !errors.Is(err, io.EOF):
				yield(line{}, err)
				return
			case len(b) > 0 && !yield(l, nil):
				return
			case err != nil:
				return
			}
		}
	}
}

// arrange sorts the places by position and leaves out copies of one record,
// but for one that is durable, or else the first.
func (s *Source) arrange() {
	slices.SortFunc(s.Places, func(a, b Place) int {
		if c := cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Sum, b.Sum), cmp.Compare(a.Size, b.Size)); c != 0 {
			return c
		}
		switch {
		case a.Durable == b.Durable:
			return cmp.Compare(a.Offset, b.Offset)
		case a.Durable:
			return -1
		}
		return 1
	})
	s.Places = slices.CompactFunc(s.Places, func(a, b Place) bool {
		return a.Sum != 0 && a.Position == b.Position && a.Sum == b.Sum && a.Size == b.Size
	})
	s.Places = slices.Clip(s.Places)
}
