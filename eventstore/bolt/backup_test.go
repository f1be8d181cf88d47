package bolt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// filled makes a log with n records.
func filled(t *testing.T, n int) (*underTest, *Store) {
	t.Helper()
	u := create(t).(*underTest)
	s := u.Open().(*Store)
	t.Cleanup(func() { _ = s.Close() })
	for i := range n {
		if _, err := eventstore.AppendOne(t.Context(), s, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	return u, s
}

func numbered(i int) eventstore.Commit {
	id := domain.ID{0, 0, 0, 0, 0, 1, byte(i >> 8), byte(i)}
	return eventstore.Commit{ID: id, Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_x", id), Body: bytes.Repeat([]byte("x"), 1000),
	}}
}

// backup copies a log to a file and checks the copy.
func backup(t *testing.T, s *Store) (path string, last eventstore.Position) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "copy")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	err = s.Backup(t.Context(), func(p eventstore.Position, n int64) (io.Writer, error) {
		last, size = p, n
		return f, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("%d bytes were announced, %d written", size, info.Size())
	}
	c, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := c.Last(t.Context()); err != nil || got != last || c.LogID() != s.LogID() {
		t.Errorf("log %s, position %d, %v; want %s, %d", c.LogID(), got, err, s.LogID(), last)
	}
	return path, last
}

// Each copy that is taken while records are added is a whole log.
func TestBackupWhileAppending(t *testing.T) {
	t.Parallel()
	_, s := filled(t, 0)
	if _, last := backup(t, s); last != 0 {
		t.Errorf("position %d of an empty log", last)
	}
	var appending sync.WaitGroup
	appending.Go(func() {
		for i := range 300 {
			if _, err := eventstore.AppendOne(context.Background(), s, numbered(i)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		before, err := s.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, last := backup(t, s); last < before {
			t.Errorf("the copy ends at %d, before it was begun the log ended at %d", last, before)
		}
	}
	appending.Wait()
	path, last := backup(t, s)
	if last != 300 {
		t.Errorf("position %d", last)
	}
	// A copy can be opened, written to and copied again.
	c, err := Open(path, Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := eventstore.AppendOne(t.Context(), c, numbered(300)); err != nil {
		t.Fatal(err)
	}
	if _, last := backup(t, c); last != 301 {
		t.Errorf("position %d", last)
	}
}

// A copy holds no record that bbolt shows before its sync.
func TestBackupHoldsOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	u, s := filled(t, 1)
	u.device.arm(fault{step: stepMetaSync, keep: all})
	var fatal *eventstore.FatalError
	if _, err := eventstore.AppendOne(t.Context(), s, numbered(1)); !errors.As(err, &fatal) {
		t.Fatalf("%v", err)
	}
	if err := s.file.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(bucketRecords).Get(positionKey(2)) == nil {
			t.Error("the second record does not show, so this proves nothing")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err := s.Backup(t.Context(), func(last eventstore.Position, _ int64) (io.Writer, error) {
		t.Errorf("a copy up to %d is begun", last)
		return io.Discard, nil
	})
	if !errors.As(err, &fatal) {
		t.Errorf("%v", err)
	}
}

func TestBackupEnds(t *testing.T) {
	t.Parallel()
	_, s := filled(t, 3)
	mine := errors.New("no room")
	if err := s.Backup(t.Context(), func(eventstore.Position, int64) (io.Writer, error) { return nil, mine }); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Backup(ctx, func(eventstore.Position, int64) (io.Writer, error) {
		cancel()
		return io.Discard, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), nil); !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	if err := os.WriteFile(path, []byte("no log any more"), 0o600); err != nil {
		t.Fatal(err)
	}
	letGo, err := Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	if _, err := Hold(path); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
	if _, err := Hold(path + "x"); !errors.Is(err, ErrMissing) {
		t.Errorf("%v", err)
	}
}
