package translog

import (
	"crypto/sha256"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// Leaf is the leaf hash of an event's stored bytes.
func Leaf(body []byte) tlog.Hash { return tlog.RecordHash(body) }

// LeafOf is the leaf hash of a record, which may be an opaque one.
func LeafOf(r eventstore.Stored) tlog.Hash {
	if leaf, opaque := r.OpaqueLeaf(); opaque {
		return tlog.Hash(leaf)
	}
	return Leaf(r.Body)
}

// Edge is the right edge of a growing tree: the roots of its complete subtrees,
// one for each bit set in its size. That is enough to append leaves and to
// compute the root. The zero Edge is the empty tree; copies are independent.
type Edge struct {
	size  int64
	nodes [63]tlog.Hash // by level; valid if size has the level's bit
}

// OpenEdge reads the edge of a tree of this size from its stored hashes.
func OpenEdge(size eventstore.Position, r tlog.HashReader) (Edge, error) {
	e := Edge{size: int64(size)}
	var indexes []int64
	var levels []int
	for level := range e.nodes {
		if e.size>>level&1 != 0 {
			levels = append(levels, level)
			indexes = append(indexes, tlog.StoredHashIndex(level, e.size>>level-1))
		}
	}
	hashes, err := r.ReadHashes(indexes)
	if err != nil {
		return Edge{}, err
	}
	if len(hashes) != len(indexes) {
		return Edge{}, fmt.Errorf("the tree's edge has %d hashes, %d were read", len(indexes), len(hashes))
	}
	for i, level := range levels {
		e.nodes[level] = hashes[i]
	}
	return e, nil
}

// Append adds the next leaf. It appends to dst the hashes to store for the leaf,
// as tlog.StoredHashesForRecordHash returns them: its own and those of the
// subtrees it completes. They are stored from index
// tlog.StoredHashIndex(0, size before Append) on.
func (e *Edge) Append(dst []tlog.Hash, leaf tlog.Hash) []tlog.Hash {
	h := leaf
	dst = append(dst, h)
	level := 0
	for ; e.size>>level&1 != 0; level++ {
		h = tlog.NodeHash(e.nodes[level], h)
		dst = append(dst, h)
	}
	e.nodes[level] = h
	e.size++
	return dst
}

// Size is the number of leaves.
func (e *Edge) Size() eventstore.Position { return eventstore.Position(e.size) }

// Root is the tree's root hash.
func (e *Edge) Root() tlog.Hash {
	if e.size == 0 {
		return sha256.Sum256(nil)
	}
	level := bits.TrailingZeros64(uint64(e.size))
	h := e.nodes[level]
	for level++; e.size>>level != 0; level++ {
		if e.size>>level&1 != 0 {
			h = tlog.NodeHash(e.nodes[level], h)
		}
	}
	return h
}
