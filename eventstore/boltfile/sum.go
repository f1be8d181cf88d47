package boltfile

import "hash/crc32"

// Sum is the CRC-32C (Castagnoli) of the parts one after the other. bbolt
// checks none of what it stores but its two meta pages, so a value that must be
// right carries the sum of itself and of the key it is stored under.
func Sum(parts ...[]byte) uint32 { return SumFrom(0, parts...) }

// SumFrom continues the sum of what comes before the parts.
func SumFrom(sum uint32, parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // the standard library's own, made once
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}
