package record

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"payledger/eventstore"
)

// Find is the size, without details, of the record of a position at the beginning of b, which may have
// more bytes after it; 0 if there is none. A record ends where its checksum matches and it can be decoded:
// its body is a JSON object, or was compressed and has a checksum of its own.
func Find(p eventstore.Position, b []byte) int {
	if len(b) <= fixedSize || b[4] != format || b[5]&^allFlags != 0 || b[fixedSize] == 0 { // a sequence is from 1
		return 0
	}
	return find(p, b, func(n int) bool {
		if n <= fixedSize {
			return false
		}
		r, err := new(Decoder).parse(p, b[:n])
		return err == nil && (b[5]&flagCompressed != 0 || bytes.HasPrefix(r.Body, []byte(`{"`)) && r.Body[len(r.Body)-1] == '}')
	})
}

// find is the size of what begins with its checksum: where that matches and ends agrees, because it
// matches by chance, too.
func find(p eventstore.Position, b []byte, ends func(n int) bool) int {
	table := crc32.MakeTable(crc32.Castagnoli)
	want, sum := ^binary.BigEndian.Uint32(b), begin(p)
	for i, x := range b[4:] {
		if sum = table[byte(sum)^x] ^ sum>>8; sum == want && ends(i+5) {
			return i + 5
		}
	}
	return 0
}
