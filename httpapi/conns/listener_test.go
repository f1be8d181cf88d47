package conns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// generous is a limit for steps that are fast, except on a busy machine.
const generous = 2 * time.Minute

// server answers GET /long with more than any buffer on the way holds, and
// everything else with its body.
type server struct {
	t       *testing.T
	addr    string
	l       *Listener
	metrics *prometheus.Registry
	release chan struct{} // lets requests for /work end
	working chan struct{} // one for each that began
}

// from makes connections come from an address of choice.
type from struct {
	net.Listener
	addrs chan string
}

func (f from) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	addr := "127.0.0.1"
	select {
	case addr = <-f.addrs:
	default:
	}
	return seenAs{c.(*net.TCPConn), addr}, nil
}

type seenAs struct {
	*net.TCPConn
	addr string
}

func (c seenAs) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.addr), Port: 1} }

func serve(t *testing.T, c Config) (*server, chan<- string) {
	t.Helper()
	inner, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addrs := make(chan string, 1000)
	s := &server{t: t, addr: inner.Addr().String(), metrics: prometheus.NewRegistry(), release: make(chan struct{}), working: make(chan struct{}, 1000)}
	c.Name, c.Metrics = "test", s.metrics
	if s.l, err = New(from{inner, addrs}, c); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.RawQuery)
		if err != nil {
			size = 8 << 20
		}
		_, _ = w.Write(make([]byte, size))
	})
	mux.HandleFunc("/work", func(http.ResponseWriter, *http.Request) {
		s.working <- struct{}{}
		<-s.release
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	h := &http.Server{Handler: mux, ConnState: s.l.State, ReadHeaderTimeout: generous}
	var served sync.WaitGroup
	served.Go(func() {
		if err := h.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		close(s.release)
		h.Close()
		served.Wait()
		if len(s.l.open) != 0 || len(s.l.byAddress) != 0 {
			t.Errorf("places not given back: %d, %v", len(s.l.open), s.l.byAddress)
		}
	})
	return s, addrs
}

// send opens a connection with small buffers and writes to it.
func (s *server) send(text string) *net.TCPConn {
	s.t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1<<10) })
	}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	fmt.Fprint(c, text)
	return c.(*net.TCPConn)
}

const hello = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reports whether a request on the connection is answered.
func answered(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(generous))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

func (s *server) eventually(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(generous); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal(what)
		}
	}
}

func (s *server) metric(name string, want float64) func() bool {
	return func() bool {
		s.t.Helper()
		families, err := s.metrics.Gather()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				full := f.GetName()
				for _, l := range m.GetLabel() {
					if l.GetName() == "reason" {
						full += " " + l.GetValue()
					}
				}
				if full == "payledger_connections_"+name {
					return m.GetGauge().GetValue()+m.GetCounter().GetValue() == want
				}
			}
		}
		s.t.Fatalf("no metric %s", name)
		return false
	}
}

func TestStalledReaderIsDropped(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, Config{Max: 10, Patience: 200 * time.Millisecond})
	s.send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	s.send(strings.Repeat(hello, 20_000)) // pipelined
	s.eventually("they hold their connections", s.metric("open", 0))
	s.eventually("not counted", s.metric("dropped_total not_reading", 2))
}

// A full listener closes connections that wait for their client: those without
// a request first, those stalled in the middle of an answer or a body next.
func TestConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 5
	for name, hold := range map[string]string{
		"idle":    hello,
		"silent":  "",
		"header":  "GET / HTTP/1.1\r\nHo",
		"answer":  "GET /long HTTP/1.1\r\nHost: x\r\n\r\n",
		"body":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
		"pending": strings.Repeat(hello, 20_000),
		"answers": strings.Repeat("GET /long HTTP/1.1\r\nHost: x\r\n\r\n", 3),
	} {
		s, _ := serve(t, Config{Max: most, Patience: generous})
		for range most {
			s.send(hold)
		}
		s.eventually(name+": not full", s.metric("open", most))
		s.eventually(name+": shut out", func() bool { return answered(s.send(hello)) })
		if !s.metric("open", most)() || s.metric("dropped_total gave_way", 0)() {
			t.Errorf("%s: nobody gave way", name)
		}
	}
}

// Requests at work are never closed for others.
func TestWorkDoesNotGiveWay(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, Config{Max: 2, Patience: generous})
	var working []net.Conn
	for range 2 {
		working = append(working, s.send("GET /work HTTP/1.1\r\nHost: x\r\n\r\n"))
		<-s.working
	}
	if answered(s.send(hello)) || !s.metric("refused_total all", 1)() {
		t.Error("not refused")
	}
	for range working { // either may hear of the first
		s.release <- struct{}{}
	}
	for _, c := range working {
		if !answered(c) {
			t.Error("a request at work was closed")
		}
	}
	s.eventually("still full", func() bool { return answered(s.send(hello)) })
}

func TestShareOfAnAddress(t *testing.T) {
	t.Parallel()
	s, addrs := serve(t, Config{Max: 100, PerAddress: 2, Patience: generous})
	work := func(addr string) net.Conn {
		addrs <- addr
		return s.send("GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for _, addr := range []string{"2001:db8::1", "2001:db8::ffff:2", "203.0.113.7", "203.0.113.7"} {
		work(addr)
		<-s.working
	}
	for i, addr := range []string{"2001:db8::3", "203.0.113.7", "::ffff:203.0.113.7"} {
		if answered(work(addr)) || !s.metric("refused_total address", float64(i+1))() {
			t.Errorf("%s has more than its share", addr)
		}
	}
	// Nobody else is refused, nor is where a proxy may be.
	for _, addr := range []string{"2001:db8:0:1::1", "203.0.113.8", "10.0.0.1", "10.0.0.1", "10.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"} {
		work(addr)
		<-s.working
	}
	// An address over its share closes its own connections, nobody else's.
	for range 3 {
		addrs <- "203.0.113.9"
		if !answered(s.send(hello)) {
			t.Error("idle connections of the address do not give way")
		}
	}
	if !s.metric("dropped_total gave_way", 1)() {
		t.Error("want one that gave way")
	}
}
