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

// Source is the readable part of one copy of the log.
type Source struct {
	Name string
	// Log is the id of the copy's log, zero if the copy does not have it.
	Log domain.ID
	// Kind is for the report.
	Kind Kind
	// Checked: each record has a checksum.
	Checked bool

	read func(Place) (eventstore.Stored, error)

	Places  []Place // by position
	Trouble string  // a message about unreadable parts, "" for none
}

// Kind is the kind of a copy.
type Kind string

// The kinds.
const (
	KindLedger Kind = "ledger" // a log's file, damaged or not, or a backup
	KindExport Kind = "export"
	KindEvents Kind = "events" // the JetStream stream EVENTS
)

// Place is where a copy has a record.
type Place struct {
	Position eventstore.Position
	Offset   int64
	Size     int32
	Sum      uint32 // checksum of the record; 0 if the copy has none
	Durable  bool   // the copy shows that the record's commit was acknowledged
}

// Ledger finds the readable records in a log's file, however damaged. progress is
// called with the number of bytes read.
func Ledger(ctx context.Context, name string, f io.ReaderAt, size int64, progress func(done int64)) (*Source, error) {
	s := &Source{Name: name, Kind: KindLedger, Checked: true}
	remains, err := bolt.Carve(ctx, f, size, progress, func(c bolt.Carved) error {
		s.Places = append(s.Places, Place{c.Position, c.Offset, int32(c.Size), c.Sum, c.Used})
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Log = remains.LogID
	if remains.Unread > 0 {
		s.Trouble = fmt.Sprintf("%d bytes of it cannot be read", remains.Unread)
	}
	s.read = func(p Place) (eventstore.Stored, error) {
		return bolt.ReadCarved(f, bolt.Carved{Position: p.Position, Offset: p.Offset, Size: int(p.Size)})
	}
	s.arrange()
	return s, nil
}

// Lines finds the readable exported lines in a file, in any order. The file is an
// export, or a copy of EVENTS in the same form.
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
	bytes  []byte // without the line break; nil if longer than maxLine; valid until the next line
}

const (
	maxLine   = eventstore.MaxBody + 1<<10
	lineBegin = `{"position":`
)

// eachLine yields all lines. A line begins at the first lineBegin in it, if any:
// damaged bytes before it are skipped.
func eachLine(r io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		in := bufio.NewReaderSize(r, maxLine)
		for at := int64(0); ; {
			b, err := in.ReadSlice('\n')
			l := line{at, bytes.TrimSuffix(b, []byte("\n"))}
			at += int64(len(b))
			if i := bytes.Index(l.bytes, []byte(lineBegin)); i > 0 { // skip damaged bytes
				l = line{l.offset + int64(i), l.bytes[i:]}
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				l.bytes = nil // the next read overwrites it
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

// arrange sorts the places by position and removes duplicates of a record. It keeps
// a durable one, else the first.
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
