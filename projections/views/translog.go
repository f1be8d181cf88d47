package views

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// stretch is how many events' hashes are kept under one key.
const stretch = 8

// translogView keeps the hashes of the log's Merkle tree in the order in which
// events complete them, which is that of tlog's indexes: for each event the hash
// of its leaf, and then of each subtree that ends with it, by rising level; two
// on average. The key is the last position of a stretch of events as 8 bytes,
// the value the hashes of the stretch so far, one after the other.
type translogView struct {
	*table.Table[[]tlog.Hash]

	db      *table.DB
	edge    translog.Edge // of the tree up to the last event folded; guarded by the DB
	newest  []tlog.Hash   // the hashes of the stretch it ends in, to which the next are appended
	scratch []tlog.Hash
}

func newTranslogView(db *table.DB) *translogView {
	v := &translogView{Table: table.New(db, "translog", appendHashes, parseHashes), db: db}
	v.FillPercent = 1 // keys rise, and seven values fill a page
	return v
}

func (v *translogView) fold(c *change) {
	v.scratch = v.edge.Append(v.scratch[:0], c.Leaf)
	at := uint64(c.Record.Position)
	if at%stretch == 1 {
		v.newest = append(make([]tlog.Hash, 0, 2*stretch+2), v.scratch...)
		v.Insert(stretchKey(at), v.newest)
		return
	}
	v.newest = append(v.newest, v.scratch...)
	v.Replace(stretchKey(at), v.newest)
}

func stretchKey(position uint64) string {
	return uint64Key((position + stretch - 1) / stretch * stretch)
}

func appendHashes(b []byte, hashes []tlog.Hash) []byte {
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}

func parseHashes(b []byte) ([]tlog.Hash, error) {
	if len(b) == 0 || len(b)%tlog.HashSize != 0 {
		return nil, values.ErrLength
	}
	hashes := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range hashes {
		copy(hashes[i][:], b[i*tlog.HashSize:])
	}
	return hashes, nil
}

// nodeAt is where the hash of an index of tlog is stored: with the event at the position, as the
// nth of its stretch.
func nodeAt(index int64) (position uint64, nth int) {
	level, n := tlog.SplitStoredHashIndex(index)
	position = uint64(n+1) << level
	first := int64((position - 1) / stretch * stretch)
	return position, int(index - tlog.StoredHashIndex(0, first))
}

// FirstChange is the position of the first event whose hashes differ between two
// values of the table translog at a key; an empty value has no hashes.
func FirstChange(key, a, b []byte) eventstore.Position {
	last := binary.BigEndian.Uint64(key)
	first := last - stretch + 1
	same := 0
	for n := min(len(a), len(b)); same < n && a[same] == b[same]; {
		same++
	}
	start := tlog.StoredHashIndex(0, int64(first-1))
	for at := first; at < last; at++ {
		if end := tlog.StoredHashIndex(0, int64(at)) - start; int64(same) < end*tlog.HashSize {
			return eventstore.Position(at)
		}
	}
	return eventstore.Position(last)
}

// load reads the tree's edge from an opened file.
func (v *translogView) load(_ context.Context, position eventstore.Position) (err error) {
	if at := uint64(position); at%stretch != 0 {
		newest, err := v.GetAll([]string{stretchKey(at)})
		if err != nil {
			return err
		}
		v.newest = newest[0]
	}
	v.edge, err = translog.OpenEdge(position, v.hashes())
	return err
}

// hashes reads stored hashes by tlog's index.
func (v *translogView) hashes() tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		keys := make([]string, len(indexes))
		for i, index := range indexes {
			at, _ := nodeAt(index)
			keys[i] = stretchKey(at)
		}
		rows, err := v.GetAll(keys)
		if err != nil {
			return nil, err
		}
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			at, nth := nodeAt(index)
			if nth >= len(rows[i]) {
				return nil, v.db.Failed(table.Damage("table translog, position %d: %d hashes, at least %d expected", at, len(rows[i]), nth+1))
			}
			out[i] = rows[i][nth]
		}
		return out, nil
	})
}

// Tree is the Merkle tree over everything the store held when Tree was called,
// or more: how many events there are, and the root hash. It is answered from
// memory.
func (v *Views) Tree(ctx context.Context) (eventstore.Position, tlog.Hash, error) {
	if err := v.fresh(ctx); err != nil {
		return 0, tlog.Hash{}, err
	}
	v.db.RLock()
	edge := v.translog.edge
	v.db.RUnlock()
	return edge.Size(), edge.Root(), nil
}

// BeyondTreeError: the question was about more events than there are.
type BeyondTreeError struct {
	Asked, Size eventstore.Position
}

func (e *BeyondTreeError) Error() string {
	return fmt.Sprintf("the log holds %d events, not %d", e.Size, e.Asked)
}

// within waits until the views reflect every event that the store holds, and
// fails if there are fewer than size.
func (v *Views) within(ctx context.Context, size eventstore.Position) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	if at := v.log.Position(); size > at {
		return &BeyondTreeError{Asked: size, Size: at}
	}
	return nil
}

// RootAt is the root hash of the tree of the log's first events. It does not read the log's last
// position, but waits until the views reflect this many events.
func (v *Views) RootAt(ctx context.Context, size eventstore.Position) (tlog.Hash, error) {
	if err := v.log.Wait(ctx, size); err != nil {
		return tlog.Hash{}, err
	}
	return tlog.TreeHash(int64(size), v.translog.hashes())
}

// Inclusion proves that the tree of this size holds the event at the position,
// for 1 ≤ position ≤ size. The error is a *BeyondTreeError when the log has
// not that many events.
func (v *Views) Inclusion(ctx context.Context, position, size eventstore.Position) (translog.InclusionProof, error) {
	if err := v.within(ctx, size); err != nil {
		return translog.InclusionProof{}, err
	}
	return translog.ProveInclusion(position, size, v.translog.hashes())
}

// Consistency proves that the tree of the size to begins with that of the size
// from, for 1 ≤ from ≤ to. The error is a *BeyondTreeError when the log has not
// that many events.
func (v *Views) Consistency(ctx context.Context, from, to eventstore.Position) (translog.ConsistencyProof, error) {
	if err := v.within(ctx, to); err != nil {
		return translog.ConsistencyProof{}, err
	}
	return translog.ProveConsistency(from, to, v.translog.hashes())
}

// Tile renders a tile of the tree over everything the store held when Tile was
// called, or more. The error is translog.ErrNoTile when it does not reach so
// far.
func (v *Views) Tile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	return translog.ReadTile(t, v.log.Position(), v.translog.hashes())
}
