package salvage

import (
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// tree is the Merkle tree over the events so far, in some leaves of which the
// choice is open. It is made of complete subtrees, the largest first; those
// without an open choice are their hash alone.
type tree struct {
	edge []subtree
	size eventstore.Position
}

type subtree struct {
	hash tlog.Hash
	open *node // nil: hash counts
}

// node is a subtree with an open choice below it.
type node struct {
	left, right subtree
	leaf        *choice // of a leaf; left and right are not used
}

// choice is what may stand at a position.
type choice struct {
	position eventstore.Position
	leaves   []tlog.Hash
	from     [][]int // sources of each
	sole     int     // index of the only one that was acknowledged, -1 for none
	taken    int     // index of the one that is taken
	proved   bool
}

func (t *tree) append(leaf tlog.Hash) { t.add(subtree{hash: leaf}) }

func (t *tree) appendChoice(c *choice) { t.add(subtree{open: &node{leaf: c}}) }

func (t *tree) add(s subtree) {
	for range bits.TrailingZeros64(^uint64(t.size)) {
		n := len(t.edge) - 1
		s = join(t.edge[n], s)
		t.edge = t.edge[:n]
	}
	t.edge = append(t.edge, s)
	t.size++
}

func join(l, r subtree) subtree {
	if l.open == nil && r.open == nil {
		return subtree{hash: tlog.NodeHash(l.hash, r.hash)}
	}
	return subtree{open: &node{left: l, right: r}}
}

// root is the root hash with the choices as they are taken now.
func (t *tree) root() tlog.Hash {
	n := len(t.edge)
	if n == 0 {
		root, _ := tlog.TreeHash(0, nil) // of nothing
		return root
	}
	h := t.edge[n-1].value()
	for i := n - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.edge[i].value(), h)
	}
	return h
}

func (s subtree) value() tlog.Hash {
	switch {
	case s.open == nil:
		return s.hash
	case s.open.leaf != nil:
		return s.open.leaf.leaves[s.open.leaf.taken]
	}
	return tlog.NodeHash(s.open.left.value(), s.open.right.value())
}

// maxTries bounds how many ways to choose are tried for one checkpoint.
const maxTries = 1 << 14

// settle looks for the way to choose with which the tree has the root: as one
// source says everywhere, else every way there is, up to maxTries. The choices
// are left as they were when there is none.
func (t *tree) settle(root tlog.Hash, open []*choice, sources int) bool {
	if t.root() == root {
		return true
	}
	before := make([]int, len(open))
	for i, c := range open {
		before[i] = c.taken
	}
	for s := range sources {
		for i, c := range open {
			c.taken = c.of(s, before[i])
		}
		if t.root() == root {
			return true
		}
	}
	for _, c := range open {
		c.taken = 0
	}
	for range maxTries {
		if t.root() == root {
			return true
		}
		if !count(open) {
			break
		}
	}
	for i, c := range open {
		c.taken = before[i]
	}
	return false
}

// of is what a source has at the position, or else as it was.
func (c *choice) of(source, before int) int {
	for i, from := range c.from {
		if slices.Contains(from, source) {
			return i
		}
	}
	return before
}

// count goes on to the next way to choose; false after the last.
func count(open []*choice) bool {
	for _, c := range open {
		if c.taken++; c.taken < len(c.leaves) {
			return true
		}
		c.taken = 0
	}
	return false
}
