package record

import (
	"encoding/binary"
	"hash/crc32"

	"payledger/eventstore"
)

// Find is the size, without details, of the record of a position at the beginning of b, which may have
// more bytes after it; 0 if there is none. A record ends where its checksum matches and it can be decoded.
func Find(p eventstore.Position, b []byte) int {
	if len(b) <= fixedSize || b[4] != format || b[5]&^allFlags != 0 || b[fixedSize] == 0 { // a sequence is from 1
		return 0
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	want, sum := ^binary.BigEndian.Uint32(b), begin(p)
	for i, x := range b[4:] {
		sum = table[byte(sum)^x] ^ sum>>8
		if sum != want || i+5 <= fixedSize {
			continue
		}
		r, err := new(Decoder).parse(p, b[:i+5])
		if err != nil {
			continue // by chance
		}
		if n := len(r.Body); b[5]&flagCompressed == 0 && r.Body[0] == '{' && r.Body[n-1] != '}' {
			continue
		}
		return i + 5
	}
	return 0
}
