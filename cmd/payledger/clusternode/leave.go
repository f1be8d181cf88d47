package clusternode

import (
	"context"
	"errors"
	"os"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/httpapi/peer"
)

const runsTime = 2 * time.Second

// Leave answers how far a stopped node's log has come. If that is the position that is
// given, it makes the directory one that is alone: of the directories that are left it has
// to be the one that has come farthest, since what another one alone has would be lost. It
// refuses while another node runs: two that go on apart would never agree again.
func Leave(ctx context.Context, d datadir.Dir, at *eventstore.Position) (last eventstore.Position, err error) {
	c, err := Load(d)
	if err != nil {
		return 0, err
	}
	if c == nil {
		return 0, cli.Errorf(cli.ExitDirectory, "%s is in no cluster", d)
	}
	store, err := datadir.OpenBy(d, func() (*bolt.Store, error) { return bolt.Open(d.Ledger(), bolt.Options{}) })
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if last, err = store.Last(ctx); err != nil {
		return 0, err
	}
	for name, address := range c.Peers() {
		if c.runs(ctx, address) {
			return last, cli.Errorf(cli.ExitInUse, "node %s still runs at %s: stop the servers of all nodes first", name, address)
		}
	}
	switch {
	case at == nil:
		return last, nil
	case *at != last:
		return last, cli.Errorf(cli.ExitDirectory, "%s has come to position %d, not %d: take the directory that has come farthest", d, last, *at)
	}
	if err := errors.Join(datadir.RemoveIfExists(d.Cluster()), datadir.RemoveIfExists(d.ClusterKey()), os.RemoveAll(d.ClusterNATS())); err != nil {
		return last, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	return last, nil
}

// runs reports whether a node answers at an address.
func (c *Cluster) runs(ctx context.Context, address string) bool {
	conf, err := c.tls()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, runsTime)
	defer cancel()
	conn, err := peer.Dial(ctx, conf, address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
