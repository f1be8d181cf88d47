package delivery

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/delivery/store"
)

// shelf is a directory with lanes that nobody runs.
type shelf struct {
	*world
	log bytes.Buffer
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{world: newWorld(t)}
	s.endpoint("a")
	return s
}

// use opens the lanes, enqueues an event of a new payment and closes them. It
// answers how many deliveries there were before.
func (s *shelf) use(t *testing.T) int {
	t.Helper()
	l := s.reopen(t)
	n := len(s.pending(t, l))
	id := s.payment()
	last, _ := s.ledger.Store.Last(t.Context())
	err := l.Enqueue(t.Context(), last, []Event{{
		Project: testProject, Endpoint: "we_a", Payment: id, ID: s.ids.Next(), Kind: domain.KindPaymentCreated, Sequence: 1, Position: last,
	}})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shelf) reopen(t *testing.T) *Lanes {
	t.Helper()
	c := s.config()
	c.Log = zerolog.New(&s.log)
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *shelf) pending(t *testing.T, l *Lanes) []domain.DeliveryObject {
	t.Helper()
	page, err := l.Deliveries(t.Context(), domain.DeliveryFilter{Endpoint: "we_a"})
	if err != nil {
		t.Fatal(err)
	}
	return page.Deliveries
}

func (s *shelf) asides(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob(s.path + ".aside-*")
	if err != nil {
		t.Fatal(err)
	}
	if logged := strings.Count(s.log.String(), "moved aside"); logged != len(names) {
		t.Errorf("%d files were moved aside and %d logged:\n%s", len(names), logged, s.log.String())
	}
	return len(names)
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFileIsKept is the other side of all that follows.
func TestFileIsKept(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i := range 4 {
		if n := s.use(t); n != i {
			t.Fatalf("opened for the %d. time there are %d deliveries", i+1, n)
		}
	}
	if n := s.asides(t); n != 0 {
		t.Errorf("%d files were moved aside", n)
	}
}

func TestFileIsPutAside(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *shelf){
		"an older copy": func(t *testing.T, s *shelf) {
			old := contents(t, s.path)
			s.use(t)
			write(t, s.path, old)
		},
		"a copy of two starts ago": func(t *testing.T, s *shelf) {
			old := contents(t, s.path)
			s.use(t)
			s.use(t)
			write(t, s.path, old)
		},
		"a copy taken while it was open, closed since": func(t *testing.T, s *shelf) {
			s.lanes = s.reopen(t)
			if err := s.copyTo(s.path + ".copy"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.lanes.Close(), os.Rename(s.path+".copy", s.path)); err != nil {
				t.Fatal(err)
			}
		},
		"without its mark": func(t *testing.T, s *shelf) {
			if err := os.Remove(s.config().Mark); err != nil {
				t.Fatal(err)
			}
		},
		"a mark that cannot be read": func(t *testing.T, s *shelf) { write(t, s.config().Mark, []byte("payledger lanes mark 1 00\n")) },
		"an older mark": func(t *testing.T, s *shelf) {
			old := contents(t, s.config().Mark)
			s.use(t)
			write(t, s.config().Mark, old)
		},
		"another event log": func(_ *testing.T, s *shelf) { s.logID = s.ids.Next() },
		"an event log that is behind": func(_ *testing.T, s *shelf) {
			s.ledger = eventstore.Ledger{Store: memory.New(), Codec: s.ledger.Codec}
		},
		"cut off":  func(t *testing.T, s *shelf) { write(t, s.path, contents(t, s.path)[:5000]) },
		"empty":    func(t *testing.T, s *shelf) { write(t, s.path, nil) },
		"text":     func(t *testing.T, s *shelf) { write(t, s.path, bytes.Repeat([]byte("lanes\n"), 4000)) },
		"of zeros": func(t *testing.T, s *shelf) { write(t, s.path, make([]byte, len(contents(t, s.path)))) },
		"another file": func(t *testing.T, s *shelf) {
			if err := os.Remove(s.path); err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(s.path, 0o600, nil)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		},
		"an endpoint with a flipped bit": func(t *testing.T, s *shelf) { s.flip(t, "endpoints") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.use(t)
			s.use(t)
			spoil(t, s)
			last, err := s.ledger.Store.Last(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l := s.reopen(t)
			if after, base, err := l.Start(); err != nil || after != 0 || base != last || len(s.pending(t, l)) != 0 {
				t.Errorf("it goes on after %d, with base %d and %d deliveries; want a fresh file with base %d", after, base, len(s.pending(t, l)), last)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if n := s.asides(t); n != 1 {
				t.Errorf("%d files were moved aside, want 1", n)
			}
			if n := s.use(t); n != 0 || s.asides(t) != 1 {
				t.Errorf("then %d deliveries, %d files moved aside; want the fresh file to be kept", n, s.asides(t))
			}
		})
	}
}

// flip changes a bit of the first value in a bucket, under bbolt's feet.
func (s *shelf) flip(t *testing.T, bucket string) {
	t.Helper()
	db, err := bbolt.Open(s.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(btx *bbolt.Tx) error {
		b := btx.Bucket([]byte(bucket))
		k, v := b.Cursor().First()
		v = bytes.Clone(v)
		v[len(v)/2] ^= 4
		return b.Put(bytes.Clone(k), v)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFileOfACrash: wherever the program ends between the steps of opening
// and closing, the file is accepted.
func TestFileOfACrash(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(t *testing.T, s *shelf){
		"opened, mark not yet written": func(t *testing.T, s *shelf) {
			mark := contents(t, s.config().Mark)
			s.lanes = s.reopen(t)
			s.cut(t, mark)
		},
		"open": func(t *testing.T, s *shelf) {
			s.lanes = s.reopen(t)
			s.cut(t, contents(t, s.config().Mark))
		},
		"closed, mark not yet written": func(t *testing.T, s *shelf) {
			l := s.reopen(t)
			mark := contents(t, s.config().Mark)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			write(t, s.config().Mark, mark)
		},
		"a mark half written": func(t *testing.T, s *shelf) { write(t, s.config().Mark+".new", []byte("payl")) },
		"a file half made":    func(t *testing.T, s *shelf) { write(t, s.path+".new", []byte("half")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.use(t)
			for i := range 3 {
				crash(t, s)
				if n := s.use(t); n != i+1 || s.asides(t) != 0 {
					t.Fatalf("after crash %d there are %d deliveries, and %d files moved aside", i+1, n, s.asides(t))
				}
			}
		})
	}
}

// cut leaves file and mark as they are on the disk while the lanes are open.
func (s *shelf) cut(t *testing.T, mark []byte) {
	t.Helper()
	if err := errors.Join(s.copyTo(s.path+".copy"), s.lanes.Close(), os.Rename(s.path+".copy", s.path)); err != nil {
		t.Fatal(err)
	}
	write(t, s.config().Mark, mark)
}

func TestFileInUse(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.use(t)
	db, err := bbolt.Open(s.path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := Open(t.Context(), s.config()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened while in use: %v", err)
	}
	if n := s.asides(t); n != 0 {
		t.Errorf("%d files were moved aside", n)
	}
}

// TestDamageFoundLater: Run ends, and the next Open starts afresh.
func TestDamageFoundLater(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{"lanes", "pending"} {
		s := newShelf(t)
		s.use(t)
		s.flip(t, bucket)
		l := s.reopen(t)
		if err := l.Run(t.Context()); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: Run ended with %v", bucket, err)
		}
		if err := l.Enqueue(t.Context(), 1, nil); err == nil {
			t.Error("events are still taken in")
		}
		if err := l.Close(); err == nil {
			t.Error("Close does not tell of it")
		}
		if n := s.use(t); n != 0 || s.asides(t) != 1 {
			t.Errorf("%s: then %d deliveries, %d files moved aside", bucket, n, s.asides(t))
		}
	}
}

// TestFailedCommit: every waiting caller gets the error of a commit, and Run ends.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	l := s.reopen(t)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.WithoutCancel(t.Context())) }()
	broken := errors.New("no space left on device")
	if err := l.writer.do(func(*tx) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("do answers %v", err)
	}
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("Run answers %v", err)
	}
	if err := l.Enqueue(t.Context(), 1, nil); !errors.Is(err, broken) {
		t.Errorf("Enqueue answers %v", err)
	}
	if err := l.Close(); !errors.Is(err, broken) {
		t.Errorf("Close answers %v", err)
	}
	if err := l.Enqueue(t.Context(), 1, nil); err == nil {
		t.Error("events are taken in after Close")
	}
	s.use(t)
	if n := s.asides(t); n != 0 {
		t.Errorf("%d files were moved aside", n)
	}
}
