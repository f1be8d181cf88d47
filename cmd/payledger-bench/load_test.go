package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a target in this process.
func fake(t *testing.T, h http.HandlerFunc) *target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &target{name: "fake", addr: s.Listener.Addr().String(), projects: []project{{"prj_a", "sk_a"}}}
}

const someID = "01M7W78FJBM8T4R7B5N0C1D2E3"

func created(w http.ResponseWriter) {
	w.WriteHeader(http.StatusCreated)
	w.Write([]byte(`{"id":"` + someID + `"}`)) //nolint:errcheck // the client would tell
}

// TestVerify reads what was acknowledged from a service that forgets it.
func TestVerify(t *testing.T) {
	t.Parallel()
	var forget atomic.Bool
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if forget.Load() && strings.HasSuffix(r.URL.Path, "7") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write([]byte(`{"id":"` + strings.TrimPrefix(r.URL.Path, "/v1/payments/") + `"}`)) //nolint:errcheck // the client would tell
	})
	for i := range 10 {
		p := acked{id: id([]byte(someID)), project: s.projects[0]}
		p.id[25] = byte('0' + i)
		s.created([]acked{p})
	}
	if n, err := s.verify(t.Context()); n != 10 || err != nil {
		t.Errorf("all are there: %d checked, %v", n, err)
	}
	forget.Store(true)
	if _, err := s.verify(t.Context()); !errors.As(err, new(*lostError)) || !strings.Contains(err.Error(), "01M7W78FJBM8T4R7B5N0C1D2E7") {
		t.Errorf("one is lost: %v", err)
	}
}

// TestClosedLoop counts what is answered as it should be, and ends at an answer
// that is not.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("Idempotency-Key")) != 36 || r.Header.Get("Authorization") != "Bearer prj_a:sk_a" || n.Add(1) > 100 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		created(w)
	})
	o, err := s.drive(t.Context(), load{connections: 4}, times(100, creating(s)))
	if err != nil || o.all != 100 || o.rate == 0 || o.p99 == 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	keys := map[int64]bool{}
	for _, p := range s.all() {
		keys[p.key] = true
	}
	if len(keys) != 100 {
		t.Errorf("%d keys for 100 payments", len(keys))
	}
	n.Store(0) // a machine without a processor to spare begins after the end
	if o, err = s.drive(t.Context(), load{connections: 4, duration: time.Nanosecond}, creating(s)); err != nil || o.all != 4 {
		t.Errorf("each connection makes a request: %+v, %v", o, err)
	}
	n.Store(100)
	if _, err := s.drive(t.Context(), load{connections: 4}, times(1, creating(s))); !errors.As(err, new(*answerError)) || !strings.Contains(err.Error(), "503") {
		t.Errorf("a refusal: %v", err)
	}
}

// TestOpenLoop: a server that stalls once is charged for all who were due.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	const stall = 100 * time.Millisecond
	var once atomic.Bool
	s := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		if once.CompareAndSwap(false, true) {
			<-time.After(stall)
		}
		created(w)
	})
	o, err := s.drive(t.Context(), load{connections: 1, rate: 1000, duration: 2 * stall}, creating(s))
	if err != nil {
		t.Fatal(err)
	}
	// Half of the 200 requests were due during the stall.
	if o.all != 200 || o.p99 < 75 {
		t.Errorf("%+v: the stall of %v is not in it", o, stall)
	}
}

func TestClientRefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"no HTTP":       "hello, this is not HTTP\r\n\r\n",
		"no length":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a long answer": "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"cut short":     "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
		"a huge header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxAnswer),
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			if c, err := l.Accept(); err == nil {
				c.Write([]byte(sent)) //nolint:errcheck // the client would tell
				c.Close()
			}
		}()
		s := &target{name: "fake", addr: l.Addr().String()}
		c, err := s.dial(t.Context(), project{}, time.Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.do("GET", "/", 0, ""); err == nil {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		c.close()
		l.Close()
		<-served
	}
}
