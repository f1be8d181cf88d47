package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// holder is a receiver that reads a request, writes anything and keeps the
// connection open. Once it is healed it answers 200 and closes.
type holder struct {
	url    string
	held   atomic.Int64 // requests that are kept
	healed atomic.Bool
}

func newHolder(t *testing.T, says string) *holder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{url: "http://" + l.Addr().String() + "/"}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c, says)
		}
	}()
	return h
}

func (h *holder) serve(c net.Conn, says string) {
	defer c.Close()
	for b := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(b)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if h.healed.Load() {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // the sender tries again
			return
		}
		h.held.Add(1)
		io.WriteString(c, says) //nolint:errcheck // the sender may hang up
	}
}

// TestReceiversThatHold: all connections of every endpoint are held open by
// receivers. Each attempt ends as a failure, the notifications are delivered once
// the receivers work, and the server stops in time while they hold.
func TestReceiversThatHold(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--webhook-allow-private", "--webhook-retry-schedule", "0s"+strings.Repeat(",1s", 60), "--shutdown-timeout", "5s")
	const payments = 20 // more than an endpoint has requests at a time
	receivers := map[string]*holder{}
	endpoints := map[string]string{}
	for name, says := range map[string]string{
		"101":            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"101 to h2c":     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"interim":        "HTTP/1.1 102 Processing\r\n\r\n",
		"half a head":    "HTTP/1.1 200 OK\r\nX-More: ",
		"half a refusal": "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nno",
		"silence":        "",
	} {
		receivers[name] = newHolder(t, says)
		e := s.do(t, 201, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":%q}`, receivers[name].url))
		endpoints[name] = e.text(t, "id")
	}
	for range payments {
		s.paid(t)
	}
	count := func(name, state string) int {
		path := "/v1/webhook-endpoints/" + endpoints[name] + "/deliveries?limit=100&state=" + state
		return len(s.do(t, 200, "GET", path, "").object(t)["data"].([]any))
	}
	eventually(t, "the breaker of the endpoint that answers 101 opens", func() bool {
		return s.do(t, 200, "GET", "/v1/webhook-endpoints/"+endpoints["101"], "").object(t)["health"].(map[string]any)["paused_until"] != nil
	})
	asked := s.do(t, 202, "POST", "/v1/webhook-endpoints/"+endpoints["101"]+"/test", "").text(t, "event_id")
	eventually(t, "a test is sent while the endpoint is paused", func() bool {
		d := s.do(t, 200, "GET", "/v1/webhook-endpoints/"+endpoints["101"]+"/deliveries/"+asked, "").object(t)
		return len(d["attempts"].([]any)) > 0
	})
	receivers["101"].healed.Store(true)
	s.do(t, 200, "POST", "/v1/webhook-endpoints/"+endpoints["101"], `{"description":"well again"}`)
	eventually(t, "the endpoint that answered 101 gets everything", func() bool { return count("101", "delivered") == payments+1 })

	for name, r := range receivers {
		eventually(t, name+" holds connections", func() bool { return r.held.Load() > 0 })
	}
	began := time.Now()
	s.stops(t)
	if took := time.Since(began); took > 5*time.Second+15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
