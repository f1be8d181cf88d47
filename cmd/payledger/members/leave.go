package members

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster"
)

// Leaving is a stopped node's directory that may be taken out of its cluster.
type Leaving struct {
	*Member
	Store    *bolt.Store
	Position eventstore.Position // of the last event that it has
	Heir     string              // the node that goes on alone, since the cluster has ended; empty: it has not

	dir datadir.Dir
}

// Leave opens the directory of a node, and locks it until Close. Unless the cluster has
// ended in favour of this node, it refuses while any other one answers at its address: two
// that go on apart would never agree again.
func Leave(ctx context.Context, d datadir.Dir) (*Leaving, error) {
	m, err := Load(d)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, cli.Errorf(cli.ExitDirectory, "%s is in no cluster", d)
	}
	l := &Leaving{Member: m, dir: d}
	l.Store, err = datadir.OpenBy(d, func() (*bolt.Store, error) { return bolt.Open(d.Ledger(), bolt.Options{Replicate: nobody}) })
	if err != nil {
		return nil, err
	}
	r, err := l.Store.Replica()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.Position, l.Heir = r.Last, cluster.HeirName(r.Heir)
	for _, peer := range m.Peers() {
		if l.Heir != m.Node && m.runs(ctx, peer) {
			return nil, errors.Join(cli.Errorf(cli.ExitInUse, "node %s still runs at %s: stop the servers of all nodes first", peer.Name, peer.Address), l.Close())
		}
	}
	return l, nil
}

// nobody is the Replicate of a log to which nothing may be added.
func nobody(*bolt.Group) error { return bolt.ErrClustered }

// runs reports whether a program answers at a peer's address.
func (m *Member) runs(ctx context.Context, peer Address) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conf, err := m.TLS()
	if err != nil {
		return false
	}
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: conf}).DialContext(ctx, "tcp", peer.Address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Finish makes the directory one that is alone, and closes it. If it is interrupted it
// can be done again.
func (l *Leaving) Finish() error {
	if err := errors.Join(l.Store.Leave(), l.Close()); err != nil {
		return err
	}
	if err := datadir.RemoveIfExists(l.dir.Cluster()); err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	if err := os.RemoveAll(l.dir.ClusterNATS()); err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	return nil
}

// Close closes the directory. Closing again does nothing.
func (l *Leaving) Close() error { return l.Store.Close() }
