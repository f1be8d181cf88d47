package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"payledger/domain"
)

// TestFollowersAnswerAsTheSequencer asks every node what in truth one node knows or
// does.
func TestFollowersAnswerAsTheSequencer(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	t.Run("deliveries", func(t *testing.T) { deliveriesOnEveryNode(t, n) })
}

// everyNode runs a check for each node, the sequencer last.
func (n *nodes) everyNode(t *testing.T, check func(t *testing.T, s *server, dir string)) {
	first := n.sequencer(t, 0) + 1
	for i := range n.servers {
		at := (first + i) % len(n.servers)
		t.Run(nodeNames[at], func(t *testing.T) { check(t, n.servers[at], n.dirs[at]) })
	}
}

// deliveriesOnEveryNode adds an endpoint, has it notified, lists, sends again, recovers
// and tests, at each node.
func deliveriesOnEveryNode(t *testing.T, n *nodes) {
	n.everyNode(t, func(t *testing.T, s *server, dir string) {
		var down atomic.Bool
		down.Store(true)
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusGone)
			}
		}))
		defer hook.Close()
		endpoint := s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`"}`).text(t, "id")
		of := "/v1/webhook-endpoints/" + endpoint

		// The endpoint answers that it is gone, and is disabled for it.
		payment := s.do(t, 201, "POST", "/v1/payments", `{"amount":"15.00"}`).text(t, "id")
		eventually(t, "the payment is paid", func() bool {
			a, err := s.send("POST", "/v1/sandbox/payments/"+payment, `{"outcome":"paid"}`)
			return err == nil && a.Status == 200
		})
		states := func() (all []domain.DeliveryObject) {
			var list struct {
				Data []domain.DeliveryObject `json:"data"`
			}
			if err := json.Unmarshal(s.do(t, 200, "GET", of+"/deliveries?payment_id="+payment, "").Body, &list); err != nil {
				t.Fatal(err)
			}
			return list.Data
		}
		eventually(t, "the delivery is held", func() bool {
			all := states()
			return len(all) == 1 && all[0].State == domain.DeliveryHeld
		})
		event := states()[0].EventID.String()
		s.do(t, 409, "POST", of+"/test", `{}`)
		s.do(t, 200, "POST", of+"/enable", `{}`)
		if health := string(s.do(t, 200, "GET", of, "").Body); !strings.Contains(health, `"undelivered":1`) {
			t.Errorf("one delivery is held: %s", health)
		}

		down.Store(false)
		out := does(t, "webhook", "deliveries", endpoint, "--data", dir)
		if !strings.Contains(out, "held") {
			t.Errorf("webhook deliveries: %s", out)
		}
		if out := string(s.do(t, 202, "POST", of+"/recover", `{"since":"2020-01-01T00:00:00Z"}`).Body); !strings.Contains(out, `"enqueued":1`) {
			t.Errorf("recover: %s", out)
		}
		eventually(t, "the delivery is delivered", func() bool { return states()[0].State == domain.DeliveryDelivered })
		s.do(t, 202, "POST", of+"/deliveries/"+event+"/resend", `{}`)
		eventually(t, "it is delivered again", func() bool {
			all := states()
			return all[0].State == domain.DeliveryDelivered && len(all[0].Attempts) >= 3
		})
		s.do(t, 404, "POST", of+"/deliveries/01M7W78FJBM8T4R7B5N0C1D2E3/resend", `{}`)
		s.do(t, 202, "POST", of+"/test", `{}`)
		if out := does(t, "webhook", "test", endpoint, "--data", dir); !strings.Contains(out, "delivered") {
			t.Errorf("webhook test: %s", out)
		}
		s.do(t, 200, "GET", "/v1/payments/"+payment+"/deliveries", "")
		s.do(t, 204, "DELETE", of, "")
	})
}
