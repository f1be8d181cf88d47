package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections"
	"payledger/projections/projectiontest"
)

func config(tb testing.TB, w *projectiontest.World) projections.Config {
	tb.Helper()
	return projections.Config{
		Path: filepath.Join(tb.TempDir(), "projections.db"), Store: w.Store, Codec: w.Codec, LogID: w.LogID, FlushEvery: time.Hour,
	}
}

func open(tb testing.TB, c projections.Config) *projections.Engine {
	tb.Helper()
	e, err := projections.Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// run lets an engine follow the log; stop ends that and answers what Run
// answered.
func run(tb testing.TB, e *projections.Engine) (stop func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	tb.Cleanup(cancel)
	return func() error {
		cancel()
		return <-ended
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 7)
	w.Steps(300)
	c := config(t, w)
	e := open(t, c)
	stop := run(t, e)
	w.Steps(200)

	live, err := Live(t.Context(), e, nil)
	if err != nil || !live.Same() || live.Position != w.Last() || live.Keys == 0 {
		t.Fatalf("%+v, %v", live, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	stopped, err := File(t.Context(), c)
	if err != nil || !stopped.Same() || stopped.Position != live.Position || stopped.Keys != live.Keys {
		t.Errorf("%+v, live %+v, %v", stopped, live, err)
	}
	// A file that lags behind is compared as far as it goes.
	w.Steps(50)
	if behind, err := File(t.Context(), c); err != nil || !behind.Same() || behind.Last != w.Last() || behind.Position != live.Position {
		t.Errorf("%+v, %v", behind, err)
	}
}

// TestCompareFindsEveryDifference spoils each view in each way.
func TestCompareFindsEveryDifference(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 8)
	w.Steps(400)
	w.Deliver()
	w.Report()
	c := config(t, w)
	e := open(t, c)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	clean, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range e.Tables() {
		for what, spoil := range map[string]func(b *bolt.Bucket, k, v []byte) error{
			"the log leads to another value": func(b *bolt.Bucket, k, v []byte) error {
				v = append([]byte(nil), v...)
				v[0] ^= 1
				return b.Put(k, v)
			},
			"it is missing":               func(b *bolt.Bucket, k, _ []byte) error { return b.Delete(k) },
			"the log does not lead to it": func(b *bolt.Bucket, k, v []byte) error { return b.Put(append(k, 0), v) },
		} {
			if err := os.WriteFile(c.Path, clean, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := bolt.Open(c.Path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(name))
				k, raw := b.Cursor().Last()
				if k == nil {
					t.Fatalf("view %s is empty: the test needs more events", name)
				}
				return spoil(b, append([]byte(nil), k...), raw)
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := File(t.Context(), c)
			if err != nil || got.Same() || len(got.Differences) != 1 || got.Differences[0].View != name || got.Differences[0].What != what {
				t.Errorf("%s: %s: %+v, %v", name, what, got, err)
			}
			if d := got.Differences; name == "translog" && len(d) == 1 && what == "it is missing" && d[0].Event != (w.Last()-1)/8*8+1 {
				t.Errorf("event %d is not the first of the last 8 of %d", d[0].Event, w.Last())
			}
		}
	}
}

func TestCompareTellsWhyNot(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 9)
	w.Steps(100)
	fresh := func() projections.Config {
		c := config(t, w)
		if err := open(t, c).Close(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	missing := config(t, w)
	if got, err := File(t.Context(), missing); err != nil || !got.Missing || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(missing.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("comparing made a file: %v", err)
	}
	other := fresh()
	other.LogID = w.IDs.Next()
	if got, err := File(t.Context(), other); err != nil || !got.Other || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	short := fresh()
	if err := os.Truncate(short.Path, 8192); err != nil {
		t.Fatal(err)
	}
	if got, err := File(t.Context(), short); err != nil || got.Damage == "" || got.Same() {
		t.Errorf("%+v, %v", got, err)
	}
	ahead := fresh()
	ahead.Store = shorter{w.Store, w.Last() - 3}
	if got, err := File(t.Context(), ahead); err != nil || !got.Ahead() || got.Same() || got.Position != w.Last() {
		t.Errorf("%+v, %v", got, err)
	}
	broken := fresh()
	w.Store.Damage(5)
	defer w.Store.Damage(5)
	var corrupt *eventstore.CorruptError
	if _, err := File(t.Context(), broken); !errors.As(err, &corrupt) || corrupt.Position != 5 {
		t.Errorf("%v", err)
	}
}

// shorter is a store that says that it ends at a position.
type shorter struct {
	eventstore.Store
	end eventstore.Position
}

func (s shorter) Last(context.Context) (eventstore.Position, error) { return s.end, nil }

// TestReplay gives every payment the state it had at each position.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 10)
	type past struct {
		at     eventstore.Position
		states map[domain.ID]domain.PaymentStatus
		time   domain.Instant

		projects int
	}
	var all []past
	for range 6 {
		w.Steps(40)
		p := past{at: w.Last(), states: make(map[domain.ID]domain.PaymentStatus), time: domain.InstantOf(w.Now), projects: len(w.Projects)}
		for id, s := range w.Payments {
			p.states[id] = s.Status
		}
		all = append(all, p)
		w.Now = w.Now.Add(1e9)
	}
	for _, p := range all {
		r, err := Replay(t.Context(), w.Ledger(), p.at, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = r.EachPayment(t.Context(), func(got domain.Payment) error {
			if n++; got.Status != p.states[got.ID] {
				t.Errorf("at %d: payment %s is %s, want %s", p.at, got.ID, got.Status, p.states[got.ID])
			}
			one, ok, err := PaymentAsOf(t.Context(), w.Ledger(), got.ID, p.at, nil)
			if err != nil || !ok || !reflect.DeepEqual(one, got) {
				t.Errorf("%+v, alone %+v, %t, %v", got, one, ok, err)
			}
			return nil
		})
		if err != nil || n != len(p.states) || r.Position() != p.at {
			t.Errorf("at %d: %d payments, want %d, %v", p.at, n, len(p.states), err)
		}
		if projects, err := r.Projects(t.Context()); len(projects) != p.projects || err != nil {
			t.Errorf("%d projects, want %d, %v", len(projects), p.projects, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the replay's files are still there: %v", err)
		}
		if at, err := PositionAsOf(t.Context(), w.Store, p.time); err != nil || at != p.at {
			t.Errorf("as of %s: position %d, want %d, %v", p.time, at, p.at, err)
		}
	}
	if _, ok, err := PaymentAsOf(t.Context(), w.Ledger(), w.IDs.Next(), w.Last(), nil); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}
