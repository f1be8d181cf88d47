package clusternode

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/peer"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/health"
)

// Config is what a node needs to take part.
type Config struct {
	Dir     datadir.Dir
	Listen  string // HOST:PORT that it takes, if not its address
	Bolt    bolt.Options
	Log     zerolog.Logger
	Version string // of the program
}

// Node is a node: its log, and once it takes part its NATS server, the connection to that, and
// the port for its peers.
type Node struct {
	*Cluster
	Store  *replog.Store
	Port   *peer.Port
	Server *embedded.Server
	Conn   *bus.Conn

	config  Config
	tls     *tls.Config
	log     zerolog.Logger // of what is tried again many times a second
	asked   *http.ServeMux // what peers ask besides requests that they forward
	http    *http.Server
	running sync.WaitGroup
	stop    context.CancelFunc
}

// reportEvery is how often the trouble of a node is logged.
const reportEvery = 10 * time.Second

// Open opens a node's log, which the node takes from a peer if it is gone. The node takes part
// once Start is called.
func (c *Cluster) Open(ctx context.Context, conf Config) (*Node, error) {
	n := &Node{
		Cluster: c, config: conf, asked: http.NewServeMux(), stop: func() {},
		log: conf.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: reportEvery}),
	}
	var err error
	if n.tls, err = c.tls(); err != nil {
		return nil, err
	}
	n.Port = peer.New(peer.Config{
		Name: c.Node, Peers: c.Peers(), TLS: n.tls, Node: n, Log: n.asked,
	})
	if !datadir.Exists(conf.Dir.Ledger()) {
		if err := n.takeLog(ctx); err != nil {
			return nil, err
		}
	}
	urls := map[string]string{}
	for name := range c.Peers() {
		urls[name] = peer.URL(name)
	}
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	settings := replog.Config{
		Name: c.Node, Version: conf.Version, Peers: urls, Client: n.Port.Client(), Key: c.key, Path: conf.Dir.Ledger(), Bolt: conf.Bolt,
		Prepare: func(ctx context.Context) error { return bus.MakeStreams(ctx, n.Conn, c.Ledger) },
		NewID:   func() string { return ids.Next().String() }, Now: time.Now, Report: n.Report,
	}
	_, _ = rand.Read(settings.Start[:]) // never fails
	n.Store, err = datadir.OpenBy(conf.Dir, func() (*replog.Store, error) { return replog.Open(ctx, settings) })
	if err != nil {
		return nil, err
	}
	if id := n.Store.LogID(); id != c.Ledger {
		return nil, errors.Join(cli.Errorf(cli.ExitDirectory, "%s is of the event log %s, and the cluster's is %s: put back the file of this cluster, "+
			"or move it away, and the node takes that of another one", conf.Dir.Ledger(), id, c.Ledger), n.Store.Close())
	}
	n.asked.HandleFunc("GET "+joinPath, n.serveJoin)
	n.asked.Handle("/", n.Store.Handler())
	return n, nil
}

// takeLog copies the log from a peer, the leader if there is one. It waits until one answers.
func (n *Node) takeLog(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(n.config.Dir.Claims()), datadir.RemoveIfExists(n.config.Dir.Projections())); err != nil { // of another log, perhaps
		return err
	}
	told := cli.EachInterval(func(done, _ eventstore.Position) {
		n.config.Log.Info().Uint64("position", uint64(done)).Msg("copying the log from another node")
	})
	for ready := true; ; ready = !ready {
		for name := range n.Peers() {
			err := copyLog(ctx, n.Port.Client(), peer.URL(name), ready, n.config.Dir, n.Ledger, func(p eventstore.Position) { told(p, p) })
			if err == nil {
				return nil
			}
			n.Report(err)
		}
		if !health.Pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// Start starts the node's NATS server, and the node takes part: once two of the three do, for
// the first time all. ServePeers has to follow.
func (n *Node) Start(ctx context.Context, nats embedded.Config) (err error) {
	nats.Dir = n.config.Dir.ClusterNATS()
	nats.Cluster = &embedded.Cluster{
		Name: n.Ledger.String(), Node: n.Node, Own: n.Own(), Peers: slices.Collect(maps.Values(n.Peers())),
		Listen: n.config.Listen, TLS: n.tls, PeerProtocol: peer.Protocol,
	}
	n.Server, err = embedded.Start(nats)
	switch at := cmp.Or(n.config.Listen, n.Own()); {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return cli.Errorf(cli.ExitAddress, "node %s: %s is no address of this machine: name one at which it gets what is sent there with --node-listen", n.Node, at)
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Errorf(cli.ExitAddress, "the address %s of node %s cannot be taken: %w; does another process serve this node, or a copy of its directory?", at, n.Node, err)
	case err != nil:
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.running.Go(func() { _ = n.Server.Run(watch) }) // it ends with watch, and without an error
	if n.Conn, err = n.Server.Connect(); err != nil {
		return err
	}
	return n.Store.Begin(n.Conn.NATS())
}

// ServePeers answers the peers. All listeners were added to Port before.
func (n *Node) ServePeers() {
	n.http = &http.Server{Handler: n.Port.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	n.running.Go(func() { _ = n.http.Serve(n.Server.Peers()) }) // it ends with the server
}

// Answer adds what peers ask of each other: a pattern of http.ServeMux.
func (n *Node) Answer(pattern string, h http.HandlerFunc) { n.asked.HandleFunc(pattern, h) }

// Report logs what does not end the node's part.
func (n *Node) Report(err error) {
	n.log.Warn().Err(err).Msg("the node cannot do its part in the cluster just now")
}

// Leader implements peer.Node.
func (n *Node) Leader() (name string, here bool) { return n.Store.Leader() }

// Arrive implements peer.Node.
func (n *Node) Arrive(read bool) func(context.Context) error { return n.Store.Arrive(read) }

// serveJoin answers a new node, which has shown that it has the cluster's key.
func (n *Node) serveJoin(w http.ResponseWriter, r *http.Request) {
	keys, err := n.config.Dir.PackKeys()
	checkpoint, readErr := os.ReadFile(n.config.Dir.Checkpoint())
	last, lastErr := n.Store.Last(r.Context())
	if err = errors.Join(err, readErr, lastErr); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.MarshalWrite(w, joinAnswer{n.Ledger, n.Nodes, last, string(keys), string(checkpoint)}) // who is gone asks again
}

// Close ends the node's part. Whatever uses it has stopped before.
func (n *Node) Close() (err error) {
	if n.http != nil {
		err = n.http.Close()
	}
	err = errors.Join(err, n.Store.Close())
	n.stop()
	if n.Conn != nil {
		n.Conn.Close()
	}
	if n.Server != nil {
		n.Server.Shutdown()
	}
	n.running.Wait()
	return err
}
