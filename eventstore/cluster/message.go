package cluster

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

// errMessage: the bytes are no message of LOG.
var errMessage = errors.New("not a message of LOG")

// encode is the message of a group.
func encode(g *bolt.Group) []byte {
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

// decode reads a message; the records share its memory. Whether they follow from
// the log is bolt's to check.
func decode(b []byte) (*bolt.Group, error) {
	switch {
	case len(b) < headSize, len(b) > maxMessage:
		return nil, fmt.Errorf("%w: it has %d bytes", errMessage, len(b))
	case binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)):
		return nil, fmt.Errorf("%w: it does not match its checksum", errMessage)
	case b[4] != messageFormat && b[4] != endFormat:
		return nil, fmt.Errorf("%w: format %d: written by a newer program?", errMessage, b[4])
	}
	g := &bolt.Group{
		Number: binary.BigEndian.Uint64(b[5:]), Nonce: bolt.Nonce(b[13:]), Writer: domain.ID(b[29:]),
		At: int64(binary.BigEndian.Uint64(b[45:])), First: eventstore.Position(binary.BigEndian.Uint64(b[53:])),
		Before: [32]byte(b[61:]), End: b[4] == endFormat,
	}
	n, rest := int(binary.BigEndian.Uint16(b[93:])), b[headSize:]
	if n > bolt.MaxGroupCommits {
		return nil, fmt.Errorf("%w: it has %d records", errMessage, n)
	}
	for range n {
		size, used := binary.Uvarint(rest)
		if used <= 0 || size == 0 || size > record.MaxSize || size > uint64(len(rest)-used) {
			return nil, fmt.Errorf("%w: a record has no end", errMessage)
		}
		end := used + int(size)
		g.Records, rest = append(g.Records, rest[used:end:end]), rest[end:]
	}
	if len(rest) > 0 || !bytes.Equal(encode(g), b) {
		return nil, fmt.Errorf("%w: it is not written as this program writes", errMessage)
	}
	return g, nil
}
