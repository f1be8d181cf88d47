package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
)

// foreverLog is a log with permanent claims, each a year after the one before, and
// idempotency keys between them.
type foreverLog struct {
	*testing.T
	path  string
	store *Store
	n     int
}

func newForeverLog(t *testing.T, claims int) *foreverLog {
	l := &foreverLog{T: t, path: newLog(t)}
	l.store = reopened(t, l.path)
	for i := range claims {
		if err := l.claim(i, true); err != nil {
			t.Fatal(err)
		}
		if err := l.claim(i, false); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			flushClaims(t, l.store)
		}
	}
	return l
}

func (l *foreverLog) claim(i int, forever bool) error {
	l.n++
	c := commitOf(l.n, 0)
	if err := c.ID.SetTime(uint64(100+24*l.n) * spanMillis); err != nil {
		l.Fatal(err)
	}
	c.Claim = &eventstore.Claim{Key: claimedKey(i), Forever: forever}
	_, err := eventstore.AppendOne(l.Context(), l.store, c)
	return err
}

// flushClaims writes the claims in memory to tables, as the store does by itself
// when there are more of them.
func flushClaims(t *testing.T, s *Store) {
	t.Helper()
	last, _ := s.tail.record(s.tail.durable)
	written := func() bool {
		s.claims.Seal(uint64(last.Position), last.Commit)
		tables, err := filepath.Glob(filepath.Join(claimsDir(s.path), fmt.Sprintf("*-%016x", last.Position)))
		return err == nil && len(tables) > 0
	}
	for end := time.Now().Add(time.Minute); !written(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the claims are not written")
		}
	}
}

func (l *foreverLog) reopen() {
	l.Helper()
	if err := l.store.Close(); err != nil {
		l.Fatal(err)
	}
	l.store = reopened(l.T, l.path)
}

// check expects exactly this many permanent claims.
func (l *foreverLog) check(when string, claims int) {
	l.Helper()
	var claimed *eventstore.ClaimedError
	for i := range claims {
		if err := l.claim(i, true); !errors.As(err, &claimed) || *claimed.Value.Claim != (eventstore.Claim{Key: claimedKey(i), Forever: true}) {
			l.Errorf("%s: claim %d: %v", when, i, err)
		}
	}
	if err := l.claim(1000+l.n, true); err != nil {
		l.Errorf("%s: %v", when, err)
	}
	if err := l.store.Verify(l.Context()); err != nil {
		l.Errorf("%s: %v", when, err)
	}
}

// TestForeverBesideTheLog: permanent claims are found years later, even when the
// index's files were lost or damaged.
func TestForeverBesideTheLog(t *testing.T) {
	t.Parallel()
	const claims = 20
	l := newForeverLog(t, claims)
	l.check("at once", claims)
	l.reopen()
	l.check("reopened", claims)
	var tables []string
	for what, spoil := range map[string]func() error{
		"without an index":              func() error { return os.RemoveAll(claimsDir(l.path)) },
		"without its oldest table":      func() error { return os.Remove(tables[0]) },
		"with its oldest table cut off": func() error { return os.Truncate(tables[0], 4096) },
	} {
		if err := l.store.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if tables, err = filepath.Glob(filepath.Join(claimsDir(l.path), "*")); err != nil || len(tables) == 0 {
			t.Fatalf("before %s: %q, %v", what, tables, err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		l.store = reopened(t, l.path)
		l.check(what, claims)
		flushClaims(t, l.store)
	}
}

// When the index is lost and a record that may hold a claim cannot be read, no new
// key can be claimed.
func TestForeverWithDamage(t *testing.T) {
	t.Parallel()
	l := newForeverLog(t, 3)
	if err := l.store.file.Update(func(tx *bbolt.Tx) error {
		records := tx.Bucket(bucketRecords)
		v := append([]byte(nil), records.Get(positionKey(1))...)
		v[len(v)-1] ^= 1
		return records.Put(positionKey(1), v)
	}); err != nil {
		t.Fatal(err)
	}
	l.reopen()
	var claimed *eventstore.ClaimedError
	var corrupt *eventstore.CorruptError
	if err := l.claim(2, true); !errors.As(err, &claimed) {
		t.Errorf("with the index: %v", err)
	}
	if err := l.claim(100, true); err != nil {
		t.Errorf("with the index: %v", err)
	}
	_ = l.store.Close()
	if err := os.RemoveAll(claimsDir(l.path)); err != nil {
		t.Fatal(err)
	}
	l.store = reopened(t, l.path)
	if err := l.claim(2, true); !errors.As(err, &claimed) {
		t.Errorf("without the index: %v", err)
	}
	if err := l.claim(101, true); !errors.As(err, &corrupt) || corrupt.Position != 1 {
		t.Errorf("without the index: %v", err)
	}
	if err := l.claim(102, false); !errors.As(err, &corrupt) || corrupt.Position != 1 {
		t.Errorf("an idempotency key: %v", err)
	}
}
