package check

import (
	"testing"

	"payledger/projections/projectiontest"
)

// BenchmarkReplay is to be compared with BenchmarkRebuild of package projections.
func BenchmarkReplay(b *testing.B) {
	w := projectiontest.Seeded(b, 1)
	w.BesideDecoding(b, w.Lives(20_000), func() {
		r, err := Replay(b.Context(), w.Ledger(), w.Last(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
