package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

const testTrace = "0af7651916cd43dd8448eb211c80319c"

// What follows from a request is in its trace: its events, the messages on NATS
// and the notifications.
func TestTraceFollowsAPayment(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	notified := make(map[string]string) // traceparent by payment
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		_ = json.UnmarshalRead(r.Body, &n)
		mu.Lock()
		defer mu.Unlock()
		notified[n.Data.ID] = r.Header.Get("Traceparent")
	}))
	t.Cleanup(hook.Close)
	s := start(t, "demo", "--data", t.TempDir(), "--webhook-allow-private", "--nats-listen", "127.0.0.1:0", "--log-level", "debug")
	s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`"}`)
	books := connected(t, s, newConsumer(t, s, "books"))

	const parent = "00-" + testTrace + "-b7ad6b7169203331-01"
	traced := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00"}`, "Traceparent", parent).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+traced, `{"outcome":"paid"}`)
	plain := s.paid(t)
	eventually(t, "both are notified", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(notified) == 2
	})
	if notified[traced] != parent || notified[plain] != "" {
		t.Errorf("notifications have traces %v", notified)
	}

	durable, err := books.js.Consumer(t.Context(), books.Stream, books.Durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := durable.Fetch(6, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		want := ""
		if strings.HasSuffix(m.Subject(), traced) {
			want = parent
		}
		if got := m.Headers().Get("ce-traceparent"); got != want {
			t.Errorf("%s has traceparent %q, want %q", m.Headers().Get("ce-type"), got, want)
		}
	}
	out, _ := payledger(t, "events", "tail", "--data", s.Data, "--json")
	if n := strings.Count(out, `,"traceparent":"`+parent+`"`); n != 3 {
		t.Errorf("%d events have the trace, want 3:\n%s", n, out)
	}
	eventually(t, "the delivery is logged with its trace", func() bool {
		for line := range strings.Lines(s.stderr.String()) {
			if strings.Contains(line, "a notification was sent") && strings.Contains(line, `"trace_id":"`+testTrace+`"`) {
				return true
			}
		}
		return false
	})
	s.stops(t)
	if out, code := payledger(t, "verify", "--data", s.Data); code != 0 {
		t.Error(out)
	}
}
