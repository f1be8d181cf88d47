package bolt

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// The form of a run's filter; see the package comment. A key that nobody
// claimed costs one look at memory that is not in the processor's cache, and
// some ten times as many in the entries: less than one in 100 comes that far.
const (
	filterLine    = 64 // bytes, as the processor's cache has them
	filterLines   = runSum / filterLine
	filterNames   = 40 // about so many share a line
	filterBits    = 7  // of each name
	filterBitMask = filterLine*8 - 1
)

// filter is one that is being made: its blocks.
type filter [][]byte

// newFilter has room for so many names.
func newFilter(names int) filter {
	const each = filterNames * filterLines
	f := make(filter, (names+each-1)/each)
	for i := range f {
		f[i] = make([]byte, filterLines*filterLine)
	}
	return f
}

func (f filter) mark(n claimName) {
	block, at := lineOf(n, len(f))
	for i, bit := range bitsOf(n) {
		f[block][at+i] |= bit
	}
}

// marked reports whether a name was marked in a line, or others that have its
// bits.
func marked(line []byte, n claimName) bool {
	for i, bit := range bitsOf(n) {
		if line[i]&bit == 0 {
			return false
		}
	}
	return true
}

// lineOf is where a name's line is in a filter of so many blocks.
func lineOf(n claimName, blocks int) (block, at int) {
	line, _ := bits.Mul64(binary.BigEndian.Uint64(n[:]), uint64(blocks*filterLines))
	return int(line / filterLines), int(line%filterLines) * filterLine
}

// bitsOf yields a name's bits, each with its byte's place in the line.
func bitsOf(n claimName) iter.Seq2[int, byte] {
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
