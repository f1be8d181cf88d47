package nodewitness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/members"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// shown: another node has signed a checkpoint of another tree than this one's. One
// node alone does not stop this one: both others have to answer, with other trees than
// its own.
func (w *Witness) shown(c translog.Checkpoint, own tlog.Hash) {
	var other string
	for _, p := range w.Node.Peers() {
		root, err := w.rootOf(p.Name, c.Size)
		switch {
		case err != nil:
			w.Node.Report(fmt.Errorf("a checkpoint of %d events is of another log than this node's, and node %s does not say which one is right: %w", c.Size, p.Name, err))
			return
		case root == own:
			w.Node.Report(fmt.Errorf("a checkpoint of %d events is of another log than this node's and that of node %s: nobody vouches for it", c.Size, p.Name))
			return
		case root == c.Root:
			other = p.Name
		}
	}
	w.stop(c, other)
}

// refused: another node refused to vouch for a checkpoint that is of this one's tree,
// because its own tree differs. If the third one has another tree than this node too,
// this one's is wrong.
func (w *Witness) refused(c translog.Checkpoint, peer string) {
	for _, p := range w.Node.Peers() {
		if p.Name == peer {
			continue
		}
		if root, err := w.rootOf(p.Name, c.Size); err == nil && root != c.Root {
			w.stop(c, peer)
			return
		}
	}
	w.Node.Report(fmt.Errorf("node %s does not vouch for the checkpoint of %d events: its log differs from this node's", peer, c.Size))
}

// stop ends the node's part. other is a node whose tree differs; empty: the checkpoint
// alone is known.
func (w *Witness) stop(c translog.Checkpoint, other string) {
	where := fmt.Sprintf("somewhere up to position %d", c.Size)
	if other != "" {
		if at, err := w.firstDifference(other, c.Size); err == nil {
			where = fmt.Sprintf("from position %d on", at)
		}
		where += ", where node " + other + " has another event"
	}
	w.Node.Store.Stop(fmt.Errorf("the log of this node differs from the one that a checkpoint of %d events was signed for, %s", c.Size, where))
}

// firstDifference is the position of the first event that differs from another node's.
func (w *Witness) firstDifference(peer string, size eventstore.Position) (at eventstore.Position, err error) {
	i := sort.Search(int(size), func(i int) bool {
		if err != nil {
			return true
		}
		var own, theirs tlog.Hash
		if own, err = w.Root(w.ctx, eventstore.Position(i)+1); err == nil {
			theirs, err = w.rootOf(peer, eventstore.Position(i)+1)
		}
		return own != theirs
	})
	return eventstore.Position(i) + 1, err
}

func (w *Witness) rootOf(peer string, size eventstore.Position) (tlog.Hash, error) {
	return RootOf(w.ctx, w.Node.Conn.NATS(), w.Node.Member, peer, size)
}

// RootOf is the root of the tree of another node's log.
func RootOf(ctx context.Context, nc *nats.Conn, m *members.Member, peer string, size eventstore.Position) (root tlog.Hash, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, subject(m, peer, verbRoot), binary.BigEndian.AppendUint64(nil, uint64(size)))
	if err != nil {
		return root, err
	}
	if len(reply.Data) != len(root) {
		return root, errors.New("node " + peer + " has no such tree")
	}
	return tlog.Hash(reply.Data), nil
}
