package salvage

import (
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// tree is the Merkle tree over the events so far. A leaf can be an open choice
// between copies. edge holds the complete subtrees, the largest first; a subtree
// without an open choice is only its hash.
type tree struct {
	edge []subtree
	size eventstore.Position
}

type subtree struct {
	hash tlog.Hash
	open *node // nil: hash is used
}

// node is a subtree with an open choice below it.
type node struct {
	left, right subtree
	leaf        *choice // nil for an inner node; left and right are unused if set
}

// choice holds the different copies of one position.
type choice struct {
	position eventstore.Position
	leaves   []tlog.Hash
	from     [][]int // sources of each leaf
	sole     int     // index of the copy from soleDurable, -1 for none
	taken    int     // index of the copy that is taken
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

// root is the root hash with the copies that are taken now.
func (t *tree) root() tlog.Hash {
	n := len(t.edge)
	if n == 0 {
		root, _ := tlog.TreeHash(0, nil) // the empty tree
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

// maxTries bounds how many combinations of copies are tried for one checkpoint.
const maxTries = 1 << 14

// settle looks for the combination of copies with which the tree has the root:
// first all copies of one source, then every combination, up to maxTries. If none
// has the root, it returns false and the choices are unchanged.
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

// of is the index of the source's copy, or before if the source has none.
func (c *choice) of(source, before int) int {
	for i, from := range c.from {
		if slices.Contains(from, source) {
			return i
		}
	}
	return before
}

// count takes the next combination of copies; false after the last.
func count(open []*choice) bool {
	for _, c := range open {
		if c.taken++; c.taken < len(c.leaves) {
			return true
		}
		c.taken = 0
	}
	return false
}
