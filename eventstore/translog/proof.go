package translog

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// InclusionProof proves that a tree holds an event at a position.
type InclusionProof struct {
	Position eventstore.Position `json:"position"`
	Size     eventstore.Position `json:"size"`
	Hashes   []tlog.Hash         `json:"hashes"`
}

// ConsistencyProof proves that a tree begins with an earlier tree.
type ConsistencyProof struct {
	From   eventstore.Position `json:"from"`
	To     eventstore.Position `json:"to"`
	Hashes []tlog.Hash         `json:"hashes"`
}

// ProveInclusion makes the proof for 1 ≤ position ≤ size from the stored
// hashes of a tree of at least that size.
func ProveInclusion(position, size eventstore.Position, r tlog.HashReader) (InclusionProof, error) {
	if position < 1 || position > size {
		return InclusionProof{}, fmt.Errorf("a tree of %d events holds no position %d", size, position)
	}
	hashes, err := tlog.ProveRecord(int64(size), int64(position)-1, r)
	if err != nil {
		return InclusionProof{}, err
	}
	return InclusionProof{position, size, hashes}, nil
}

// Check returns nil if the proof shows that the checkpoint's tree has the event
// with these stored bytes at the proof's position.
func (p InclusionProof) Check(c Checkpoint, body []byte) error {
	if p.Size != c.Size {
		return fmt.Errorf("the proof is for a tree of %d events, the checkpoint covers %d", p.Size, c.Size)
	}
	err := tlog.CheckRecord(p.Hashes, int64(p.Size), c.Root, int64(p.Position)-1, Leaf(body))
	if err != nil {
		return fmt.Errorf("the log does not hold this event at position %d: %w", p.Position, err)
	}
	return nil
}

// ProveConsistency makes the proof for 1 ≤ from ≤ to from the stored hashes of
// a tree of at least the size to.
func ProveConsistency(from, to eventstore.Position, r tlog.HashReader) (ConsistencyProof, error) {
	if from < 1 || from > to {
		return ConsistencyProof{}, fmt.Errorf("no tree of %d events begins with one of %d", to, from)
	}
	hashes, err := tlog.ProveTree(int64(to), int64(from), r)
	if err != nil {
		return ConsistencyProof{}, err
	}
	return ConsistencyProof{from, to, hashes}, nil
}
