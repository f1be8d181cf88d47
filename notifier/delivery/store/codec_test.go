package store

import (
	"testing"

	"payledger/domain"
)

// FuzzValues: no value of the file, however it came about, stops the program.
func FuzzValues(f *testing.F) {
	key := []byte("key")
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		v := sealed(key, append([]byte{valueFormat}, data...))
		_, _ = parseLane(key, v)
		_, _ = parseRecord(domain.ID{}, key, v)
		_, _, _, _ = parseTally(key, v)
	})
}
