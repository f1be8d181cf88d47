package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var clusterKey = []byte(strings.Repeat("k", KeySize))

// node is one of three; leader is what it believes.
type node struct {
	name   string
	leader atomic.Pointer[string]
	ready  atomic.Bool
	doubt  atomic.Bool // whether it is the leader
	port   *Port
	peers  *httptest.Server
	public *httptest.Server
}

func (n *node) Leader() (string, bool) {
	name := *n.leader.Load()
	return name, name == n.name && n.ready.Load()
}

func (n *node) Arrive(bool) func(context.Context) error {
	return func(context.Context) error {
		if n.doubt.Load() {
			return errors.New("it is not known")
		}
		return nil
	}
}

func tlsOf(t *testing.T, key []byte, name string) *tls.Config {
	t.Helper()
	c, err := TLS(key, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts three nodes whose listener says what it was asked.
func start(t *testing.T, local func(n *node) http.Handler) (nodes [3]*node) {
	t.Helper()
	addresses := map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		n := &node{name: name}
		n.leader.Store(new("a"))
		n.ready.Store(name == "a")
		n.peers = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.port.Handler().ServeHTTP(w, r) }))
		addresses[name] = n.peers.Listener.Addr().String()
		nodes[i] = n
	}
	for _, n := range nodes {
		peers := map[string]string{}
		for name, address := range addresses {
			if name != n.name {
				peers[name] = address
			}
		}
		n.port = New(Config{
			Name: n.name, Peers: peers, TLS: tlsOf(t, clusterKey, n.name), Node: n,
			Log: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", n.name, r.URL.Path) }),
		})
		n.public = httptest.NewServer(n.port.Forward(Public, saysWhatItCannot(local(n)), func(path string) bool { return path == "/docs" }))
		n.peers.Listener = tls.NewListener(n.peers.Listener, tlsOf(t, clusterKey, n.name))
		n.peers.Start()
		t.Cleanup(func() {
			n.public.Close()
			n.peers.CloseClientConnections()
			n.peers.Close()
		})
	}
	return nodes
}

// saysWhatItCannot answers requests that cannot be answered, and says what they asked for.
func saysWhatItCannot(local http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unavailable, ok := errors.AsType[*UnavailableError](Check(r)); ok {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%s from %s: unavailable, unknown %t", r.URL.EscapedPath(), r.RemoteAddr, unavailable.Unknown)
			return
		}
		local.ServeHTTP(w, r)
	})
}

func echo(n *node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Node", n.name)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s from %s by %q for %s: %s", r.Method, r.Host, r.RequestURI, r.RemoteAddr, r.Header.Get(headClient), r.Header.Get("X-Forwarded-For"), b)
	})
}

func ask(t *testing.T, method, url, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "pay.example.com"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(b), reply.Header
}

// A request at any node is answered by the leader, as it was sent, and nobody can pretend to
// be a client at another address.
func TestForward(t *testing.T) {
	t.Parallel()
	nodes := start(t, echo)
	for _, n := range nodes {
		status, text, h := ask(t, "POST", n.public.URL+"//v1/a%2Fb/../x?q=1;2&%zz", "body", headClient, "6.6.6.6:6", "X-Forwarded-For", "1.2.3.4")
		if status != http.StatusCreated || h.Get("X-Node") != "a" || !strings.HasPrefix(text, "POST pay.example.com //v1/a%2Fb/../x?q=1;2&%zz from 127.0.0.1:") ||
			!strings.HasSuffix(text, "for 1.2.3.4: body") {
			t.Errorf("node %s: %d %s", n.name, status, text)
		}
		if _, text, h := ask(t, "GET", n.public.URL+"/docs", ""); h.Get("X-Node") != n.name {
			t.Errorf("node %s does not answer what each answers by itself: %s", n.name, text)
		}
	}
	if _, text, _ := ask(t, "POST", nodes[1].public.URL, "", headClient, "6.6.6.6:6"); strings.Contains(text, "6.6.6.6") {
		t.Errorf("a client says where it is: %s", text)
	}
}

// Without a leader that is ready the answer is 503 at once, and a request does not go round.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	nodes := start(t, echo)
	refused := func(what string, unknown bool) {
		t.Helper()
		for _, n := range nodes[1:] {
			status, text, h := ask(t, "POST", n.public.URL+"/v1/payments", "")
			if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" || !strings.HasPrefix(text, "/v1/payments from 127.0.0.1:") || !strings.HasSuffix(text, fmt.Sprintf("unknown %t", unknown)) {
				t.Errorf("%s, at node %s: %d %s", what, n.name, status, text)
			}
		}
	}
	nodes[0].ready.Store(false)
	refused("the leader is not ready", false)
	nodes[0].ready.Store(true)
	nodes[0].leader.Store(new("b"))
	refused("the leader believes in another one", false)
	for _, n := range nodes {
		n.leader.Store(new(""))
	}
	refused("there is none", false)
	for _, n := range nodes {
		n.leader.Store(new("a"))
	}
	nodes[0].doubt.Store(true)
	refused("the leader cannot be sure", true)
	if status, text, h := ask(t, "GET", nodes[0].public.URL+"/v1/payments", ""); status != http.StatusServiceUnavailable || h.Get("X-Node") != "" || !strings.Contains(text, "unknown false") {
		t.Errorf("an answer that is not confirmed is shown: %d %s", status, text)
	}
	nodes[0].peers.Close()
	for _, n := range nodes[1:] { // takes the connection that the node has kept, and that may be closing
		if status, text, _ := ask(t, "GET", n.public.URL+"/v1/payments", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "unknown false") {
			t.Errorf("the leader is gone, at node %s: %d %s", n.name, status, text)
		}
	}
	refused("the leader is gone", false)
}

// hasty is a node that hears of another leader after each look.
type hasty struct {
	*node
	leaders []string
	looks   atomic.Int64
}

func (h *hasty) Leader() (string, bool) {
	n := int(h.looks.Add(1)) - 1
	return h.leaders[min(n, len(h.leaders)-1)], false
}

// While the leader changes, a request goes to the one that was there when it came, or to nobody, which
// is known.
func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	nodes := start(t, echo)
	for what, x := range map[string]struct {
		leaders []string
		status  int
		want    string
	}{
		"to none":                    {[]string{"a", ""}, http.StatusCreated, "POST pay.example.com /v1/payments"},
		"to this node":               {[]string{"a", "b"}, http.StatusCreated, "POST pay.example.com /v1/payments"},
		"from one that nobody knows": {[]string{"d", "a"}, http.StatusServiceUnavailable, "/v1/payments from 127.0.0.1:"},
	} {
		nodes[1].port.config.Node = &hasty{node: nodes[1], leaders: x.leaders}
		status, text, _ := ask(t, "POST", nodes[1].public.URL+"/v1/payments", "")
		if status != x.status || !strings.HasPrefix(text, x.want) || strings.Contains(text, "unknown true") {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
}

// What became of a request is not known if the connection breaks while it is answered.
func TestBroken(t *testing.T) {
	t.Parallel()
	nodes := start(t, func(*node) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	for method, unknown := range map[string]bool{"POST": true, "GET": false} {
		if status, text, _ := ask(t, method, nodes[1].public.URL, ""); status != http.StatusServiceUnavailable || !strings.Contains(text, fmt.Sprintf("unknown %t", unknown)) {
			t.Errorf("%s: %d %s", method, status, text)
		}
	}
}

// A stream comes as it is written.
func TestStream(t *testing.T) {
	t.Parallel()
	next, ended := make(chan string), make(chan struct{})
	nodes := start(t, func(*node) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			for {
				select {
				case line := <-next:
					fmt.Fprintln(w, line)
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
				case <-r.Context().Done():
					return
				}
			}
		})
	})
	for _, n := range nodes[:2] {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, "GET", n.public.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		go func() { next <- "0" }()
		reply, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(reply.Body)
		for i := range 3 {
			if i > 0 {
				next <- fmt.Sprint(i)
			}
			if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
				t.Errorf("line %d: %q, %v", i, lines.Text(), lines.Err())
			}
		}
		cancel()
		_ = reply.Body.Close()
		<-ended
	}
}

// Peers reach each other's log; nobody without the key does, and no node in the place of
// another one.
func TestWhoGetsIn(t *testing.T) {
	t.Parallel()
	nodes := start(t, echo)
	reply, err := nodes[0].port.Client().Get(URL("b") + "/status")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(reply.Body)
	if reply.Body.Close(); string(b) != "b /status" {
		t.Errorf("node b answers %q", b)
	}
	url := "https://" + nodes[1].peers.Listener.Addr().String() + "/log/status"
	for what, c := range map[string]*tls.Config{
		"nothing":           {InsecureSkipVerify: true},
		"another key":       {InsecureSkipVerify: true, Certificates: tlsOf(t, []byte(strings.Repeat("x", KeySize)), "a").Certificates},
		"its name expected": {Certificates: tlsOf(t, clusterKey, "a").Certificates, RootCAs: tlsOf(t, clusterKey, "a").RootCAs, ServerName: "c." + domainName},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
		if reply, err := client.Get(url); err == nil {
			reply.Body.Close()
			t.Errorf("node b answers who shows %s", what)
		}
	}
	nodes[0].port.config.Peers["c"] = nodes[0].port.config.Peers["b"]
	if reply, err := nodes[0].port.Client().Get(URL("c") + "/status"); err == nil {
		reply.Body.Close()
		t.Error("node b is taken for node c")
	}
	again, other := tlsOf(t, clusterKey, "a"), tlsOf(t, clusterKey, "b")
	if string(again.Certificates[0].Certificate[0]) != string(nodes[0].port.config.TLS.Certificates[0].Certificate[0]) {
		t.Error("a node has another certificate at its next start")
	}
	if string(again.Certificates[0].Certificate[0]) == string(other.Certificates[0].Certificate[0]) {
		t.Error("two nodes have one certificate")
	}
	if _, err := TLS(clusterKey[1:], "a"); err == nil {
		t.Error("a short key is taken")
	}
}
