package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
)

// claimedKey is the i-th key of a test.
func claimedKey(i int) domain.Digest {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

// TestClaimsBesideTheLog changes the index's files while the log is closed: every
// key of the log is still found. A table that belongs to another history of the log
// is not used.
func TestClaimsBesideTheLog(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	n := 0
	claim := func(project string, i int) error {
		n++
		c := commitOf(n, 0)
		c.Record.Stream.Project = project
		c.Claim = &eventstore.Claim{Key: claimedKey(i)}
		_, err := eventstore.AppendOne(t.Context(), s, c)
		return err
	}
	flush := func() { flushClaims(t, s) }
	var claimed *eventstore.ClaimedError
	for i := range 40 {
		if err := claim("prj_a", i); err != nil {
			t.Fatal(err)
		}
		if i%7 == 6 {
			flush()
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range 40 {
			if err := claim("prj_a", i); !errors.As(err, &claimed) || claimed.Value.Claim.Key != claimedKey(i) {
				t.Errorf("%s: key %d: %v", when, i, err)
			}
			if r, ok, err := s.Claimed(t.Context(), "prj_a", claimedKey(i)); err != nil || !ok || r.Claim.Key != claimedKey(i) {
				t.Errorf("%s: key %d: found %t, %v", when, i, ok, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	check("at once")
	_ = s.Close()
	s = reopened(t, path)
	check("reopened")
	_ = s.Close()
	if err := os.RemoveAll(claimsDir(path)); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, path)
	check("without an index")

	// A copy of the log got other events.
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := claim("prj_a", 100+i); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	_ = s.Close()
	if files, err := os.ReadDir(claimsDir(path)); err != nil || len(files) == 0 {
		t.Fatalf("%d tables, %v", len(files), err)
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, path)
	n += 100
	for i := range 3 {
		if err := claim("prj_a", 200+i); err != nil {
			t.Fatal(err)
		}
	}
	check("restored")
	for i := range 3 {
		if err := claim("prj_a", 100+i); err != nil {
			t.Errorf("a key of another history of the log is taken: %v", err)
		}
	}

	readOnly, err := OpenReadOnly(copyOf(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = readOnly.Close() }()
	if _, ok, err := readOnly.Claimed(t.Context(), "prj_a", claimedKey(7)); !errors.Is(err, ErrReadOnly) || ok {
		t.Errorf("found %t, %v", ok, err)
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// When the disk cannot read the index, the store ends and blames the index; the next one rebuilds it.
func TestUnreadableClaims(t *testing.T) {
	t.Parallel()
	for what, read := range map[string]func(s *Store) error{
		"a lookup": func(s *Store) error {
			_, _, err := s.Claimed(t.Context(), commitOf(1, 0).Record.Stream.Project, commitOf(1, 0).Claim.Key)
			return err
		},
		"a commit": func(s *Store) error {
			_, err := eventstore.AppendOne(t.Context(), s, commitOf(100, 0))
			return err
		},
	} {
		path := newLog(t)
		s := reopened(t, path)
		appendAll(t, s, 20, func(int) eventstore.Position { return 0 })
		flushClaims(t, s)
		tables, err := filepath.Glob(filepath.Join(claimsDir(path), "*"))
		if err != nil || len(tables) != 1 {
			t.Fatal(tables, err)
		}
		must(t, s.Close())
		s = reopened(t, path)
		must(t, os.Truncate(tables[0], 4096))
		if err := read(s); !errors.As(err, new(*claims.DamagedError)) {
			t.Errorf("%s is answered with %v", what, err)
		}
		<-s.Fatal()
		if err := s.Err(); !errors.As(err, new(*claims.DamagedError)) || errors.Is(err, ErrDamaged) {
			t.Errorf("after %s the store ends with %v", what, err)
		}
		must(t, s.Close())
		s = reopened(t, path)
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(1, 0)); err != nil {
			t.Errorf("after %s a commit that is sent again is answered with %v", what, err)
		}
		must(t, s.Close())
	}
}
