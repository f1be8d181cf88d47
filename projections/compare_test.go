package projections

import (
	"errors"
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	w := seeded(t, 7).steps(300)
	c := w.config(t.TempDir())
	e := open(t, c)
	stop := run(t, e)
	w.steps(200)

	live, err := e.Compare(t.Context(), nil)
	if err != nil || !live.Same() || live.Position != w.last() || live.Keys == 0 {
		t.Fatalf("%+v, %v", live, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, err := Compare(t.Context(), c)
	if err != nil || !stopped.Same() || stopped.Position != live.Position || stopped.Keys != live.Keys {
		t.Errorf("%+v, live %+v, %v", stopped, live, err)
	}
	// A file that lags behind is compared as far as it goes.
	w.steps(50)
	if behind, err := Compare(t.Context(), c); err != nil || !behind.Same() || behind.Last != w.last() || behind.Position != live.Position {
		t.Errorf("%+v, %v", behind, err)
	}
}

// TestCompareFindsEveryDifference spoils each view in each way.
func TestCompareFindsEveryDifference(t *testing.T) {
	t.Parallel()
	w := seeded(t, 8).steps(400)
	c := w.config(t.TempDir())
	if err := open(t, c).Close(); err != nil {
		t.Fatal(err)
	}
	clean, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range newViews().all() {
		for what, spoil := range map[string]func(b *bolt.Bucket, k, v []byte) error{
			"the log leads to another value": func(b *bolt.Bucket, k, v []byte) error {
				v = append([]byte(nil), v...)
				v[0] ^= 1
				return b.Put(k, seal("other", k, v[:len(v)-sumSize]))
			},
			"it is missing":               func(b *bolt.Bucket, k, _ []byte) error { return b.Delete(k) },
			"the log does not lead to it": func(b *bolt.Bucket, k, v []byte) error { return b.Put(append(k, 0), v) },
		} {
			if err := os.WriteFile(c.Path, clean, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := openFile(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(v.bucket()))
				k, raw := b.Cursor().Last()
				if k == nil {
					t.Fatalf("view %s is empty: the test needs more events", v.bucket())
				}
				return spoil(b, append([]byte(nil), k...), raw)
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := Compare(t.Context(), c)
			if err != nil || got.Same() || len(got.Differences) != 1 || got.Differences[0].View != v.bucket() || got.Differences[0].What != what {
				t.Errorf("%s: %s: %+v, %v", v.bucket(), what, got, err)
			}
			if d := got.Differences; v.bucket() == "translog" && len(d) == 1 && what == "it is missing" && d[0].Event != (w.last()-1)/stretch*stretch+1 {
				t.Errorf("event %d is not the first of the last %d of %d", d[0].Event, stretch, w.last())
			}
		}
	}
}

func TestCompareTellsWhyNot(t *testing.T) {
	t.Parallel()
	w := seeded(t, 9).steps(100)
	fresh := func() Config {
		c := w.config(t.TempDir())
		if err := open(t, c).Close(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	missing := w.config(t.TempDir())
	if got, err := Compare(t.Context(), missing); err != nil || !got.Missing || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(missing.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("comparing made a file: %v", err)
	}
	other := fresh()
	other.LogID = w.ids.Next()
	if got, err := Compare(t.Context(), other); err != nil || !got.Other || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	short := fresh()
	if err := os.Truncate(short.Path, 8192); err != nil {
		t.Fatal(err)
	}
	if got, err := Compare(t.Context(), short); err != nil || got.Damage == "" || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	ahead := fresh()
	ahead.Store = prefix{w.store, w.last() - 3}
	if got, err := Compare(t.Context(), ahead); err != nil || !got.Ahead() || got.Same() || got.Position != w.last() {
		t.Errorf("%+v, %v", got, err)
	}
	broken := fresh()
	w.store.Damage(5)
	defer w.store.Damage(5)
	var corrupt *eventstore.CorruptError
	if _, err := Compare(t.Context(), broken); !errors.As(err, &corrupt) || corrupt.Position != 5 {
		t.Errorf("%v", err)
	}
}

// TestReplay gives every payment the state it had at each position.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := seeded(t, 10)
	type past struct {
		at     eventstore.Position
		states map[domain.ID]domain.PaymentStatus
		time   domain.Instant
	}
	var all []past
	for range 6 {
		w.steps(40)
		p := past{at: w.last(), states: make(map[domain.ID]domain.PaymentStatus), time: domain.InstantOf(w.now)}
		for id, s := range w.payments {
			p.states[id] = s.Status
		}
		all = append(all, p)
		w.now = w.now.Add(1e9)
	}
	for i, p := range all {
		// One and two rows: payments are laid down and taken up all the time.
		r, err := replay(t.Context(), w.ledger(), p.at, nil, []int{1, 2, replayedRows}[i%3])
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = r.EachPayment(t.Context(), func(got domain.Payment) error {
			if n++; got.Status != p.states[got.ID] {
				t.Errorf("at %d: payment %s is %s, want %s", p.at, got.ID, got.Status, p.states[got.ID])
			}
			one, ok, err := PaymentAsOf(t.Context(), w.ledger(), got.ID, p.at, nil)
			if err != nil || !ok || !reflect.DeepEqual(one, got) {
				t.Errorf("%+v, alone %+v, %t, %v", got, one, ok, err)
			}
			return nil
		})
		if err != nil || n != len(p.states) || r.Position() != p.at {
			t.Errorf("at %d: %d payments, want %d, %v", p.at, n, len(p.states), err)
		}
		if projects := r.Projects(); len(projects) != len(w.projects) {
			t.Errorf("%d projects, want %d", len(projects), len(w.projects))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the replay's files are still there: %v", err)
		}
		if at, err := PositionAsOf(t.Context(), w.store, p.time); err != nil || at != p.at {
			t.Errorf("as of %s: position %d, want %d, %v", p.time, at, p.at, err)
		}
	}
	if _, ok, err := PaymentAsOf(t.Context(), w.ledger(), w.ids.Next(), w.last(), nil); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReplay is to be compared with BenchmarkRebuild.
func BenchmarkReplay(b *testing.B) {
	w := seeded(b, 1)
	besideDecoding(b, w, records(b, w, 20_000), func() {
		r, err := Replay(b.Context(), w.ledger(), w.last(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
