package translog

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// Streaming rebuilds the tree from a log that is read once, in order, and
// compares it with checkpoints as it grows. It keeps only the edge of the tree.
type Streaming struct {
	edge    Edge
	pending []Checkpoint // not reached yet, smallest first
	hashes  []tlog.Hash  // scratch
}

// NewStreaming returns an empty tree to compare with the checkpoints, in any
// order. The caller has checked their signatures.
func NewStreaming(checkpoints ...Checkpoint) *Streaming {
	s := &Streaming{pending: slices.Clone(checkpoints)}
	slices.SortStableFunc(s.pending, func(a, b Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	return s
}

// Append adds the stored bytes of the next event. A *MismatchError says that the
// tree differs from a checkpoint; more events can be appended after it.
func (s *Streaming) Append(body []byte) error { return s.AppendLeaf(Leaf(body)) }

// AppendLeaf is Append for an event of which only the leaf's hash is known.
func (s *Streaming) AppendLeaf(leaf tlog.Hash) error {
	before := s.compare() // with checkpoints of the empty tree
	s.hashes = s.edge.Append(s.hashes[:0], leaf)
	return cmp.Or(before, s.compare())
}

// Size is the number of appended events.
func (s *Streaming) Size() eventstore.Position { return s.edge.Size() }

// Root is the root hash over the appended events.
func (s *Streaming) Root() tlog.Hash { return s.edge.Root() }

// compare removes the checkpoints of the current size and compares them.
func (s *Streaming) compare() error {
	var mismatch error
	for len(s.pending) > 0 && s.pending[0].Size == s.Size() {
		c := s.pending[0]
		s.pending = s.pending[1:]
		if root := s.Root(); root != c.Root {
			mismatch = &MismatchError{Checkpoint: c, Root: root}
		}
	}
	return mismatch
}

// MismatchError: the log's events up to the checkpoint's size are not the signed
// ones.
type MismatchError struct {
	Checkpoint Checkpoint
	Root       tlog.Hash // of the log's events
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf(
		"the log was altered: its first %d events have the root hash %s, the signed checkpoint says %s",
		e.Checkpoint.Size, e.Root, e.Checkpoint.Root)
}

// TruncatedError: the log is shorter than a checkpoint of it.
type TruncatedError struct {
	Checkpoint Checkpoint
	Size       eventstore.Position // of the log
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("the log was truncated: it holds %d events, a checkpoint was signed for %d", e.Size, e.Checkpoint.Size)
}
