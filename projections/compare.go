package projections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Comparison says how the views' file and a replay of the log to the same
// position differ.
type Comparison struct {
	Position eventstore.Position `json:"position"` // that the file stands for
	Last     eventstore.Position `json:"last"`     // of the log
	Keys     uint64              `json:"keys"`     // that were compared
	// Missing, Other and Damage are why nothing, or not all, was compared:
	// there is no file; it is of another log or of other views and will be
	// rebuilt; it is damaged.
	Missing bool   `json:"missing,omitempty"`
	Other   bool   `json:"other,omitempty"`
	Damage  string `json:"damage,omitempty"`
	// Differences are the first of each view.
	Differences []Difference `json:"differences"`
}

// Difference is a key of a view that the log leads to and the file has not,
// has and the log does not lead to, or has with another value. Event is the
// position of the event it is about, where the view tells; 0 elsewhere.
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

// Compare compares the views as they are now with a replay of the log to the
// same position, byte for byte. It takes about as long as a rebuild; commits
// and reads go on.
func (e *Engine) Compare(ctx context.Context, progress func(done, total eventstore.Position)) (Comparison, error) {
	if err := e.fresh(ctx); err != nil {
		return Comparison{}, err
	}
	if err := e.flush(); err != nil {
		return Comparison{}, err
	}
	c := Config{Store: e.store, Codec: e.codec, LogID: e.log, Progress: progress}
	if err := e.db.Check(boltfile.Check{Pace: ctx.Err}); boltfile.Damaged(err) {
		return Comparison{Damage: err.Error(), Differences: []Difference{}}, nil
	}
	return compareFile(ctx, e.db, c)
}

// Compare compares a views' file that no engine has open with a replay of the
// log. The file is only read.
func Compare(ctx context.Context, c Config) (Comparison, error) {
	if _, err := os.Stat(c.Path); errors.Is(err, os.ErrNotExist) {
		return Comparison{Missing: true, Differences: []Difference{}}, nil
	}
	db, err := boltfile.Open(c.Path, boltfile.Options{ReadOnly: true, AtOnce: math.MaxUint64})
	switch {
	case errors.Is(err, boltfile.ErrLocked):
		return Comparison{}, fmt.Errorf("the views' file %s is in use by another process", c.Path)
	case boltfile.Damaged(err):
		return Comparison{Damage: err.Error(), Differences: []Difference{}}, nil
	case err != nil:
		return Comparison{}, err
	}
	defer db.Close() //nolint:errcheck // only read
	return compareFile(ctx, db, c)
}

func compareFile(ctx context.Context, db *boltfile.File, c Config) (out Comparison, err error) {
	out.Differences = []Difference{}
	if out.Last, err = c.Store.Last(ctx); err != nil {
		return out, err
	}
	err = closed(db.View(func(tx *bolt.Tx) error { return compareSnapshot(ctx, tx, c, &out) }))
	if damaged, ok := errors.AsType[*damage](err); ok {
		out.Damage, err = damaged.Reason, nil
	}
	return out, err
}

func compareSnapshot(ctx context.Context, tx *bolt.Tx, c Config, out *Comparison) error {
	stands, err := readCheckpoint(tx)
	if err != nil {
		return err
	}
	out.Position = stands.Position
	all := newViews().all()
	if stands.Log != c.LogID || stands.Views != shapes(all) {
		out.Other = true
		return nil
	}
	if out.Ahead() {
		return nil
	}
	dir, err := os.MkdirTemp("", "payledger-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	c.Path, c.Store = filepath.Join(dir, "projections.db"), prefix{c.Store, stands.Position}
	e, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer e.Close() //nolint:errcheck // temporary
	if err := e.flush(); err != nil {
		return err
	}
	return e.db.View(func(replayed *bolt.Tx) error {
		for _, v := range all {
			d, err := compareView(ctx, v.bucket(), tx, replayed, out)
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

// compareView answers the first difference of a view, nil for none.
func compareView(ctx context.Context, name string, file, replayed *bolt.Tx, out *Comparison) (*Difference, error) {
	b := file.Bucket([]byte(name))
	if b == nil {
		return nil, &damage{Reason: "view " + name + " is missing"}
	}
	have, want := b.Cursor(), replayed.Bucket([]byte(name)).Cursor()
	k1, v1 := have.First()
	k2, v2 := want.First()
	for k1 != nil || k2 != nil {
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
	return nil, nil
}

func difference(view string, key, have, want []byte, what string) *Difference {
	d := &Difference{View: view, Key: fmt.Sprintf("%x", key), What: what}
	if view == "translog" && len(key) == 8 {
		d.Event = firstChange(key, have, want)
	}
	return d
}
