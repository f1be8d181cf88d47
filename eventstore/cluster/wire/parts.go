// Package wire writes and reads what the nodes of a cluster tell each other: the groups
// of LOG, commits that a node forwards to the sequencer, and the answers to them. All
// numbers are big-endian. It is the format of LOG and of what nodes of different versions
// send each other.
//
// Input may come from a faulty peer: it is bounded in bytes and number, and refused unless
// it is what this package writes.
package wire

import "encoding/binary"

// MaxMessage is how many bytes a message may have: NATS' own bound is 1 MiB.
const MaxMessage = 1<<20 - 4<<10

// AppendPart writes a part behind others, with its length (4).
func AppendPart(to, part []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// parts reads what AppendPart wrote, at most so many.
func parts(b []byte, most int) (all [][]byte, err error) {
	if len(b) > MaxMessage {
		return nil, ErrMalformed
	}
	for len(b) > 0 {
		if len(all) == most || len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, ErrMalformed
		}
		n := 4 + binary.BigEndian.Uint32(b)
		all, b = append(all, b[4:n:n]), b[n:]
	}
	return all, nil
}

// Number reads a number (8) and gives what is behind it; false: there is none.
func Number(b []byte) (uint64, []byte, bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}

// Numbers reads a message of so many numbers.
func Numbers(b []byte, n int) (all []uint64, ok bool) {
	for range n {
		var x uint64
		if x, b, ok = Number(b); !ok {
			return nil, false
		}
		all = append(all, x)
	}
	return all, len(b) == 0
}
