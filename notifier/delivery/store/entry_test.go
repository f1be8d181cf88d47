package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	bbolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"payledger/domain"
)

// openFile opens a fresh file.
func openFile(t *testing.T) *File {
	t.Helper()
	o, _ := options(t)
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Abandon() })
	return f
}

// rows are a file's rows but those that are its own.
func rows(t *testing.T, f *File) string {
	t.Helper()
	var all bytes.Buffer
	err := f.db.View(func(btx *bbolt.Tx) error {
		for i, b := range tablesOf(btx).all() {
			err := b.ForEach(func(k, v []byte) error {
				if i > 0 || !bytes.HasPrefix(k, []byte(keyEpoch)) && string(k) != keyBase {
					fmt.Fprintf(&all, "%d %x %x\n", i, k, v)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Entries make another file the same.
func TestEntriesMakeTheSameFile(t *testing.T) {
	t.Parallel()
	leads, follows := openFile(t), openFile(t)
	at := Place{Number: 3}
	leads.Share(func(e []byte) (Place, error) {
		at.Number, at.Sum[0] = at.Number+2, at.Sum[0]+1
		return at, follows.Apply(at, e)
	})
	now := domain.Instant(1000)
	rapid.Check(t, func(r *rapid.T) {
		now++
		payment := domain.ID{15: rapid.Byte().Draw(r, "payment")}
		event := domain.ID{1, 15: rapid.Byte().Draw(r, "event")}
		err := leads.Update(now, func(x *Tx) error {
			l, err := x.Lane(1, payment)
			if err != nil {
				return err
			}
			if rapid.Bool().Draw(r, "enqueues") {
				l.Enqueue(Entry{Sequence: l.Newest + 1, Event: event, Final: true}, now)
			} else if len(l.Line) > 0 {
				l.Leave(l.Line[0].Event, now)
			}
			x.SaveLane(l)
			before := domain.DeliveryState("")
			if d, ok, err := x.Record(1, event); ok || err != nil {
				if err != nil {
					return err
				}
				before = d.State
			}
			states := []domain.DeliveryState{domain.DeliveryPending, domain.DeliveryDelivered, domain.DeliveryGivenUp}
			x.PutRecord(1, Record{Event: event, Payment: payment, Kind: domain.KindPaymentCreated, State: rapid.SampledFrom(states).Draw(r, "state")}, before)
			x.PutEndpoint(1, "prj", "we_1", Tally{Pending: 1})
			x.SetAfter(7)
			x.SetRequestsUnknown(true)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if a, b := rows(t, leads), rows(t, follows); a != b || len(a) < 200 {
		t.Errorf("the file that leads\n%s\nthe one that follows\n%s", a, b)
	}
	for _, f := range []*File{leads, follows} {
		if got, err := f.Shared(); err != nil || got != at {
			t.Errorf("the file is at %v, %v, want %v", got, err, at)
		}
	}
	was := at
	if err := leads.Close(now); err != nil || at != was {
		t.Errorf("closing was shared, %v", err)
	}
}

// A node that has no lane file, or one that is too far behind, goes on with a copy of
// another one's.
func TestAdopt(t *testing.T) {
	t.Parallel()
	from := openFile(t)
	if err := from.Apply(Place{Number: 7, Sum: [8]byte{1}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := from.Update(5, func(x *Tx) error { x.SetAfter(0); x.PutEndpoint(1, "prj", "we_1", Tally{Pending: 3}); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, had := range []bool{false, true} {
		o, log := options(t)
		if had {
			own, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := own.Close(0); err != nil {
				t.Fatal(err)
			}
		}
		copied := o.Path + ".copy"
		to, err := os.Create(copied)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.WriteTo(to); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		other := o
		other.LogID = domain.ID{9}
		if err := Adopt(other, copied); err == nil {
			t.Error("the file of another log was taken")
		}
		if err := Adopt(o, copied); err != nil {
			t.Fatal(err)
		}
		f, err := Open(t.Context(), o)
		if err != nil || log.Len() > 0 {
			t.Fatalf("%v; logged: %s", err, log)
		}
		if a, b := rows(t, from), rows(t, f); a != b {
			t.Errorf("the copy has\n%s\nwant\n%s", b, a)
		}
		if err := f.Close(0); err != nil {
			t.Fatal(err)
		}
	}
}

// What the other nodes may not have is in this file neither.
func TestChangeThatIsNotShared(t *testing.T) {
	t.Parallel()
	f := openFile(t)
	before := rows(t, f)
	lost := errors.New("no majority")
	f.Share(func([]byte) (Place, error) { return Place{}, lost })
	err := f.Update(5, func(x *Tx) error {
		x.SetAfter(9)
		return nil
	})
	if after := rows(t, f); !errors.Is(err, lost) || after != before {
		t.Errorf("%v, the file has\n%s\nwant\n%s", err, after, before)
	}
}

func TestEntriesOutOfOrder(t *testing.T) {
	t.Parallel()
	f := openFile(t)
	if err := f.Apply(Place{Number: 5}, nil); err != nil {
		t.Fatal(err)
	}
	for _, number := range []uint64{0, 4, 5} {
		if err := f.Apply(Place{Number: number}, nil); err == nil {
			t.Errorf("entry %d was written after entry 5", number)
		}
	}
}

func FuzzEntry(f *testing.F) {
	o := bbolt.DefaultOptions
	path := f.TempDir() + "/f.db"
	if err := writeFresh(path, domain.ID{1}, epoch{}, epoch{}, 0, 0); err != nil {
		f.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add([]byte("\x01\x00\x01k\x02v"))
	f.Add([]byte("\x01\x03\x01k\x00\x03\x01k\x01"))
	f.Add([]byte("\x01\x07\x01k\x00"))
	f.Add([]byte("\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01k"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tx, err := db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := tablesOf(tx).write(b); err == nil && len(b) > 0 && b[0] != entryFormat {
			t.Errorf("an entry of format %d was taken", b[0])
		}
	})
}
