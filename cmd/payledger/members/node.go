package members

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster"
	"payledger/eventstore/cluster/forms"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

// Node is a member that takes part: its NATS server, the connection to it, and the
// log of the cluster.
type Node struct {
	*Member
	Server *embedded.Server
	Conn   *bus.Conn
	Store  *cluster.Store
	Report func(error) // logs what keeps the node from its part and is tried again; some of it is left out

	log     zerolog.Logger
	closing atomic.Bool
	trouble atomic.Pointer[string] // the last

	watching     sync.WaitGroup // of the server
	stopWatching func()         // nil: it is not watched

	instance   *instance // nil: it is not announced yet
	announcing sync.WaitGroup
}

// Part is what a node needs to take part.
type Part struct {
	Dir     datadir.Dir
	Version string // of the program
	Bolt    bolt.Options
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// TakePart opens the log and returns once the node can read it as the cluster has it,
// which takes two of the three nodes, and all of them at the very first time. If it
// fails, the log is closed.
func (n *Node) TakePart(ctx context.Context, p Part) error {
	duplicate := n.Duplicate()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(duplicate, cancel)()
	err := n.takePart(ctx, p)
	if err != nil && duplicate.Err() != nil {
		return context.Cause(duplicate)
	}
	return err
}

func (n *Node) takePart(ctx context.Context, p Part) (err error) {
	m := n.Member
	if p.Metrics != nil {
		n.Server.Observe(p.Metrics)
	}
	c := cluster.Config{
		Name: m.Node, Path: p.Dir.Ledger(), Bolt: p.Bolt, Found: m.Node == m.Members[0].Name, LOG: m.Cluster, Now: time.Now,
		Prepare: func(ctx context.Context, ledger domain.ID) error { return bus.MakeStreams(ctx, n.Conn, ledger) },
		Conn:    n.Conn.NATS(), Report: n.Report, Program: forms.Program{Version: p.Version, Reads: eventstore.Reads()},
	}
	for _, peer := range m.Peers() {
		c.Peers = append(c.Peers, peer.Name)
	}
	_, _ = rand.Read(c.Start[:]) // never fails
	p.Log.Info().Str("node", m.Node).Str("address", m.Own()).Str("others", names(m.Peers())).Msg("waiting for the other nodes")
	n.Store, err = datadir.OpenBy(p.Dir, func() (*cluster.Store, error) { return cluster.Open(ctx, c) })
	if ended, ok := errors.AsType[*cluster.EndedError](err); ok && ended.Heir == m.Node {
		err = cli.Errorf(cli.ExitDirectory, "%w: \"payledger cluster leave\" makes %s its directory", err, p.Dir)
	} else if ok {
		err = cli.Errorf(cli.ExitDirectory, "%w: %s must not be served any more, remove it", err, p.Dir)
	}
	if err != nil {
		n.Store = nil
		return err
	}
	return n.caughtUp(ctx)
}

// Visit starts the node's NATS server alone: the node can talk to the others, and has no
// log. It fails if another process has the directory.
func (m *Member) Visit(ctx context.Context, d datadir.Dir, log zerolog.Logger) (_ *Node, err error) {
	release, err := bolt.Hold(d.Ledger())
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return nil, cli.Errorf(cli.ExitInUse, "the data directory %s is in use by another payledger process", d)
	case err == nil:
		defer release() //nolint:errcheck // nothing was written
	}
	if err := m.checkPeers(ctx, d); err != nil {
		return nil, err
	}
	conf, err := m.TLS()
	if err != nil {
		return nil, err
	}
	routes := embedded.Cluster{Name: m.domain(), Node: m.Node, Own: m.Own(), Listen: string(m.Listen), TLS: conf}
	for _, peer := range m.Peers() {
		routes.Peers = append(routes.Peers, peer.Address)
	}
	n := &Node{Member: m, log: log}
	n.Report = n.report(log)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.Server, err = embedded.Start(embedded.Config{Dir: d.ClusterNATS(), Cluster: &routes, Log: log}); err == nil {
		// Also while the node waits for its part: the disk may be full now.
		var watch context.Context
		watch, n.stopWatching = context.WithCancel(context.WithoutCancel(ctx))
		n.watching.Go(func() { _ = n.Server.Run(watch) }) // it ends with watch, and without an error
		n.Conn, err = n.Server.Connect()
	}
	if err != nil {
		return nil, err
	}
	err = n.announce(ctx, d)
	return n, err
}

// report logs what keeps the node from its part, which is tried again many times a
// second.
func (n *Node) report(log zerolog.Logger) func(error) {
	log = log.Sample(&zerolog.BurstSampler{Burst: 1, Period: 10 * time.Second})
	return func(err error) {
		why := err.Error()
		n.trouble.Store(&why)
		if !n.closing.Load() {
			log.Warn().Err(err).Msg("the node cannot do its part in the cluster just now")
		}
	}
}

// Trouble is what kept the node from its part last; empty: nothing did.
func (n *Node) Trouble() string {
	if why := n.trouble.Load(); why != nil {
		return *why
	}
	return ""
}

const retryEvery = 50 * time.Millisecond

// caughtUp waits until the file has all that was acknowledged before.
func (n *Node) caughtUp(ctx context.Context) error {
	for {
		err := n.Store.CatchUp(ctx)
		if !errors.Is(err, eventstore.ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryEvery): // a node that has stopped fails at once
		}
	}
}

// checkPeers refuses to start a node that could never become ready: another process has its
// address, or a peer belongs to another cluster. Peers may be down.
func (m *Member) checkPeers(ctx context.Context, d datadir.Dir) error {
	if _, err := d.LogSigner(m.Ledger); err != nil {
		return err
	}
	l, err := m.listen()
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	for _, peer := range m.Peers() {
		if err := m.recognises(ctx, peer); err != nil {
			return err
		}
	}
	return nil
}

// recognises fails if another program than a node of the cluster answers at a peer's
// address.
func (m *Member) recognises(ctx context.Context, peer Address) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conf, err := m.TLS()
	if err != nil {
		return err
	}
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: conf}).DialContext(ctx, "tcp", peer.Address)
	if err != nil {
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			return cli.Errorf(cli.ExitDirectory, "node %s at %s is not of this cluster: %w", peer.Name, peer.Address, err)
		}
		return nil // it is down, or busy
	}
	_ = conn.Close()
	return nil
}

// Close ends the node's part. Whatever uses it has stopped before.
func (n *Node) Close() (err error) {
	n.closing.Store(true)
	if n.instance != nil { // before another process can take the directory
		n.instance.end(nil)
		n.announcing.Wait()
	}
	if n.stopWatching != nil {
		n.stopWatching()
		n.watching.Wait()
	}
	if n.Store != nil {
		err = n.Store.Close()
	}
	if n.Conn != nil {
		n.Conn.Close()
	}
	if n.Server != nil {
		n.Server.Shutdown()
	}
	return err
}
