package replica

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	messageFormat = 1
	headSize      = 22

	first = 1
	last  = 2

	// maxPart bounds the bytes of an entry in one message. NATS servers take messages
	// of 1 MiB unless they are told otherwise.
	maxPart = 512 << 10

	// maxEntry bounds an entry; the largest change of a lane file has some MiB.
	maxEntry = 64 << 20
)

// errMessage: the bytes are no message of LANES.
var errMessage = errors.New("not a message of LANES")

// message is a part of an entry.
type message struct {
	flags  byte
	nonce  [8]byte
	before [8]byte
	part   []byte
}

// split cuts an entry into its messages, which do not know yet what is before them.
func split(nonce [8]byte, entry []byte) (all []message) {
	for begun := false; !begun || len(entry) > 0; begun = true {
		m := message{nonce: nonce, part: entry[:min(len(entry), maxPart)]}
		entry = entry[len(m.part):]
		if !begun {
			m.flags |= first
		}
		if len(entry) == 0 {
			m.flags |= last
		}
		all = append(all, m)
	}
	return all
}

func (m message) encode() []byte {
	b := make([]byte, 4, headSize+len(m.part))
	b = append(append(b, messageFormat, m.flags), m.nonce[:]...)
	b = append(append(b, m.before[:]...), m.part...)
	binary.BigEndian.PutUint32(b, sum(b))
	return b
}

func sum(b []byte) uint32 { return crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)) }

// hash is what the next message says of this one.
func hash(encoded []byte) [8]byte {
	h := sha256.Sum256(encoded)
	return [8]byte(h[:])
}

// decode reads a message, whose part shares its memory.
func decode(b []byte) (m message, err error) {
	switch {
	case len(b) < headSize || len(b) > headSize+maxPart:
		return m, fmt.Errorf("%w: it has %d bytes", errMessage, len(b))
	case binary.BigEndian.Uint32(b) != sum(b):
		return m, fmt.Errorf("%w: it does not match its checksum", errMessage)
	case b[4] != messageFormat:
		return m, fmt.Errorf("%w: format %d: was it written by a newer payledger?", errMessage, b[4])
	case b[5] > first|last:
		return m, fmt.Errorf("%w: flags %d", errMessage, b[5])
	}
	return message{flags: b[5], nonce: [8]byte(b[6:]), before: [8]byte(b[14:]), part: b[headSize:]}, nil
}

// joining puts the messages of entries together.
type joining struct{ entry []byte }

// join takes the next message; done: entry is complete.
func (j *joining) join(m message) (entry []byte, done bool, err error) {
	if m.flags&first != 0 {
		j.entry = j.entry[:0] // what came before has no end, its writer leads no more
	} else if len(j.entry) == 0 {
		return nil, false, fmt.Errorf("%w: an entry has no beginning", errMessage)
	}
	if len(j.entry)+len(m.part) > maxEntry {
		return nil, false, fmt.Errorf("%w: an entry has more than %d bytes", errMessage, maxEntry)
	}
	j.entry = append(j.entry, m.part...)
	return j.entry, m.flags&last != 0, nil
}
