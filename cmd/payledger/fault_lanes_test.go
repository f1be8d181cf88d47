package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"payledger/cmd/payledger/datadir"
)

// TestLostLanesForgetNoOutcome deletes lanes.db before anything was delivered. The
// newest event of each payment is sent, earlier outcomes are listed as unconfirmed,
// and no receiver sees a payment go backward.
func TestLostLanesForgetNoOutcome(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir()+"/data", newHook(t)
	demo := func() *server {
		return start(t, "demo", "--data", dir, "--webhook-allow-private", "--admin-listen", "127.0.0.1:0")
	}
	s := demo()
	endpoint := "/v1/webhook-endpoints/" + s.do(t, 201, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":%q}`, to.URL+"/")).text(t, "id")
	s.do(t, 200, "POST", endpoint+"/disable", "")
	const each = 4
	for range each {
		s.paid(t)
		refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, s.paid(t))).text(t, "id")
		s.do(t, 200, "POST", "/v1/sandbox/refunds/"+refund, `{"outcome":"succeeded"}`)
	}
	list := func(state string) (kinds []string) {
		for _, d := range s.do(t, 200, "GET", endpoint+"/deliveries?limit=100&state="+state, "").object(t)["data"].([]any) {
			kinds = append(kinds, d.(map[string]any)["type"].(string))
		}
		return kinds
	}
	of := func(kind string, kinds []string) int { return strings.Count(strings.Join(kinds, " "), kind) }
	eventually(t, "all outcomes are held", func() bool { return len(list("held")) == 3*each })
	s.stops(t)
	removeAll(t, datadir.Dir(dir).Lanes())

	s = demo()
	eventually(t, "the newest are held and the others listed", func() bool {
		return len(list("held")) == 2*each && len(list("unconfirmed")) == each
	})
	if held := list("held"); of("payment.paid", held) != each || of("refund.succeeded", held) != each {
		t.Errorf("held: %v", held)
	}
	if lost := list("unconfirmed"); of("payment.paid", lost) != each {
		t.Errorf("unconfirmed: %v", lost)
	}
	health := s.do(t, 200, "GET", endpoint, "").object(t)["health"].(map[string]any)
	if n := health["undelivered"]; n != float64(3*each) {
		t.Errorf("%v undelivered, want %d", n, 3*each)
	}
	if !bytes.Contains(s.scrape(t), fmt.Appendf(nil, "payledger_webhook_unconfirmed_total %d\n", each)) {
		t.Error("the metrics do not tell how many are unconfirmed")
	}
	if !strings.Contains(s.stderr.String(), "the lane file is missing") {
		t.Error("the log does not say that the file is missing")
	}
	s.do(t, 200, "POST", endpoint+"/enable", "")
	if n := s.do(t, 202, "POST", endpoint+"/recover", `{"since":"2020-01-01T00:00:00Z"}`).object(t)["enqueued"]; n != float64(2*each) {
		t.Errorf("%v are recovered, want %d", n, 2*each)
	}
	eventually(t, "the newest are delivered", func() bool { return len(list("delivered")) == 2*each })
	if n := len(list("unconfirmed")); n != each {
		t.Errorf("%d are unconfirmed then", n)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, wrong := range to.wrongs {
		t.Error(wrong)
	}
}
