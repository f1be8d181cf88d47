package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

// A message of LOG, numbers big-endian:
//
//	offset  bytes
//	0       4      CRC-32C of the rest
//	4       1      format: 1, or 2 for LOG's last group, whose writer goes on alone
//	5       8      number of the group, which is the message's sequence in LOG
//	13      16     nonce
//	29      16     the node that staged the group
//	45      8      when, in Unix ms
//	53      8      position of its first record
//	61      32     SHA-256 of the record before that; zero for none
//	93      2      number of records
//	95      …      each record: its length as a varint, then the bytes as bolt stores them
const (
	messageFormat = 1
	endFormat     = 2
	headSize      = 95
)

// ErrMalformed: the bytes are no message of LOG.
var ErrMalformed = errors.New("not a message of LOG")

// EncodeGroup is the message of a group.
func EncodeGroup(g *bolt.Group) []byte {
	size := headSize
	for _, r := range g.Records {
		size += binary.MaxVarintLen32 + len(r)
	}
	b := append(make([]byte, 0, size), 0, 0, 0, 0, messageFormat)
	if g.End {
		b[4] = endFormat
	}
	b = binary.BigEndian.AppendUint64(b, g.Number)
	b = append(append(b, g.Nonce[:]...), g.Writer[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(g.At))
	b = binary.BigEndian.AppendUint64(b, uint64(g.First))
	b = append(b, g.Before[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(g.Records)))
	for _, r := range g.Records {
		b = append(binary.AppendUvarint(b, uint64(len(r))), r...)
	}
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// DecodeGroup reads a message; the records share its memory. Whether they follow from
// the log is bolt's to check.
func DecodeGroup(b []byte) (*bolt.Group, error) {
	switch {
	case len(b) < headSize, len(b) > MaxMessage:
		return nil, fmt.Errorf("%w: it has %d bytes", ErrMalformed, len(b))
	case binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)):
		return nil, fmt.Errorf("%w: it does not match its checksum", ErrMalformed)
	case b[4] != messageFormat && b[4] != endFormat:
		return nil, fmt.Errorf("%w: format %d: written by a newer program?", ErrMalformed, b[4])
	}
	g := &bolt.Group{
		Number: binary.BigEndian.Uint64(b[5:]), Nonce: bolt.Nonce(b[13:]), Writer: domain.ID(b[29:]),
		At: int64(binary.BigEndian.Uint64(b[45:])), First: eventstore.Position(binary.BigEndian.Uint64(b[53:])),
		Before: [32]byte(b[61:]), End: b[4] == endFormat,
	}
	n, rest := int(binary.BigEndian.Uint16(b[93:])), b[headSize:]
	if n > bolt.MaxGroupCommits {
		return nil, fmt.Errorf("%w: it has %d records", ErrMalformed, n)
	}
	for range n {
		size, used := binary.Uvarint(rest)
		if used <= 0 || size == 0 || size > record.MaxSize || size > uint64(len(rest)-used) {
			return nil, fmt.Errorf("%w: a record has no end", ErrMalformed)
		}
		end := used + int(size)
		g.Records, rest = append(g.Records, rest[used:end:end]), rest[end:]
	}
	if len(rest) > 0 || !bytes.Equal(EncodeGroup(g), b) {
		return nil, fmt.Errorf("%w: it is not written as this program writes", ErrMalformed)
	}
	return g, nil
}

// DecodeGroups reads the groups from a number on, each a part, at most so many. With an
// error come those in front of what is wrong.
func DecodeGroups(b []byte, from uint64, most int) (groups []*bolt.Group, err error) {
	all, err := parts(b, most)
	if err != nil {
		return nil, err
	}
	for i, piece := range all {
		g, err := DecodeGroup(piece)
		if err == nil && g.Number != from+uint64(i) {
			err = fmt.Errorf("%w: group %d comes in the place of %d", ErrMalformed, g.Number, from+uint64(i))
		}
		if err != nil {
			return groups, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}
