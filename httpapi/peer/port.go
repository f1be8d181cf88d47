// Package peer is the port at which the nodes of a cluster reach each other, over HTTP and
// mutual TLS.
//
// A node that does not lead the cluster answers no request that asks for the state of the
// log or changes it: it sends the request itself on to the leader, and the answer back, as
// it comes. What the leader answers is held back until it is known that it was the leader
// when the request arrived. While there is no leader, the answer is 503 at once.
//
// If the connection to the leader breaks, nobody knows what became of the request: the
// answer is 503, and the client sends it again with its idempotency key.
package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// Node is this node's part in the cluster.
type Node interface {
	// Leader names the node that leads the cluster, as far as is known, and whether it
	// is this one, and ready.
	Leader() (name string, here bool)
	// Arrive notes that a request has arrived; read: its answer will most likely depend on
	// nothing that it records. confirm waits until the answer is known to be true.
	Arrive(read bool) (confirm func(context.Context) error)
}

// Config is a Port's.
type Config struct {
	Name  string
	Peers map[string]string // HOST:PORT of the other nodes, by name
	TLS   *tls.Config       // of TLS
	Node  Node
	// Log is what peers ask of each other about the log: requests below /log/.
	Log http.Handler
}

// UnavailableError: the cluster has no leader that answers a request.
type UnavailableError struct{ Unknown bool } // what it asks for may be recorded

func (e *UnavailableError) Error() string {
	return "the nodes of the cluster have no leader that answers"
}

type unavailableKey struct{}

// Check is an *UnavailableError if the request cannot be answered. The handlers behind a Port
// ask first, so that each says it in the form of its answers.
func Check(r *http.Request) error {
	if err, ok := r.Context().Value(unavailableKey{}).(*UnavailableError); ok {
		return err
	}
	return nil
}

// refuse has a listener's handler say that a request cannot be answered.
func refuse(local http.Handler, w http.ResponseWriter, r *http.Request, unknown bool) {
	local.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), unavailableKey{}, &UnavailableError{Unknown: unknown})))
}

// Port forwards requests to the leader, and takes those that were forwarded.
type Port struct {
	config Config
	client *http.Transport
	local  map[string]http.Handler // by the listener's name
}

// Protocol is what a node names in its TLS handshake (ALPN) with another one's port.
const Protocol = "payledger-peer"

const (
	logPath = "/log/"
	// headClient is the client's address in a forwarded request. Only peers are believed.
	headClient = "Payledger-Client"

	dialTime = 2 * time.Second
	// answerTime is for a merchant's request; an operator's may take long. It is no more than what the
	// cluster takes to elect another leader, and so less than the longest a leader works at a request:
	// who waits for one that hangs is told to ask again by the time that another one leads.
	answerTime = 10 * time.Second
	idleTime   = time.Minute
	maxIdle    = 512 // connections to the leader
)

// New is a port for the listeners that are added to it.
func New(c Config) *Port {
	p := &Port{config: c, local: map[string]http.Handler{}}
	p.client = &http.Transport{
		DialTLSContext: func(ctx context.Context, _, host string) (net.Conn, error) {
			peer, _, err := net.SplitHostPort(host)
			if err != nil {
				return nil, err
			}
			return p.dial(ctx, peer)
		},
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime, DisableCompression: true,
	}
	return p
}

// dial connects to a peer, and to nobody else who may be at its address.
func (p *Port) dial(ctx context.Context, peer string) (net.Conn, error) {
	address, known := p.config.Peers[peer]
	if !known {
		return nil, &dialError{fmt.Errorf("there is no node %s", peer)}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c := p.config.TLS.Clone()
	c.ServerName = peer + "." + domainName
	conn, err := Dial(ctx, c, address)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// dialError: nothing was sent.
type dialError struct{ error }

// Client reaches the peers' Log handlers, at URL.
func (p *Port) Client() *http.Client { return &http.Client{Transport: p.client} }

// ClientOf reaches the Log handler of the node at an address, whatever its name, at URL("").
func ClientOf(conf *tls.Config, address string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return Dial(ctx, conf, address)
	}}}
}

// Dial connects to the port of a node.
func Dial(ctx context.Context, conf *tls.Config, address string) (net.Conn, error) {
	conf = conf.Clone()
	conf.NextProtos = []string{Protocol}
	return (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", address)
}

// URL is where a peer's Log handler is.
func URL(peer string) string {
	return "https://" + cmp.Or(peer, domainName) + strings.TrimSuffix(logPath, "/")
}

// Forward is the handler of a listener whose requests the leader answers: local does that
// here, and also answers the paths that each node answers by itself. The listener has the same name on
// all nodes. All are added before the port is served.
func (p *Port) Forward(listener string, local http.Handler, itself func(path string) bool) http.Handler {
	p.local[listener] = p.confirmed(local)
	transport := p.client.Clone()
	if listener == Public {
		transport.ResponseHeaderTimeout = answerTime // for the leader to begin to answer
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch leader, here := p.config.Node.Leader(); {
		case itself(r.URL.Path):
			local.ServeHTTP(w, r)
		case here:
			p.local[listener].ServeHTTP(w, r)
		case leader == "" || leader == p.config.Name:
			refuse(local, w, r, false)
		default:
			to := &httputil.ReverseProxy{
				Transport: transport, FlushInterval: -1,
				Rewrite: func(r *httputil.ProxyRequest) {
					r.Out.URL.Scheme, r.Out.URL.Host = "https", leader
					r.Out.URL.Path, r.Out.URL.RawPath = "/"+listener+r.In.URL.Path, ""
					if r.In.URL.RawPath != "" {
						r.Out.URL.RawPath = "/" + listener + r.In.URL.RawPath
					}
					for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
						if lines := r.In.Header[name]; lines != nil {
							r.Out.Header[name] = lines // a proxy before this node
						}
					}
					r.Out.URL.RawQuery = r.In.URL.RawQuery // as it is, also where it is wrong
					r.Out.Header.Set(headClient, r.In.RemoteAddr)
				},
				ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
					strip(r, listener)
					refuse(local, w, r, !reads(r) && !errors.As(err, new(*dialError)))
				},
			}
			to.ServeHTTP(w, r)
		}
	})
}

// Public names the merchants' and customers' listener.
const Public = "public"

// Handler answers the peers. Its server's end of TLS names no protocols.
func (p *Port) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, logPath) {
			http.StripPrefix(strings.TrimSuffix(logPath, "/"), p.config.Log).ServeHTTP(w, r)
			return
		}
		listener, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		local := p.local[listener]
		if local == nil {
			http.NotFound(w, r)
			return
		}
		r = r.Clone(r.Context())
		strip(r, listener)
		r.RequestURI = (&url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}).RequestURI()
		r.TLS = nil
		local.ServeHTTP(w, r)
	})
}

// strip makes of a request on its way what it was when it came.
func strip(r *http.Request, listener string) {
	r.RemoteAddr = r.Header.Get(headClient)
	r.Header.Del(headClient)
	r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/"+listener), strings.TrimPrefix(r.URL.RawPath, "/"+listener)
}

// confirmed holds the answers back until they are known to be true.
func (p *Port) confirmed(local http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, here := p.config.Node.Leader(); !here { // a forwarded request does not go on from node to node
			refuse(local, w, r, false)
			return
		}
		c := &confirming{ResponseWriter: w, local: local, request: r, confirm: p.config.Node.Arrive(reads(r))}
		local.ServeHTTP(c, r)
		if !c.began {
			c.WriteHeader(http.StatusOK)
		}
	})
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// confirming is a ResponseWriter that writes nothing before the answer is confirmed, and if it
// cannot be, that the service is unavailable instead.
type confirming struct {
	http.ResponseWriter
	local   http.Handler
	request *http.Request
	confirm func(context.Context) error

	began, refused bool
}

// WriteHeader implements http.ResponseWriter.
func (c *confirming) WriteHeader(status int) {
	if c.began || status < http.StatusOK {
		if !c.refused {
			c.ResponseWriter.WriteHeader(status)
		}
		return
	}
	c.began = true
	if err := c.confirm(c.request.Context()); err != nil {
		c.refused = true
		clear(c.Header())
		refuse(c.local, c.ResponseWriter, c.request, !reads(c.request))
		return
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *confirming) Write(b []byte) (int, error) {
	if !c.began {
		c.WriteHeader(http.StatusOK)
	}
	if c.refused {
		return len(b), nil
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (c *confirming) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush implements http.Flusher.
func (c *confirming) Flush() {
	if !c.began {
		c.WriteHeader(http.StatusOK)
	}
	if !c.refused {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
	}
}
