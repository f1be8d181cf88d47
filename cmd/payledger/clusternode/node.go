package clusternode

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/peer"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

// Config is what a node needs to take part.
type Config struct {
	Dir    datadir.Dir
	Listen string // HOST:PORT that it takes, if not its address
	Bolt   bolt.Options
	Log    zerolog.Logger
	// Unavailable answers a request for which there is no leader: see peer.Config.
	Unavailable func(w http.ResponseWriter, r *http.Request, unknown bool)
	// Listeners adds the listeners whose requests are forwarded.
	Listeners func(*peer.Port)
}

// Node is a node that takes part: its NATS server, the connection to it, the log, and the
// port for its peers.
type Node struct {
	*Cluster
	Server *embedded.Server
	Conn   *bus.Conn
	Store  *replog.Store

	dir     datadir.Dir
	http    *http.Server
	running sync.WaitGroup
	stop    context.CancelFunc
}

// Start starts a node. It takes part once two of the three do, for the first time all.
func (c *Cluster) Start(ctx context.Context, conf Config) (_ *Node, err error) {
	n := &Node{Cluster: c, dir: conf.Dir, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	keys, err := c.tls()
	if err != nil {
		return nil, err
	}
	if !datadir.Exists(conf.Dir.Ledger()) { // it is completed from the leader's
		if err := bolt.Init(conf.Dir.Ledger(), c.Ledger); err != nil {
			return nil, err
		}
	}
	routes := embedded.Cluster{Name: c.Ledger.String(), Node: c.Node, Own: c.Own(), Listen: conf.Listen, TLS: keys, PeerProtocol: peer.Protocol}
	urls := map[string]string{}
	for name, address := range c.Peers() {
		routes.Peers = append(routes.Peers, address)
		urls[name] = peer.URL(name)
	}
	if n.Server, err = embedded.Start(embedded.Config{Dir: conf.Dir.ClusterNATS(), Cluster: &routes, Log: conf.Log}); err != nil {
		return nil, err
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.running.Go(func() { _ = n.Server.Run(watch) }) // it ends with watch, and without an error
	if n.Conn, err = n.Server.Connect(); err != nil {
		return nil, err
	}
	port := peer.New(peer.Config{
		Name: c.Node, Peers: c.Peers(), TLS: keys, Node: n, Log: http.HandlerFunc(n.serveLog), Unavailable: conf.Unavailable,
	})
	conf.Listeners(port)
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	log := conf.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: 10 * time.Second}) // much is tried again many times a second
	settings := replog.Config{
		Name: c.Node, Peers: urls, Client: port.Client(), Path: conf.Dir.Ledger(), Bolt: conf.Bolt, Conn: n.Conn.NATS(),
		Prepare: func(ctx context.Context) error { return bus.MakeStreams(ctx, n.Conn, c.Ledger) },
		NewID:   func() string { return ids.Next().String() }, Now: time.Now,
		Report: func(err error) { log.Warn().Err(err).Msg("the node cannot do its part in the cluster just now") },
	}
	_, _ = rand.Read(settings.Start[:]) // never fails
	n.Store, err = datadir.OpenBy(conf.Dir, func() (*replog.Store, error) { return replog.Open(ctx, settings) })
	if err != nil {
		n.Store = nil
		return nil, err
	}
	n.http = &http.Server{Handler: port.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	n.running.Go(func() { _ = n.http.Serve(n.Server.Peers()) }) // it ends with the server
	return n, nil
}

// Leader implements peer.Node.
func (n *Node) Leader() (name string, here bool) { return n.Store.Leader() }

// Arrive implements peer.Node.
func (n *Node) Arrive(read bool) func(context.Context) error { return n.Store.Arrive(read).Confirm }

func (n *Node) serveLog(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == joinPath {
		n.serveJoin(n.dir, w)
		return
	}
	n.Store.Handler().ServeHTTP(w, r)
}

// yieldTime is how long another node may take to become the leader in place of one that is
// stopped.
const yieldTime = 5 * time.Second

// Withdraw has another node lead before this one is stopped.
func (n *Node) Withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, yieldTime)
	defer cancel()
	return n.Store.Withdraw(ctx)
}

// Close ends the node's part. Whatever uses it has stopped before.
func (n *Node) Close() (err error) {
	if n.http != nil {
		err = n.http.Close()
	}
	if n.Store != nil {
		err = errors.Join(err, n.Store.Close())
	}
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
