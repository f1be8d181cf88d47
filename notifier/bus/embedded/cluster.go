package embedded

import (
	"crypto/tls"
	"net/url"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Cluster makes the server one of several that keep every JetStream stream
// together. Then each message is synced by a majority before it is acknowledged, and
// nothing in the directory is repaired by this process: what a replica has agreed to
// must not be forgotten.
type Cluster struct {
	Name  string   // the same for all servers
	Node  string   // of this server alone
	Own   string   // HOST:PORT at which the others reach it
	Peers []string // HOST:PORT of the others
	// Listen is HOST:PORT on which it takes their connections; empty: Own.
	Listen string
	// TLS of the connections between them, for both ends. It has to demand a
	// certificate of the other end and to check it.
	TLS *tls.Config
	// PeerProtocol is what a node names in its TLS handshake (ALPN) with the address of another
	// one if it wants something else than that one's NATS server: see Server.Peers.
	PeerProtocol string
}

// Replicas implements bus.Embedded.
func (s *Server) Replicas() int {
	if s.config.Cluster == nil {
		return 1
	}
	return 1 + len(s.config.Cluster.Peers)
}

// Deserted reports whether the server is one of a cluster and has no connection to some
// other one. If it ended now, no majority might be left.
func (s *Server) Deserted() bool {
	if s.config.Cluster == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil && s.current.NumRemotes() < len(s.config.Cluster.Peers)
}

// options are the cluster's part in those of the server.
func (c *Cluster) options(o *natsserver.Options, routes *front) {
	o.ServerName, o.SyncAlways = c.Node, true
	// A server without a listener never becomes ready in a cluster. Only this process has a password
	// for it.
	onLoopback(o)
	o.Cluster = natsserver.ClusterOpts{
		Name: c.Name, Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, Advertise: c.Own, NoAdvertise: true,
		TLSConfig: routes.verifying(c.TLS), TLSTimeout: routeTLSTime.Seconds(),
		PingInterval: routePing, MaxPingsOut: routePings,
	}
	// A peer that is down is tried about once a second.
	o.ConnectErrorReports, o.ReconnectErrorReports = reportedEach, reportedEach
	for _, peer := range c.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: peer})
	}
}

const (
	routeTLSTime = Patience // for a handshake between two servers
	// A peer that is silent for some 12 s is dialled again. Else, after an outage of the network, TCP
	// would retransmit only after as long a time as that lasted.
	routePing    = 3 * time.Second
	routePings   = 3  // without an answer
	reportedEach = 60 // failed attempts to reach a peer are logged
)
