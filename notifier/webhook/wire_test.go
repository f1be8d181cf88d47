package webhook

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRequestBytes pins every byte of a request.
func TestRequestBytes(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	r := newReceivers(func(_ string, c net.Conn) {
		var seen strings.Builder
		for in := bufio.NewReader(io.TeeReader(c, &seen)); request(in); seen.Reset() {
			sent <- seen.String()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // see the outcome
		}
	})
	defer r.end()
	r.config.UserAgent = "payledger/1.2"
	for range 2 { // a cookie is not kept
		o := r.Send(t.Context(), Request{
			URL: "http://shop.example:8080/a%2Fb?c=d%20e", ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Attempt: 7,
			At: time.Unix(1614265330, 0), Body: []byte(`{"test": 2432232314}`), Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		})
		want := "POST /a%2Fb?c=d%20e HTTP/1.1\r\n" +
			"Host: shop.example:8080\r\n" +
			"User-Agent: payledger/1.2\r\n" +
			"Content-Length: 20\r\n" +
			"Content-Type: application/json\r\n" +
			"Webhook-Attempt: 7\r\n" +
			"Webhook-Id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n" +
			"Webhook-Signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n" +
			"Webhook-Timestamp: 1614265330\r\n" +
			"\r\n" +
			`{"test": 2432232314}`
		if !o.Delivered {
			t.Fatalf("%+v", o)
		}
		if got := <-sent; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// loopback is a resolver to which every name is this machine.
func loopback(t testing.TB, address string) *net.Resolver {
	n := &names{lookup: func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(address)} }}
	return n.resolver(t)
}

func portOf(t testing.TB, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// TestTLS sends over real sockets to servers of every kind.
func TestTLS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configure func(*httptest.Server)
		host      string
		trust     bool
		class     Class
	}{
		"TLS 1.3": {func(*httptest.Server) {}, "example.com", true, ClassDelivered},
		"TLS 1.2": {func(s *httptest.Server) { s.TLS = &tls.Config{MaxVersion: tls.VersionTLS12} }, "example.com", true, ClassDelivered},
		"TLS 1.1": {func(s *httptest.Server) {
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		}, "example.com", true, ClassTLS},
		"one that speaks h2":  {func(s *httptest.Server) { s.EnableHTTP2 = true }, "example.com", true, ClassDelivered},
		"another's name":      {func(*httptest.Server) {}, "shop.test", true, ClassTLS},
		"an unknown issuer":   {func(*httptest.Server) {}, "example.com", false, ClassTLS},
		"a name with its dot": {func(*httptest.Server) {}, "example.com.", true, ClassDelivered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Pointer[http.Request]
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r) }))
			c.configure(server)
			server.Config.ErrorLog = silent()
			server.StartTLS()
			defer server.Close()
			config := Config{AllowPrivate: true, Resolver: loopback(t, "127.0.0.1"), RootCAs: x509.NewCertPool()}
			if c.trust {
				config.RootCAs.AddCert(server.Certificate())
			}
			s := NewSender(config)
			defer s.Close()
			o := s.Send(t.Context(), attempt("https://"+c.host+":"+portOf(t, server.URL)+"/"))
			if o.Class != c.class || o.Delivered != (c.class == ClassDelivered) {
				t.Errorf("%+v, want %q", o, c.class)
			}
			r := got.Load()
			if o.Delivered != (r != nil) || (r != nil && (r.Proto != "HTTP/1.1" || r.TLS.Version < tls.VersionTLS12)) {
				t.Errorf("the server saw %+v", r)
			}
		})
	}
}

// TestRealFailures are those that come from the system's network.
func TestRealFailures(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	s := NewSender(Config{AllowPrivate: true, Resolver: (&names{lookup: func(string) []netip.Addr { return nil }}).resolver(t)})
	defer s.Close()
	if o := s.Send(t.Context(), attempt(gone.URL)); o.Class != ClassConnect {
		t.Errorf("nobody listens: %+v", o)
	}
	if o := s.Send(t.Context(), attempt("https://shop.example/")); o.Class != ClassDNS {
		t.Errorf("no such name: %+v", o)
	}
	reset, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer reset.Close()
	go func() {
		for {
			c, err := reset.Accept()
			if err != nil {
				return
			}
			request(bufio.NewReader(c))
			c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // a reset instead of an end
			c.Close()
		}
	}()
	if o := s.Send(t.Context(), attempt("http://"+reset.Addr().String())); o.Class != ClassReset {
		t.Errorf("reset: %+v", o)
	}
}

// forbidden is a server that counts the connections made to it, which should
// be none.
func forbidden(t testing.TB, address string) (listening string, reached *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("listening on %s: %v", address, err)
	}
	reached = new(atomic.Int64)
	server := &httptest.Server{Listener: l, Config: &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          silent(),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				reached.Add(1)
			}
		},
	}}
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String(), reached
}

// TestNobodyIsReached has a server on one of the machine's own addresses, on
// a port that may be called: by none of its names and spellings is it reached,
// until the operator allows it.
func TestNobodyIsReached(t *testing.T) {
	t.Parallel()
	a := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(2 + rand.IntN(250))}) // only Linux has them all
	_, reached := forbidden(t, a.String()+":8443")
	guarded := NewSender(Config{Resolver: loopback(t, a.String())})
	defer guarded.Close()
	free := NewSender(Config{Resolver: loopback(t, a.String()), AllowPrivate: true})
	defer free.Close()
	targets := []string{"https://shop.example:8443/", "https://localhost:8443/", "http://" + a.String() + ":8443/"}
	for _, host := range spellings(a) {
		targets = append(targets, strings.Replace(urlOf(host), "/hook", ":8443/hook", 1))
	}
	for _, target := range targets {
		if o := guarded.Send(t.Context(), attempt(target)); o.Class != ClassRefusedTarget {
			t.Errorf("%s: %+v", target, o)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the server was reached %d times", n)
	}
	for _, target := range []string{targets[0], fmt.Sprintf("https://%s:8443/", a), fmt.Sprintf("https://[::ffff:%s]:8443/", a)} {
		before := reached.Load()
		if o := free.Send(t.Context(), attempt(target)); o.Class != ClassTLS || reached.Load() == before {
			t.Errorf("%s, allowed: %+v, and the server was not reached", target, o)
		}
	}
}

// TestRedirectsAreNotFollowed to a place that must not be reached, which a
// client that follows them does reach.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	address, reached := forbidden(t, "127.0.0.1:0")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://"+address+"/")
		w.Header().Set("Refresh", "0; url=http://"+address+"/")
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status) //nolint:errcheck // the test asks for no other paths
		w.WriteHeader(status)
	}))
	defer server.Close()
	s := NewSender(Config{AllowPrivate: true})
	defer s.Close()
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		o := s.Send(t.Context(), attempt(fmt.Sprintf("%s/%d", server.URL, status)))
		if o.Class != ClassRedirect || o.Status != status || o.Delivered || o.Refused {
			t.Errorf("%d: %+v", status, o)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("reached %d times", n)
	}
	resp, err := server.Client().Post(server.URL+"/307", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if reached.Load() == 0 {
		t.Error("a client that follows redirects does not get there either")
	}
}

// TestNoProxy names one in the environment, which another transport uses. It
// runs in a process of its own: net/http reads these variables once.
func TestNoProxy(t *testing.T) {
	const inside = "PAYLEDGER_TEST_NO_PROXY"
	if os.Getenv(inside) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$", "-test.count=1")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	proxy, reached := forbidden(t, "127.0.0.1:0")
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy)
	}
	t.Setenv("no_proxy", "")
	t.Setenv("NO_PROXY", "")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	s := NewSender(Config{AllowPrivate: true, Resolver: loopback(t, "127.0.0.1")})
	defer s.Close()
	target := "http://shop.example:" + portOf(t, server.URL) + "/"
	if o := s.Send(t.Context(), attempt(target)); !o.Delivered || reached.Load() != 0 {
		t.Errorf("%+v, the proxy was reached %d times", o, reached.Load())
	}
	other := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer other.CloseIdleConnections()
	resp, err := (&http.Client{Transport: other}).Post(target, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if reached.Load() == 0 {
		t.Error("a transport that heeds the environment does not use the proxy either")
	}
}
