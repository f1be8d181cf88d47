package projections

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// TestScrubWritesAndOverwrites: afterwards the file reflects every event, and what it does not use is
// zero.
func TestScrubWritesAndOverwrites(t *testing.T) {
	t.Parallel()
	w := seeded(t, 11)
	c := w.config(t.TempDir())
	e := open(t, c)
	stop := run(t, e)
	for range 4 {
		w.Steps(60)
		if _, err := e.Fresh(t.Context(), eventstore.Filter{}); err != nil {
			t.Fatal(err)
		}
		must(t, e.flush())
	}
	if unusedBytes(t, c.Path) == 0 {
		t.Error("nothing was left before: this shows nothing")
	}
	w.Steps(20)
	must(t, e.Scrub(t.Context()))
	if e.flushed() != w.Last() {
		t.Errorf("saved up to %d, want %d", e.flushed(), w.Last())
	}
	if n := unusedBytes(t, c.Path); n > 0 {
		t.Errorf("%d bytes are left in pages that are in no use", n)
	}
	checkAll(t, w, e)
	must(t, stop())
	must(t, e.Scrub(t.Context()))
	must(t, e.Close())
	if err := e.Scrub(t.Context()); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrStopped) {
		t.Errorf("closed: %v", err)
	}
}

// unusedBytes counts the bytes that are not zero in pages that the file does not use.
func unusedBytes(t *testing.T, path string) (n int) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	m, err := boltfile.ReadMeta(bytes.NewReader(content))
	must(t, err)
	free, err := boltfile.Pages{File: bytes.NewReader(content), Meta: m}.Free()
	must(t, err)
	count := func(b []byte) { n += len(b) - bytes.Count(b, []byte{0}) }
	count(content[m.Size():])
	for _, page := range free {
		count(content[int64(page)*m.PageSize:][:m.PageSize])
	}
	return n
}
