package claims

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// The form of a table's Bloom filter; see the package comment. Looking up a key without a claim
// reads one cache line of the filter; fewer than one such key in 100 is then looked for among the
// entries, which costs about ten times as much.
const (
	filterLine    = 64 // bytes of a cache line
	filterLines   = blockData / filterLine
	filterNames   = 40 // names for each line, about
	filterBits    = 7  // of each name
	filterBitMask = filterLine*8 - 1
)

// filter is the blocks of a filter that is being built.
type filter [][]byte

// newFilter returns a filter for this many names.
func newFilter(names int) filter {
	const each = filterNames * filterLines
	f := make(filter, (names+each-1)/each)
	for i := range f {
		f[i] = make([]byte, filterLines*filterLine)
	}
	return f
}

func (f filter) add(n Name) {
	block, at := lineOf(n, len(f))
	for i, bit := range bitsOf(n) {
		f[block][at+i] |= bit
	}
}

// mayHave reports false when the name was not added to the line.
func mayHave(line []byte, n Name) bool {
	for i, bit := range bitsOf(n) {
		if line[i]&bit == 0 {
			return false
		}
	}
	return true
}

// lineOf is the position of a name's line in a filter with this many blocks.
func lineOf(n Name, blocks int) (block, at int) {
	line, _ := bits.Mul64(binary.BigEndian.Uint64(n[:]), uint64(blocks*filterLines))
	return int(line / filterLines), int(line%filterLines) * filterLine
}

// bitsOf yields a name's bits, each with the index of its byte in the line.
func bitsOf(n Name) iter.Seq2[int, byte] {
	return func(yield func(int, byte) bool) {
		rest := binary.BigEndian.Uint64(n[8:])
		for range filterBits {
			bit := int(rest & filterBitMask)
			if !yield(bit/8, 1<<(bit%8)) {
				return
			}
			rest >>= bits.Len(filterBitMask)
		}
	}
}
