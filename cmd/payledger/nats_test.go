package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/notifier/health/healthtest"
)

// TestSubscriberAndConnector takes a payment of an ordinary provider's route from
// creation to paid, through both NATS users.
func TestSubscriberAndConnector(t *testing.T) {
	t.Parallel()
	d := datadir.Dir(t.TempDir() + "/data")
	routes := filepath.Join(t.TempDir(), "routes.json")
	if err := os.WriteFile(routes, []byte(`[{"route":"acme","currency":"RUB","max":"5000.00","weight":1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := payledger(t, "init", "--data", string(d)); code != 0 {
		t.Fatal(out)
	}
	s := start(t, "serve", "--data", string(d), "--nats-listen", "127.0.0.1:0", "--routes", routes)
	s.newProject(t)
	var passwords map[string]struct{ User, Password string }
	content, err := os.ReadFile(d.Credentials())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &passwords); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.Credentials()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v %v, want mode 0600", d.Credentials(), info.Mode(), err)
	}
	connectAs := func(name string) *nats.Conn {
		c := passwords[name]
		nc, err := nats.Connect(s.NATSAddress, nats.UserInfo(c.User, c.Password), nats.CustomInboxPrefix("_INBOX_"+name), nats.Timeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	if _, err := nats.Connect(s.NATSAddress); err == nil {
		t.Error("the embedded server lets anybody in")
	}
	subscriber, connector := connectAs("subscriber"), connectAs("connector")

	js, err := jetstream.New(subscriber)
	if err != nil {
		t.Fatal(err)
	}
	var events jetstream.Consumer
	eventually(t, "the subscriber's consumer exists", func() bool {
		events, err = js.Consumer(t.Context(), "EVENTS", "subscriber")
		return err == nil
	})
	paid, err := subscriber.SubscribeSync("payledger.v1.events.*.payment.paid")
	if err != nil {
		t.Fatal(err)
	}
	next := func(wantType string) jetstream.Msg {
		t.Helper()
		msg, err := events.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("waiting for %s: %v", wantType, err)
		}
		if got := msg.Headers().Get("ce-type"); got != wantType {
			t.Fatalf("got %s, want %s: %s", got, wantType, msg.Data())
		}
		return msg
	}

	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00"}`).text(t, "id")
	created := next("payment.created")
	if want := "payledger.v1.events." + s.ProjectID + ".payment.created"; created.Subject() != want || created.Headers().Get("ce-subject") != "payment/"+id {
		t.Errorf("subject %s, want %s; %v", created.Subject(), want, created.Headers())
	}
	stored := s.do(t, 200, "GET", "/v1/payments/"+id+"/events", "").Body
	if !strings.Contains(string(stored), string(created.Data())) {
		t.Errorf("the message is not the stored event:\n%s\n%s", created.Data(), stored)
	}
	// The event holds all that a connector needs to collect the money, and who asked for it.
	event := answer{Body: created.Data()}.object(t)
	got := event["data"].(map[string]any)
	if got["route"] != "acme" || got["amount"] != "1500.00" || got["currency"] != "RUB" || got["expires_at"] == nil || !strings.HasPrefix(fmt.Sprint(event["actor"]), "key_") {
		t.Errorf("%s", created.Data())
	}

	var ago time.Duration // the attempt began
	about := `"outcome":"paid"`
	signal := func(reference, amount string) (reply struct{ Result, Reason string }) {
		t.Helper()
		inbox := connector.NewInbox()
		sub, err := connector.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		msg := nats.NewMsg("payledger.v1.signals.acme." + s.ProjectID + "." + id)
		msg.Header.Set("Payledger-Reply", inbox)
		msg.Data = fmt.Appendf(nil, `{%s,"reference":%q,"amount":%q,"currency":"RUB","started_at":%q}`,
			about, reference, amount, time.Now().Add(-ago).UTC().Format(time.RFC3339))
		if err := connector.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		answer, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answer.Data, &reply); err != nil {
			t.Fatalf("%s: %v", answer.Data, err)
		}
		return reply
	}
	if r := signal("prv-1", "1500.00"); r.Result != "applied" {
		t.Errorf("first signal: %+v", r)
	}
	if got := s.do(t, 200, "GET", "/v1/payments/"+id, "").text(t, "status"); got != "paid" {
		t.Errorf("after the reply the payment is %s", got)
	}
	if r := signal("prv-1", "1500.00"); r.Result != "unchanged" {
		t.Errorf("the same signal again: %+v", r)
	}
	if r := signal("prv-2", "1500.00"); r.Result != "late_funds" || r.Reason != "paid_twice" {
		t.Errorf("another reference: %+v", r)
	}
	next("payment.paid")
	next("payment.late_funds")

	first := id
	// The money of a reference is booked once, whether as payment or as late funds,
	// and an attempt from before the payment is refused.
	id = s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00"}`).text(t, "id")
	next("payment.created")
	for _, used := range []string{"prv-1", "prv-2"} {
		if r := signal(used, "1500.00"); r.Result != "refused" || r.Reason != "reference_used" {
			t.Errorf("the reference %s of another payment: %+v", used, r)
		}
		next("payment.signal_refused")
	}
	ago = time.Hour
	if r := signal("prv-3", "1500.00"); r.Result != "refused" || r.Reason != "started_early" {
		t.Errorf("an attempt from before the payment: %+v", r)
	}
	next("payment.signal_refused")
	ago = 0
	if r := signal("prv-4", "1500.00"); r.Result != "applied" {
		t.Errorf("its own reference: %+v", r)
	}
	next("payment.paid")

	// One reference is of one refund.
	for _, payment := range []string{first, id} {
		id = payment
		refund := s.do(t, 201, "POST", "/v1/refunds", `{"payment_id":"`+id+`"}`).text(t, "id")
		about = `"outcome":"succeeded","refund_id":"` + refund + `"`
		r, status := signal("prv-back", "1500.00"), s.do(t, 200, "GET", "/v1/refunds/"+refund, "").text(t, "status")
		if id == first && (r.Result != "applied" || status != "succeeded") || id != first && (r.Reason != "reference_used" || status != "pending") {
			t.Errorf("a refund under one reference: %+v, %s", r, status)
		}
	}

	// A subscription to one type brings nothing else.
	for range 2 {
		if m, err := paid.NextMsg(patience); err != nil || m.Header.Get("ce-type") != "payment.paid" {
			t.Errorf("of a subscription to payment.paid: %v, %v", m, err)
		}
	}
	if m, err := paid.NextMsg(10 * time.Millisecond); err == nil {
		t.Errorf("of a subscription to payment.paid: %v", m.Header)
	}

	// Neither user may do the other's part.
	if _, err := js.Publish(t.Context(), "payledger.v1.signals.acme.x.y", nil); err == nil {
		t.Error("the subscriber can publish signals")
	}
	if sub, err := connector.SubscribeSync("payledger.v1.events.>"); err == nil {
		s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`)
		if msg, err := sub.NextMsg(300 * time.Millisecond); err == nil {
			t.Errorf("the connector reads events: %s", msg.Data)
		}
	}

	// No rule takes this amount, and nothing is recorded.
	before := s.do(t, 200, "GET", "/v1/payments", "").Body
	if got := string(s.do(t, 422, "POST", "/v1/payments", `{"amount":"5000.01"}`).Body); !strings.Contains(got, `"pointer":"#/amount","code":"no_route"`) {
		t.Error(got)
	}
	if after := s.do(t, 200, "GET", "/v1/payments", "").Body; string(after) != string(before) {
		t.Errorf("%s\nbefore: %s", after, before)
	}
}

// TestExternalNATS runs the ledger on an external NATS server, stops that server for
// a while, and refuses a second log on it.
func TestExternalNATS(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	addr := healthtest.FreeAddress(t)
	stopNATS := runNATSServer(t, addr, store)

	d := t.TempDir() + "/data"
	s := start(t, "demo", "--data", d, "--nats-url", "nats://"+addr)
	s.paid(t)
	stopNATS()
	for range 50 {
		s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`)
	}
	runNATSServer(t, addr, store)
	eventually(t, "what waited is routed", func() bool {
		list := s.do(t, 200, "GET", "/v1/payments?status=created", "").object(t)["data"].([]any)
		return len(list) == 0
	})

	nc, err := nats.Connect("nats://"+addr, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var log []string
	out, code := payledger(t, "events", "tail", "--data", d, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		_, event, _ := strings.Cut(strings.TrimSpace(line), `"event":`)
		log = append(log, strings.TrimSuffix(event, "}"))
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "every event is on JetStream", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.LastSeq >= uint64(len(log))
	})
	for i, want := range log {
		msg, err := stream.GetMsg(t.Context(), uint64(i)+1)
		if err != nil || string(msg.Data) != want {
			t.Fatalf("message %d: %v\n%s\nwant\n%s", i+1, err, msg.Data, want)
		}
	}

	if out, code := payledger(t, "demo", "--listen", "127.0.0.1:0", "--nats-url", "nats://"+addr); code != cli.ExitDirectory {
		t.Errorf("a second log on the same server: exit code %d\n%s", code, out)
	}
}

func (s *server) newProject(t testing.TB) {
	t.Helper()
	out, code := payledger(t, "project", "create", "Shop", "--data", s.Data, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	created := answer{Body: []byte(out)}
	s.ProjectID, s.APIKey = created.text(t, "project_id"), created.text(t, "api_key")
}

func runNATSServer(t *testing.T, addr, store string) (stop func()) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(natsServer, "-js", "-sd", store, "-a", host, "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		cmd.Process.Kill() //nolint:errcheck // it may be gone already
		cmd.Wait()         //nolint:errcheck // killed
	}
	t.Cleanup(stop)
	eventually(t, "nats-server takes connections", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return stop
}
