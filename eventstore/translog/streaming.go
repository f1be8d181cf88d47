package translog

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// Streaming rebuilds the tree from a log that is read once, in order, and
// compares it with checkpoints on its way. It needs memory for the edge alone.
type Streaming struct {
	edge    Edge
	pending []Checkpoint // not reached yet, smallest first
	hashes  []tlog.Hash  // scratch
}

// NewStreaming compares with the checkpoints, which may be of any sizes and in
// any order; their signatures have been checked.
func NewStreaming(checkpoints ...Checkpoint) *Streaming {
	s := &Streaming{pending: slices.Clone(checkpoints)}
	slices.SortStableFunc(s.pending, func(a, b Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	return s
}

// Append adds the stored bytes of the next event. A *MismatchError says that
// the tree differs from a checkpoint of this size; going on is possible.
func (s *Streaming) Append(body []byte) error {
	return s.AppendLeaf(Leaf(body))
}

// AppendLeaf is Append for a leaf hash.
func (s *Streaming) AppendLeaf(leaf tlog.Hash) error {
	if err := s.compare(); err != nil { // with checkpoints of the empty tree
		return err
	}
	s.hashes = s.edge.Append(s.hashes[:0], leaf)
	return s.compare()
}

// Size is how many events were added.
func (s *Streaming) Size() eventstore.Position { return s.edge.Size() }

// Root is the root hash over the events that were added.
func (s *Streaming) Root() tlog.Hash { return s.edge.Root() }

// compare takes out the checkpoints of the present size.
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

// MismatchError: the log's events up to the checkpoint's size are not those
// that were signed for.
type MismatchError struct {
	Checkpoint Checkpoint
	Root       tlog.Hash // what the events add up to
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf(
		"the log was altered: its first %d events have the root hash %s, the signed checkpoint says %s",
		e.Checkpoint.Size, e.Root, e.Checkpoint.Root)
}

// TruncatedError: the log ends before the checkpoint that was signed for it.
type TruncatedError struct {
	Checkpoint Checkpoint
	Size       eventstore.Position // how many events there are
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("the log was truncated: it holds %d events, a checkpoint was signed for %d", e.Size, e.Checkpoint.Size)
}
