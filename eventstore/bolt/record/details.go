package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"payledger/eventstore"
)

// A record's details are stored behind it as
//
//	offset  bytes
//	0       4      CRC-32C of the position as 8 bytes and of the bytes from 4 to the size
//	4       1      'd'
//	5       …      the details
//	…       2      the number of bytes before
//
// Once they are erased, only the number is left, and is 0. So the bytes of a record are the same
// with and without its details.
const (
	detailsHead = 5
	detailsMark = 'd'
	detailsTail = 2

	// MaxDetailsSize is more bytes than the stored details of any record have.
	MaxDetailsSize = detailsHead + eventstore.MaxDetails + detailsTail
)

// HasDetails reports whether the record, as it is stored, was written with details. They may have
// been erased since.
func HasDetails(b []byte) bool { return len(b) > fixedSize && b[5]&flagDetails != 0 }

// AppendDetails appends to a record that was written with details what is stored behind it. Nil
// stands for erased ones.
func AppendDetails(b []byte, p eventstore.Position, details []byte) []byte {
	start := len(b)
	if details != nil {
		b = append(append(b, 0, 0, 0, 0, detailsMark), details...)
		binary.BigEndian.PutUint32(b[start:], checksum(p, b[start+4:]))
	}
	return binary.BigEndian.AppendUint16(b, uint16(len(b)-start))
}

// Split divides what is stored into the record, which is what nodes compare, and its details: empty if
// it has none, or these were erased. Of a damaged one the record is empty.
func Split(b []byte) (record, details []byte) {
	if !HasDetails(b) {
		return b, nil
	}
	n := len(b) - detailsTail
	start := n - int(binary.BigEndian.Uint16(b[n:]))
	if start < 0 {
		return nil, nil
	}
	return b[:start:start], b[start:n]
}

func decodeDetails(p eventstore.Position, b []byte) ([]byte, error) {
	switch {
	case len(b) <= detailsHead || b[4] != detailsMark:
		return nil, errors.New("its details are too short, or written by a newer program")
	case checksum(p, b[4:]) != binary.BigEndian.Uint32(b):
		return nil, fmt.Errorf("its details do not match their checksum %08x", binary.BigEndian.Uint32(b))
	}
	return b[detailsHead:], nil
}

// FindDetails is the size of the details of the record at a position at the beginning of b, as they are
// stored before their number of bytes, which may have more after them; 0 if there are none. They end
// where their checksum matches behind a }.
func FindDetails(p eventstore.Position, b []byte) int {
	if len(b) <= detailsHead+eventstore.SaltSize || b[4] != detailsMark || b[detailsHead+eventstore.SaltSize] != '{' {
		return 0
	}
	return find(p, b[:min(len(b), MaxDetailsSize)], func(n int) bool { return b[n-1] == '}' && n-1 > detailsHead+eventstore.SaltSize })
}
