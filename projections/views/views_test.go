package views

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections/projectiontest"
	"payledger/projections/table"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// still is a log that has ended: the views have followed it to its end.
type still struct{}

func (still) Fresh(context.Context, eventstore.Filter) (eventstore.Position, error) {
	return 1 << 62, nil
}
func (still) Wait(context.Context, eventstore.Position) error { return nil }
func (still) Position() eventstore.Position                   { return 0 }
func (still) EventAt(context.Context, eventstore.Position) (eventstore.Stored, domain.Event, error) {
	return eventstore.Stored{}, nil, errors.New("not there")
}

// opened are views over a new file.
func opened(t *testing.T) (*table.DB, *Views, *Writer) {
	t.Helper()
	db := new(table.DB)
	v, w := New(db, still{}, 64)
	must(t, db.Open(filepath.Join(t.TempDir(), "views.db")))
	db.DeferSync()
	t.Cleanup(func() { _ = db.Close() })
	must(t, db.Create(nil))
	return db, v, w
}

// fold folds the whole log; between is called after each event.
func fold(t *testing.T, db *table.DB, writer *Writer, w *projectiontest.World, between func()) {
	t.Helper()
	for r, err := range w.Store.Scan(t.Context(), 0, eventstore.Filter{}) {
		must(t, err)
		event, err := w.Codec.Decode(r)
		must(t, err)
		must(t, writer.Prepare(Decoded{Record: r, Event: event, Leaf: translog.Leaf(r.Body)}))
		db.Lock()
		writer.Fold()
		db.Unlock()
		between()
	}
}

// flush writes everything that was folded.
func flush(t *testing.T, db *table.DB, w *Writer) {
	t.Helper()
	db.Lock()
	w.Apply()
	db.Seal()
	db.Unlock()
	must(t, db.Write(nil))
	db.Lock()
	db.Drop(uint64(w.change.Record.Position))
	db.Unlock()
}

func TestEveryViewIsListed(t *testing.T) {
	t.Parallel()
	db := new(table.DB)
	v, _ := New(db, still{}, 1)
	names := db.Names()
	slices.Sort(names)
	if slices.Contains(names, "meta") || len(slices.Compact(names)) != len(db.Names()) {
		t.Errorf("a table's name is used twice, or is meta: %q", names)
	}
	listed := make(map[uintptr]bool)
	for _, one := range v.ofPayments {
		listed[reflect.ValueOf(one).Pointer()] = true
	}
	for _, one := range v.ofEvents {
		listed[reflect.ValueOf(one).Pointer()] = true
	}
	listed[reflect.ValueOf(v.payments).Pointer()] = true // Fold itself changes it
	for field, value := range reflect.ValueOf(*v).Fields() {
		if value.Kind() != reflect.Pointer {
			continue
		}
		if name, _, _ := strings.Cut(field.Type.Elem().Name(), "["); !strings.HasSuffix(name, "View") && name != "Deliveries" { // [: of type arguments
			continue
		}
		if value.IsNil() || !listed[value.Pointer()] {
			t.Errorf("view %s has no row in New", field.Name)
		}
		delete(listed, value.Pointer())
	}
	if len(listed) > 0 {
		t.Errorf("%d views have no field in Views", len(listed))
	}
}

// TestBatchesLeaveTheSameRows updates the views of payments for few changes at
// once or for many, and in between as reads do.
func TestBatchesLeaveTheSameRows(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 41)
	w.Steps(400)
	var want []byte
	for _, atOnce := range []int{1 << 30, 1, 2, 5, MaxPending} {
		random := rand.New(rand.NewPCG(uint64(atOnce), 41))
		db, v, writer := opened(t)
		writer.MaxPending = atOnce
		fold(t, db, writer, w, func() {
			if n := len(v.pending); n >= atOnce {
				t.Fatalf("%d updates are pending, want fewer than %d", n, atOnce)
			}
			switch random.IntN(40) {
			case 0:
				flush(t, db, writer)
			case 1:
				must(t, v.fresh(t.Context()))
			}
		})
		flush(t, db, writer)
		var got bytes.Buffer
		must(t, db.View(func(tx *bolt.Tx) error {
			for _, name := range db.Names() {
				must(t, tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
					fmt.Fprintf(&got, "%s %x %x\n", name, k, v)
					return nil
				}))
			}
			return nil
		}))
		if want == nil {
			want = got.Bytes()
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d at once lead to other rows", atOnce)
		}
	}
}

// TestFirstChange alters each hash of each stretch, or leaves out every hash from
// it on: the event that completed it is named.
func TestFirstChange(t *testing.T) {
	t.Parallel()
	v := newTranslogView(new(table.DB))
	hashes := make(map[string][]tlog.Hash)
	completed := make(map[string][]uint64) // by key, the event behind each hash
	for at := uint64(1); at <= 4*stretch+3; at++ {
		v.fold(&change{Decoded: Decoded{Record: eventstore.Stored{Position: eventstore.Position(at)}, Leaf: tlog.Hash{byte(at)}}})
		key := stretchKey(at)
		for range v.newest[len(hashes[key]):] {
			completed[key] = append(completed[key], at)
		}
		hashes[key] = v.newest
	}
	for key := range hashes {
		whole := appendHashes(nil, hashes[key])
		for i, at := range completed[key] {
			other := bytes.Clone(whole)
			other[i*tlog.HashSize+31]++
			for what, with := range map[string][]byte{"altered": other, "cut": whole[:i*tlog.HashSize]} {
				if got := FirstChange([]byte(key), append(whole, "a sum"...), append(bytes.Clone(with), "another"...)); got != eventstore.Position(at) {
					t.Errorf("key %x, hash %d %s: event %d, want %d", key, i, what, got, at)
				}
			}
		}
	}
}

// TestTotalsCountEachOnce meets a payment in two lists, as when it moves on
// between them.
func TestTotalsCountEachOnce(t *testing.T) {
	t.Parallel()
	all := totalling{rows: make(map[totalKey]sums), seen: make(map[domain.ID]bool), back: make(map[domain.ID]bool), limit: 2}
	one := facts{amount: 100, currency: "RUB"}
	for i, c := range []struct {
		id     domain.ID
		status domain.PaymentStatus
		want   bool
	}{{domain.ID{1}, domain.Created, true}, {domain.ID{1}, domain.Paid, true}, {domain.ID{2}, domain.Paid, true}, {domain.ID{3}, domain.Paid, false}, {domain.ID{2}, domain.Paid, true}} {
		if got := all.take(c.id, one, c.status); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	for _, s := range []domain.PaymentStatus{domain.Created, domain.Paid} {
		if got := all.rows[totalKey{"RUB", s}]; got.all.Count != 1 || got.all.Sum != domain.SumOf(100) {
			t.Errorf("%s: %+v", s, got)
		}
	}
}

func TestIDRanges(t *testing.T) {
	t.Parallel()
	w := projectiontest.Seeded(t, 1)
	id := w.IDs.Next()
	at := domain.IDTime(id)
	for _, c := range []struct {
		from, to domain.Instant
		before   domain.ID
		want     bool
	}{
		{0, 0, domain.ID{}, true},
		{at, 0, domain.ID{}, true},
		{at + 1, 0, domain.ID{}, false},
		{0, at, domain.ID{}, false},
		{0, at + 1, domain.ID{}, true},
		{0, 0, id, false},
		{at, at + 1, domain.ID{0xff}, true},
		{1 << 60, 0, domain.ID{}, false},
	} {
		if got := idsBetween(c.from, c.to, c.before).has(id); got != c.want {
			t.Errorf("%v: got %v", c, got)
		}
	}
}
