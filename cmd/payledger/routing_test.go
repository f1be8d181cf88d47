package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestRulesChangeWhilePaymentsAreMade: a route is chosen where a payment is created, by
// the rules of that moment. A repeated request gets its first answer, whatever the rules
// are now; a payment that waits for a paused route fails once no rule takes it.
func TestRulesChangeWhilePaymentsAreMade(t *testing.T) {
	t.Parallel()
	d, routes := t.TempDir()+"/data", filepath.Join(t.TempDir(), "routes.json")
	set := func(rules string) {
		t.Helper()
		if err := os.WriteFile(routes, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		if out, code := payledger(t, append(args, "--data", d)...); code != 0 {
			t.Fatal(out)
		}
	}
	set(`[{"route":"cards","currency":"RUB","max":"100.00"}]`)
	run("init")
	s := start(t, "serve", "--data", d, "--routes", routes)
	s.newProject(t)

	const key = "5f0c5f0e-7d55-4b53-9c3e-6f6f3a1f8a10"
	first := s.do(t, 201, "POST", "/v1/payments", `{"amount":"50.00"}`, "Idempotency-Key", key)
	if got := first.text(t, "status"); got != "awaiting_payment" {
		t.Errorf("a new payment is %s", got)
	}
	set(`[{"route":"cards","currency":"RUB","max":"10.00"}]`)
	run("routes", "reload")
	again := s.do(t, 201, "POST", "/v1/payments", `{"amount":"50.00"}`, "Idempotency-Key", key)
	if !bytes.Equal(again.Body, first.Body) || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("repeated: %s, first: %s", again.Body, first.Body)
	}
	if refused := s.do(t, 422, "POST", "/v1/payments", `{"amount":"50.00"}`); !strings.Contains(string(refused.Body), `"pointer":"#/amount","code":"no_route"`) {
		t.Errorf("%s", refused.Body)
	}

	run("routes", "pause", "cards")
	waiting := s.do(t, 201, "POST", "/v1/payments", `{"amount":"5.00"}`)
	if got := waiting.text(t, "status"); got != "created" {
		t.Errorf("while its route is paused it is %s", got)
	}
	set(`[{"route":"cards","currency":"RUB","max":"1.00"}]`)
	run("routes", "reload")
	path := "/v1/payments/" + waiting.text(t, "id")
	eventually(t, "it fails, since no rule takes it", func() bool { return s.do(t, 200, "GET", path, "").text(t, "status") == "failed" })
	if events := s.do(t, 200, "GET", path+"/events", ""); !strings.Contains(string(events.Body), `"reason":"no_route"`) {
		t.Errorf("%s", events.Body)
	}
	s.stops(t)
	run("verify")
}

// TestPaymentsOfTheVersionBefore: a payment that an older program created, without a
// route, gets it at the next start.
func TestPaymentsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	d := t.TempDir() + "/data"
	s := start(t, "demo", "--data", d)
	s.stops(t)

	store, err := datadir.Dir(d).Open(bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, event := domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Pair()
	settings := domain.DefaultSettings()
	created, err := domain.Payment{Project: s.ProjectID, ID: id}.Decide(domain.CreatePayment{
		At: domain.IDTime(event), Amount: 100, Currency: domain.DefaultCurrency, Settings: settings,
		Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}.Commit(
		eventstore.PaymentStream(s.ProjectID, id), eventstore.Stored{}, created, eventstore.Order{EventID: event})
	if err != nil {
		t.Fatal(err)
	}
	c.Record.Body, c.Record.Event = bytes.Replace(c.Record.Body, []byte(`"version":2`), []byte(`"version":1`), 1), nil
	if _, err := eventstore.AppendOne(t.Context(), store, c); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	s = start(t, "demo", "--data", d)
	eventually(t, "it has its route", func() bool {
		return s.do(t, 200, "GET", "/v1/payments/"+id.String(), "").text(t, "status") == "awaiting_payment"
	})
	if events := s.do(t, 200, "GET", "/v1/payments/"+id.String()+"/events", ""); !strings.Contains(string(events.Body), `"type":"payment.route_assigned"`) {
		t.Errorf("%s", events.Body)
	}
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+id.String(), `{"outcome":"paid"}`)
	s.stops(t)
	if out, code := payledger(t, "verify", "--data", d); code != 0 {
		t.Error(out)
	}
}

// TestEndpointsHearOfNewPayments: an endpoint that takes payment.created is notified of
// each new payment, though the payment awaits its money at once.
func TestEndpointsHearOfNewPayments(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	heard := make(map[string][]string) // by path
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct {
			Type string
			Data struct{ Status string }
		}
		err := json.NewDecoder(r.Body).Decode(&n)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			heard[r.URL.Path] = append(heard[r.URL.Path], n.Type+" "+n.Data.Status)
		}
	}))
	t.Cleanup(hook.Close)
	s := start(t, "demo", "--webhook-allow-private")
	for path, kinds := range map[string]string{
		"/created": `"payment.created"`, "/awaiting": `"payment.awaiting_payment"`, "/both": `"payment.created","payment.awaiting_payment"`,
	} {
		s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+path+`","kinds":[`+kinds+`]}`)
	}
	s.do(t, 201, "POST", "/v1/payments", `{"amount":"1.00"}`)
	eventually(t, "all three hear of it", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(heard) == 3
	})
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]string{
		"/created": "payment.created awaiting_payment", "/awaiting": "payment.awaiting_payment awaiting_payment",
		"/both": "payment.awaiting_payment awaiting_payment",
	} {
		if got := strings.Join(heard[path], ", "); got != want {
			t.Errorf("%s heard %q, want %q", path, got, want)
		}
	}
}
