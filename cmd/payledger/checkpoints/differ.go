package checkpoints

import (
	"fmt"
	"net/http"
	"sort"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// shown: another node has signed a checkpoint of another tree than this one's. One
// node alone does not stop this one: both others have to answer, with other trees than
// its own.
func (w *witness) shown(c translog.Checkpoint, own tlog.Hash) {
	var other string
	for name := range w.node.Peers() {
		root, err := w.rootOf(name, c.Size)
		switch {
		case err != nil:
			w.node.Report(fmt.Errorf("a checkpoint of %d events is of another log than this node's, and node %s does not say which one is right: %w", c.Size, name, err))
			return
		case root == own:
			w.node.Report(fmt.Errorf("a checkpoint of %d events is of another log than this node's and that of node %s: nobody vouches for it", c.Size, name))
			return
		case root == c.Root:
			other = name
		}
	}
	w.stop(c, other)
}

// refused: another node refused to vouch for a checkpoint that is of this one's tree,
// because its own tree differs. If the third one has another tree than this node too,
// this one's is wrong.
func (w *witness) refused(c translog.Checkpoint, peer string) {
	for name := range w.node.Peers() {
		if name == peer {
			continue
		}
		if root, err := w.rootOf(name, c.Size); err == nil && root != c.Root {
			w.stop(c, peer)
			return
		}
	}
	w.node.Report(fmt.Errorf("node %s does not vouch for the checkpoint of %d events: its log differs from this node's", peer, c.Size))
}

// stop ends the node's part. other is a node whose tree differs; empty: the checkpoint
// alone is known.
func (w *witness) stop(c translog.Checkpoint, other string) {
	where := fmt.Sprintf("somewhere up to position %d", c.Size)
	if other != "" {
		if at, err := w.firstDifference(other, c.Size); err == nil {
			where = fmt.Sprintf("from position %d on", at)
		}
		where += ", where node " + other + " has another event"
	}
	w.node.Store.Stop(fmt.Errorf("the log of this node differs from the one that a checkpoint of %d events was signed for, %s", c.Size, where))
}

// firstDifference is the position of the first event that differs from another node's.
func (w *witness) firstDifference(peer string, size eventstore.Position) (at eventstore.Position, err error) {
	i := sort.Search(int(size), func(i int) bool {
		if err != nil {
			return true
		}
		var own, theirs tlog.Hash
		if own, err = w.signer.views.RootAt(w.ctx, eventstore.Position(i)+1); err == nil {
			theirs, err = w.rootOf(peer, eventstore.Position(i)+1)
		}
		return own != theirs
	})
	return eventstore.Position(i) + 1, err
}

// rootOf is the root of the tree of another node's log.
func (w *witness) rootOf(node string, size eventstore.Position) (root tlog.Hash, err error) {
	b, err := w.request(w.ctx, node, http.MethodGet, rootPath+strconv.FormatUint(uint64(size), 10), nil)
	if err == nil && len(b) != len(root) {
		err = fmt.Errorf("node %s answers with %d bytes", node, len(b))
	}
	if err != nil {
		return root, err
	}
	return tlog.Hash(b), nil
}
