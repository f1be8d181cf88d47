package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"payledger/eventstore"
)

// A record's details are stored under the record's position as
//
//	offset  bytes
//	0       4      CRC-32C of the position as 8 bytes and of bytes 4 to the end
//	4       1      'd'
//	5       rest   the details
const (
	detailsHead = 5
	detailsMark = 'd'

	// MaxDetailsSize is more bytes than the stored details of any record have.
	MaxDetailsSize = detailsHead + eventstore.MaxDetails
)

// HasDetails reports whether the record, as it is stored, was written with details. They may have
// been erased since.
func HasDetails(b []byte) bool { return len(b) > fixedSize && b[5]&flagDetails != 0 }

// AppendDetails appends the details of the record at position p as they are stored.
func AppendDetails(b []byte, p eventstore.Position, details []byte) []byte {
	start := len(b)
	b = append(append(b, 0, 0, 0, 0, detailsMark), details...)
	binary.BigEndian.PutUint32(b[start:], checksum(p, b[start+4:]))
	return b
}

// DecodeDetails reads the details of the record at position p. The error is an
// *eventstore.CorruptError.
func DecodeDetails(p eventstore.Position, b []byte) ([]byte, error) {
	var reason string
	switch {
	case len(b) <= detailsHead || b[4] != detailsMark:
		reason = "its details are too short, or written by a newer program"
	case checksum(p, b[4:]) != binary.BigEndian.Uint32(b):
		reason = fmt.Sprintf("its details do not match their checksum %08x", binary.BigEndian.Uint32(b))
	default:
		return bytes.Clone(b[detailsHead:]), nil
	}
	return nil, &eventstore.CorruptError{Position: p, Reason: reason}
}

// FindDetails is the size of the details of the record at a position at the beginning of b, as they are
// stored, which may have more bytes after them; 0 if there are none. They end where their checksum
// matches behind a }.
func FindDetails(p eventstore.Position, b []byte) int {
	if len(b) <= detailsHead+eventstore.SaltSize || b[4] != detailsMark || b[detailsHead+eventstore.SaltSize] != '{' {
		return 0
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	want, sum := ^binary.BigEndian.Uint32(b), begin(p)
	for i, x := range b[4:min(len(b), MaxDetailsSize)] {
		if sum = table[byte(sum)^x] ^ sum>>8; sum == want && x == '}' && i+4 > detailsHead+eventstore.SaltSize {
			return i + 5
		}
	}
	return 0
}
