package bolt

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// TestScrub overwrites what a transaction deleted, and commits go on. A backup does so too.
func TestScrub(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, Init(path, domain.ID{1}))
	s, err := Open(path, Options{MinFree: 1})
	must(t, err)
	secret := []byte("what a customer typed")
	forget := func() {
		for _, put := range []bool{true, false} {
			s.writing.Lock()
			err := s.update(func(tx *bbolt.Tx) error {
				if put {
					return tx.Bucket(bucketMeta).Put([]byte("a secret"), bytes.Repeat(secret, 400))
				}
				return tx.Bucket(bucketMeta).Delete([]byte("a secret"))
			})
			s.writing.Unlock()
			must(t, err)
		}
		if n := occurrences(t, path, secret); n == 0 {
			t.Error("nothing of it is left before: this shows nothing")
		}
	}
	forget()
	copied, _ := backup(t, s)
	if n := occurrences(t, copied, secret); n > 0 {
		t.Errorf("it is in a backup %d times", n)
	}
	forget()
	must(t, s.Scrub(t.Context()))
	if n := occurrences(t, path, secret); n > 0 {
		t.Errorf("it is left %d times", n)
	}
	appendAll(t, s, 5, func(int) eventstore.Position { return 0 })
	must(t, s.Scrub(t.Context()))
	must(t, s.Verify(t.Context()))
	must(t, s.Close())
	if err := s.Scrub(t.Context()); !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("a closed log: %v", err)
	}
	s, err = open(path, true, math.MaxUint64)
	must(t, err)
	if err := s.Scrub(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a log that is only read: %v", err)
	}
	must(t, s.Close())
}

func occurrences(t *testing.T, path string, of []byte) int {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return bytes.Count(content, of)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
