package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHangupReadsTheRoutesAgain: a wrong file changes nothing and says what is
// wrong; the next payment takes the rules of a good one.
func TestHangupReadsTheRoutesAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "routes.json")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"route":"acme"}]`)
	s := start(t, "demo", "--log-level=info", "--routes", file, "--admin-listen", "127.0.0.1:0")
	reload := func(content, want string) {
		t.Helper()
		write(content)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log says "+want, func() bool { return strings.Contains(s.stderr.String(), want) })
	}
	routed := func(route string) {
		t.Helper()
		id := s.do(t, http.StatusCreated, http.MethodPost, "/v1/payments", `{"amount":"1.00"}`).text(t, "id")
		eventually(t, "a payment takes the route "+route, func() bool {
			events := s.do(t, http.StatusOK, http.MethodGet, "/v1/payments/"+id+"/events", "").Body
			return strings.Contains(string(events), `"route":"`+route+`"`)
		})
	}
	routed("acme")
	reload(`[{"route":"other"},{"route":"Acme"}]`, `"line":1,"column":29,"pointer":"/1/route"`)
	routed("acme")
	reload(`[{"route":"other"}]`, `the routes file was read again`)
	if want := `the routes file does not name this route any more`; !strings.Contains(s.stderr.String(), want) {
		t.Errorf("want %s in\n%s", want, s.stderr)
	}
	scraped := string(s.scrape(t))
	for _, series := range []string{
		`payledger_payments_total{route="other",status="paid"} 0`, `payledger_refunds_total{route="other",status="failed"} 0`,
		`payledger_attempts_total{became="begun",route="other"} 0`, `payledger_route_paused{route="other"} 0`,
	} {
		if !strings.Contains(scraped, series) {
			t.Errorf("no %s once the route is there", series)
		}
	}
	routed("other")
	reload(`{"rules":[{"route":"other"}],"connectors":{"other":{"type":"nats"},"acme":{"type":"sandbox"}}}`,
		`the route \"acme\" has a connector of type nats`)
}

// TestARouteThatNoProgramReaches: the outcomes of a nats route come over a NATS server that listens.
func TestARouteThatNoProgramReaches(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "routes.json")
	if err := os.WriteFile(file, []byte(`{"rules":[{"route":"acme"}],"connectors":{"acme":{"type":"nats"},"old":{"type":"nats"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "d")
	does(t, "init", "--data", data)
	for want, args := range map[int][]string{1: nil, 0: {"--nats-listen", "127.0.0.1:0"}} {
		s := start(t, append([]string{"serve", "--data", data, "--routes", file}, args...)...)
		if got := strings.Count(s.stderr.String(), "no program can say what becomes of the payments of this route"); got != want {
			t.Errorf("%v: the log says so %d times, want %d", args, got, want)
		}
		s.stop()
	}
}
