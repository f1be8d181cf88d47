package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections"
	"payledger/projections/table"
	"payledger/projections/views"
)

// Comparison says how the views' file and a rebuild from the log up to the same
// position differ.
type Comparison struct {
	Position eventstore.Position `json:"position"` // that the file reflects
	Last     eventstore.Position `json:"last"`     // of the log
	Keys     uint64              `json:"keys"`     // that were compared
	// Missing, Other and Damage are why nothing, or not everything, was compared:
	// there is no file; it is of another log or format and will be
	// rebuilt; it is damaged.
	Missing bool   `json:"missing,omitempty"`
	Other   bool   `json:"other,omitempty"`
	Damage  string `json:"damage,omitempty"`
	// Differences are the first of each view.
	Differences []Difference `json:"differences"`
}

// Difference is a key of a view that the file lacks, that it must not have, or
// that it has with a wrong value. Event is the position of the event it is about,
// where the view shows that; 0 elsewhere.
type Difference struct {
	View  string              `json:"view"`
	Key   string              `json:"key"` // hexadecimal
	What  string              `json:"what"`
	Event eventstore.Position `json:"event,omitempty"`
}

// Ahead reports whether the file has seen events that the log does not hold.
func (c Comparison) Ahead() bool { return c.Position > c.Last }

// Same reports whether the whole file is what the log leads to.
func (c Comparison) Same() bool {
	return !c.Missing && !c.Other && c.Damage == "" && !c.Ahead() && len(c.Differences) == 0
}

// Live compares the views of a running engine, as they are now, with a rebuild from the log up to
// the same position, byte for byte. It takes about as long as a rebuild; commits and reads
// continue.
func Live(ctx context.Context, e *projections.Engine, progress func(done, total eventstore.Position)) (Comparison, error) {
	c := e.Config()
	c.Progress = progress
	return compare(ctx, c, func(fn func(*bolt.Tx) error) error { return e.Snapshot(ctx, fn) })
}

// File compares a views' file that no engine has open with a rebuild from the
// log. The file is only read.
func File(ctx context.Context, c projections.Config) (Comparison, error) {
	if _, err := os.Stat(c.Path); errors.Is(err, os.ErrNotExist) {
		return Comparison{Missing: true, Differences: []Difference{}}, nil
	}
	var db table.DB
	return compare(ctx, c, func(fn func(*bolt.Tx) error) error {
		if err := db.OpenForReading(c.Path); err != nil {
			return err
		}
		defer db.Close() //nolint:errcheck // only read
		return db.View(fn)
	})
}

// compare compares the file that view reads.
func compare(ctx context.Context, c projections.Config, view func(func(*bolt.Tx) error) error) (out Comparison, err error) {
	out.Differences = []Difference{}
	err = view(func(tx *bolt.Tx) error {
		if out.Last, err = c.Store.Last(ctx); err != nil {
			return err
		}
		return compareSnapshot(ctx, tx, c, &out)
	})
	if damaged, ok := errors.AsType[*table.DamagedError](err); ok {
		out.Damage, err = damaged.Reason, nil
	}
	return out, err
}

func compareSnapshot(ctx context.Context, tx *bolt.Tx, c projections.Config, out *Comparison) error {
	checkpoint, err := projections.ReadCheckpoint(tx)
	if err != nil {
		return err
	}
	out.Position = checkpoint.Position
	if checkpoint.Format != views.Format || checkpoint.Log != c.LogID {
		out.Other = true
		return nil
	}
	if out.Ahead() {
		return nil
	}
	rebuilt, err := rebuild(ctx, c, checkpoint.Position)
	if err != nil {
		return err
	}
	defer rebuilt.Close() //nolint:errcheck // temporary
	erased, err := erasedAfter(ctx, c.Store, checkpoint.Position)
	if err != nil {
		return err
	}
	return rebuilt.Snapshot(ctx, func(want *bolt.Tx) error {
		for _, name := range rebuilt.Tables() {
			d, err := compareTable(ctx, name, tx, want, erased, out)
			if err != nil {
				return err
			}
			if d != nil {
				out.Differences = append(out.Differences, *d)
			}
		}
		return nil
	})
}

// erasedIDs are the ids of payments whose details the file still has, because they were erased after
// its last event. A rebuild cannot have them.
type erasedIDs map[domain.ID]bool

func erasedAfter(ctx context.Context, s eventstore.Store, at eventstore.Position) (erasedIDs, error) {
	all := make(erasedIDs)
	for r, err := range s.Scan(ctx, at, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return nil, err
		}
		if id, ok := domain.ParseID(r.Stream.ID); ok && r.Erases {
			all[id] = true
		}
	}
	return all, nil
}

// next is the cursor's next row that can be compared, from a row on.
func (e erasedIDs) next(table string, c *bolt.Cursor, k, v []byte) ([]byte, []byte) {
	switch table {
	case "payments", "payments_by_description", "payments_by_term":
	default:
		return k, v
	}
	for len(k) >= len(domain.ID{}) && e[domain.ID(k[len(k)-len(domain.ID{}):])] {
		k, v = c.Next()
	}
	return k, v
}

// compareTable returns the first difference of a table, nil for none.
func compareTable(ctx context.Context, name string, file, rebuilt *bolt.Tx, erased erasedIDs, out *Comparison) (*Difference, error) {
	b := file.Bucket([]byte(name))
	if b == nil {
		return nil, table.Damage("table %s is missing", name)
	}
	have, want := b.Cursor(), rebuilt.Bucket([]byte(name)).Cursor()
	k1, v1 := have.First()
	k2, v2 := want.First()
	for {
		k1, v1 = erased.next(name, have, k1, v1)
		k2, v2 = erased.next(name, want, k2, v2)
		if k1 == nil && k2 == nil {
			return nil, nil
		}
		if out.Keys++; out.Keys%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		order := bytes.Compare(k1, k2)
		switch {
		case k2 == nil || (k1 != nil && order < 0):
			return difference(name, k1, v1, nil, "the log does not lead to it"), nil
		case k1 == nil || order > 0:
			return difference(name, k2, nil, v2, "it is missing"), nil
		case !bytes.Equal(v1, v2):
			return difference(name, k1, v1, v2, "the log leads to another value"), nil
		}
		k1, v1 = have.Next()
		k2, v2 = want.Next()
	}
}

func difference(view string, key, have, want []byte, what string) *Difference {
	d := &Difference{View: view, Key: fmt.Sprintf("%x", key), What: what}
	if view == "translog" && len(key) == 8 {
		d.Event = views.FirstChange(key, have, want)
	}
	return d
}
