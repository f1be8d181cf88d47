package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// written makes a log with n records, in up to 200 transactions, and returns its
// path.
func written(t testing.TB, n int) string {
	t.Helper()
	path := newLog(t)
	s := reopened(t, path)
	for i := 0; i < n; {
		var commits []eventstore.Commit
		for range min(n-i, max(1, n/100)) {
			commits = append(commits, commitOf(i, 0))
			i++
		}
		for _, a := range s.Append(t.Context(), commits...) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func reopened(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// commitOf opens the i-th payment, expecting its stream at a position.
func commitOf(i int, expect eventstore.Position) eventstore.Commit {
	id := domain.ID{1, 161, 248, 116, 0, 0, 1, 11: byte(expect), 12: byte(i >> 24), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
	return eventstore.Commit{
		ID:    id,
		Claim: &eventstore.Claim{Key: domain.Digest{byte(i), byte(i >> 8), byte(i >> 16), byte(expect), 1}},
		Record: eventstore.Record{
			Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Expect: expect,
			Body: []byte(`{"id":"` + id.String() + `"}`),
		},
	}
}

func wantOpenError(t *testing.T, what string, err, want error) {
	t.Helper()
	var open *OpenError
	if !errors.Is(err, want) || !errors.As(err, &open) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	if open.Advice == "" || !strings.Contains(err.Error(), open.Path) {
		t.Errorf("%s: %q does not say which file or what to do", what, err)
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, "Init again", Init(path, domain.ID{5}), ErrExists)
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was touched: %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("the directory holds %v, %v", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	wantOpenError(t, "Init in no directory", Init(filepath.Join(t.TempDir(), "no", "ledger.db"), domain.ID{5}), os.ErrNotExist)

	s := reopened(t, path)
	if s.LogID() != logID {
		t.Errorf("LogID = %s, want %s", s.LogID(), logID)
	}
	if id, err := s.LastID(t.Context()); err != nil || !id.IsZero() {
		t.Errorf("LastID = %s, %v", id, err)
	}
	if p, err := s.Last(t.Context()); err != nil || p != 0 {
		t.Errorf("Last = %d, %v", p, err)
	}
}

func TestLastIDIsTheGreatest(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	for _, i := range []int{3, 9, 4} {
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if id, err := s.LastID(t.Context()); err != nil || id != commitOf(9, 0).ID {
			t.Errorf("LastID = %s, %v", id, err)
		}
		_ = s.Close()
		s = reopened(t, path)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := filepath.Join(dir, "other.db")
	db, err := bbolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	formatted := func(name string) string {
		path := newLog(t)
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyFormat, []byte(name))
		}); err != nil {
			t.Fatal(err)
		}
		return path
	}

	for what, refused := range map[string]struct {
		path string
		want error
	}{
		"missing":           {filepath.Join(dir, "missing"), ErrMissing},
		"missing directory": {filepath.Join(dir, "no", "missing"), ErrMissing},
		"directory":         {dir, ErrForeign},
		"empty":             {file("empty", nil), ErrDamaged},
		"short text":        {file("short", []byte("hello")), ErrForeign},
		"long text":         {file("long", bytes.Repeat([]byte("hello"), 10000)), ErrForeign},
		"zeros":             {file("zeros", make([]byte, 1<<16)), ErrForeign},
		"other bbolt file":  {other, ErrForeign},
		"newer format":      {formatted(formatOf(FormatVersion + 1)), ErrVersion},
		"much newer format": {formatted(formatOf(10 * FormatVersion)), ErrVersion},
		"no number":         {formatted(formatName + "x"), ErrForeign},
		"older format":      {formatted(formatOf(oldFormat - 1)), ErrOutdated},
	} {
		for _, open := range []func(string) (*Store, error){openDefault, OpenReadOnly} {
			_, err := open(refused.path)
			wantOpenError(t, what, err, refused.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("Open made a file")
	}
}

func openDefault(path string) (*Store, error) { return Open(path, Options{MinFree: 1}) }

func TestLock(t *testing.T) {
	t.Parallel()
	path := written(t, 3)
	s := reopened(t, path)
	for range 2 {
		_, err := openDefault(path)
		wantOpenError(t, "Open of an open log", err, ErrLocked)
		_, err = OpenReadOnly(path)
		wantOpenError(t, "OpenReadOnly of an open log", err, ErrLocked)
	}
	_ = s.Close()
	for range 2 {
		r, err := OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if _, err := eventstore.AppendOne(t.Context(), r, commitOf(7, 0)); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Append: %v, want ErrReadOnly", err)
		}
		if err := r.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if p, err := r.Last(t.Context()); p != 3 || err != nil {
			t.Errorf("Last = %d, %v", p, err)
		}
		_, err = openDefault(path)
		wantOpenError(t, "Open of a log that is read", err, ErrLocked)
	}
}

// A file that was cut off anywhere is refused, and its lock is released.
func TestOpenOfWhatWasCutOff(t *testing.T) {
	t.Parallel()
	path := written(t, 60)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := usedBytes(t, path)
	for size := int64(0); size < used; size += 1000 {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := openDefault(path); !errors.Is(err, ErrDamaged) && (size > 0x1000 || !errors.Is(err, ErrForeign)) {
				t.Errorf("cut off at %d of %d bytes: %v", size, used, err)
			}
		}
		if err := os.WriteFile(path, whole[:used], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := reopened(t, path)
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func usedBytes(t testing.TB, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := boltfile.ReadMeta(f)
	if err != nil {
		t.Fatal(err)
	}
	return m.Size()
}

// Any byte of the file may change: either Open or Verify finds the change, or it has
// no effect and all records are still there. Nothing panics, and the newest commit
// is never lost silently.
func TestDamageAnywhere(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	const records = 40
	path := written(t, records)
	used := usedBytes(t, path)
	noticed := map[string]int{}
	step := int64(rounds(97, 41))
	for at := int64(0); at < used; at += step {
		damage(t, path, at)
		what, err := examine(t, path, records)
		if err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		noticed[what]++
		damage(t, path, at)
	}
	t.Logf("of %d changes: %v", used/step, noticed)
	if noticed["open"] == 0 || noticed["verify"] == 0 {
		t.Errorf("noticed: %v", noticed)
	}
}

func damage(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, f, at)
	_ = f.Close()
}

// examine returns where damage is found. The error says that it was not.
func examine(t *testing.T, path string, records int) (string, error) {
	s, err := OpenReadOnly(path)
	if err != nil {
		return "open", nil
	}
	defer func() { _ = s.Close() }()
	n := 0
	for _, scanErr := range s.Scan(t.Context(), 0, eventstore.Filter{}) {
		if scanErr == nil {
			n++
		}
	}
	for i := range records {
		for _, err := range s.Load(t.Context(), commitOf(i, 0).Record.Stream) {
			_ = err // reading may fail, but it ends
			break
		}
		_, _, _ = s.Claimed(t.Context(), commitOf(i, 0).Record.Stream.Project, commitOf(i, 0).Claim.Key)
	}
	if s.Verify(t.Context()) != nil {
		return "verify", nil
	}
	if n != records {
		return "", fmt.Errorf("only %d of %d records are shown and Verify finds nothing", n, records)
	}
	return "harmless", nil
}

// If the newest of bbolt's two states cannot be read, bbolt would use the older one,
// without the last commit.
func TestUnreadableStateIsNotPassedOver(t *testing.T) {
	t.Parallel()
	path := written(t, 5)
	for _, page := range []int64{0, 1} {
		for at := range int64(64) {
			damage(t, path, page*int64(os.Getpagesize())+16+at)
			if _, err := openDefault(path); !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d of page %d: %v", at, page, err)
			}
			damage(t, path, page*int64(os.Getpagesize())+16+at)
		}
	}
	reopened(t, path)
}

// After a damaged last record nothing is written; the records before it can be read.
func TestDamagedLastRecord(t *testing.T) {
	t.Parallel()
	u, _ := create(t).(*underTest)
	s := u.Open()
	for i := range 3 {
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	u.Size(3)
	_ = s.Close()
	u.Flip(3, 50)
	_, err := openDefault(u.path)
	wantOpenError(t, "a damaged last record", err, ErrDamaged)
	r, err := OpenReadOnly(u.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	n := 0
	var corrupt *eventstore.CorruptError
	for _, err := range r.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err == nil {
			n++
		} else if !errors.As(err, &corrupt) || corrupt.Position != 3 {
			t.Error(err)
		}
	}
	if n != 2 || corrupt == nil {
		t.Errorf("%d records, then %v", n, corrupt)
	}
}
