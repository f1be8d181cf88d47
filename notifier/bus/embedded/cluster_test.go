package embedded

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

const testCluster = "cluster.test"

// authority signs certificates for the servers of one cluster.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key, _ = a.sign(t, a.cert).PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// sign makes a certificate, with a's key if it has one, else with its own.
func (a *authority) sign(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if c == a.cert {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) config(t *testing.T) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	own := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{testCluster},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ServerName: testCluster,
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// TestPeersReachEachOther: the address of a node is for its NATS server and for the other
// nodes' requests, and strangers get nowhere.
func TestPeersReachEachOther(t *testing.T) {
	t.Parallel()
	ca, own := newAuthority(t), healthtest.FreeAddress(t)
	s := started(t, Config{Cluster: &Cluster{Name: testCluster, Node: "a", Own: own, Peers: []string{healthtest.FreeAddress(t), healthtest.FreeAddress(t)}, TLS: ca.config(t), PeerProtocol: "peers"}})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "asked for "+r.URL.Path) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.Peers()) }()
	get := func(conf *tls.Config) (string, error) {
		conf.NextProtos = []string{"peers"}
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		reply, err := client.Get("https://" + own + "/x")
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(reply.Body)
		return string(b), errors.Join(err, reply.Body.Close())
	}
	for range 3 {
		if text, err := get(ca.config(t)); err != nil || text != "asked for /x" {
			t.Errorf("a peer gets %q: %v", text, err)
		}
	}
	if text, err := get(newAuthority(t).config(t)); err == nil {
		t.Errorf("a stranger gets %q", text)
	}
	// Who does not name the protocol speaks to the NATS server.
	c, err := tls.Dial("tcp", own, ca.config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	greeting := make([]byte, 4)
	if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "INFO" {
		t.Errorf("a NATS server is greeted with %q: %v", greeting, err)
	}
	noise, err := net.Dial("tcp", own)
	if err != nil {
		t.Fatal(err)
	}
	defer noise.Close()
	if _, err := noise.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(noise); len(b) > 0 {
		t.Errorf("who speaks without TLS is answered %q: %v", b, err)
	}
	if n := s.routes.listener.waits(); n > 2 { // the last two
		t.Errorf("%d connections count as of strangers", n)
	}
	s.Shutdown()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	_ = server.Close()
}

// TestRepairOfANodeWaitsForNoOther: where nats-server does not stop, because it waits for another
// node, a repair is given up and tried again, and holds nothing up meanwhile.
func TestRepairOfANodeWaitsForNoOther(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	log := writer(func(b []byte) {
		if bytes.Contains(b, []byte("Initiating Shutdown")) {
			<-release
		}
	})
	s := started(t, Config{Cluster: &Cluster{
		Name: testCluster, Node: "a", Own: healthtest.FreeAddress(t), Peers: []string{healthtest.FreeAddress(t), healthtest.FreeAddress(t)},
		TLS: newAuthority(t).config(t),
	}})
	s.current.SetLoggerV2(newServerLog(zerolog.New(log)), false, false, false)
	late := time.AfterFunc(2*shutdownTime, func() { close(release) })
	if err := s.Repair(""); err == nil || !strings.Contains(err.Error(), "waits for another node") {
		t.Errorf("the repair ends with %v", err)
	}
	if late.Stop() {
		close(release)
	}
	if err := s.Repair(""); err != nil {
		t.Errorf("the second repair: %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// TestClusterKeepsEachStreamThreeTimes: three servers elect a leader, every stream
// has a replica on each, and a server whose certificate another authority signed is
// not let in.
func TestClusterKeepsEachStreamThreeTimes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	addresses := []string{healthtest.FreeAddress(t), healthtest.FreeAddress(t), healthtest.FreeAddress(t)}
	var servers []*Server
	start := func(node, own string, conf *tls.Config) {
		peers := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == own })
		s := started(t, Config{Cluster: &Cluster{Name: testCluster, Node: node, Own: own, Peers: peers, TLS: conf}})
		if s.Addr() != nil {
			t.Errorf("node %s listens for clients on %v", node, s.Addr())
		}
		servers = append(servers, s)
	}
	for i, node := range []string{"a", "b", "c"} {
		start(node, addresses[i], ca.config(t))
	}
	start("stranger", healthtest.FreeAddress(t), newAuthority(t).config(t))
	conn := connected(t, servers[0])
	healthtest.Eventually(t, "JetStream has a leader", func() bool {
		return slices.ContainsFunc(servers[:3], func(s *Server) bool { return s.current.JetStreamIsLeader() })
	})
	healthtest.Eventually(t, "the streams are made", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return bus.MakeStreams(ctx, conn, domain.ID{1}) == nil
	})
	for _, name := range []string{bus.EventsStream, bus.SignalsStream, bus.ParkedStream, bus.CheckpointsStream} {
		stream, err := conn.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info := stream.CachedInfo()
		if info.Config.Replicas != 3 || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
			t.Errorf("%s has %d replicas, and of the cluster is known %+v", name, info.Config.Replicas, info.Cluster)
		}
	}
	if n := servers[3].current.NumRoutes(); n != 0 {
		t.Errorf("the server of another authority has %d routes", n)
	}
	if !servers[3].Deserted() {
		t.Error("the server of another authority is in the cluster")
	}
	healthtest.Eventually(t, "the servers of the cluster are connected", func() bool {
		return !slices.ContainsFunc(servers[:3], (*Server).Deserted)
	})
	servers[2].Shutdown()
	healthtest.Eventually(t, "the others notice that one is away", func() bool { return servers[0].Deserted() && servers[1].Deserted() })
}

// TestSilentRouteEnds: where the network loses all that two servers say, they notice within
// some seconds, and are connected again soon after it is back.
func TestSilentRouteEnds(t *testing.T) {
	if os.Getenv("PAYLEDGER_LONG") == "" {
		t.Skip("it waits until servers miss each other's pings: run with PAYLEDGER_LONG=1")
	}
	t.Parallel()
	ca := newAuthority(t)
	var lossy network
	own := []string{healthtest.FreeAddress(t), healthtest.FreeAddress(t)}
	var servers []*Server
	for i, node := range []string{"a", "b"} {
		peer := lossy.before(t, own[1-i])
		servers = append(servers, started(t, Config{Cluster: &Cluster{Name: testCluster, Node: node, Own: own[i], Peers: []string{peer}, TLS: ca.config(t)}}))
	}
	connected := func() bool { return !slices.ContainsFunc(servers, (*Server).Deserted) }
	healthtest.Eventually(t, "the servers are connected", connected)
	lossy.lose(true)
	began := time.Now()
	healthtest.Eventually(t, "both notice", func() bool { return servers[0].Deserted() && servers[1].Deserted() })
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("they noticed after %v", took)
	}
	lossy.lose(false)
	healthtest.Eventually(t, "the servers are connected again", connected)
}

// network carries connections. While it loses everything, they stay open.
type network struct {
	mu    sync.Mutex
	loses bool
}

func (n *network) lose(everything bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loses = everything
}

// before returns an address from which connections lead to target.
func (n *network) before(t *testing.T, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(func() {
		end()
		l.Close()
		all.Wait()
	})
	carry := func(to io.WriteCloser, from io.ReadCloser) {
		defer context.AfterFunc(ctx, func() { from.Close() })()
		defer to.Close()
		piece := make([]byte, 16<<10)
		for {
			m, err := from.Read(piece)
			n.mu.Lock()
			lost := n.loses
			n.mu.Unlock()
			if lost {
				<-ctx.Done() // no connection works again that has lost something
				return
			}
			if _, writeErr := to.Write(piece[:m]); err != nil || writeErr != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			all.Go(func() { carry(far, near) })
			all.Go(func() { carry(near, far) })
		}
	})
	return l.Addr().String()
}
