package main

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
)

// TestPausedRouteAtProvider: the operator pauses the only route while one customer
// pays and another is about to. No attempt begins, none is lost, and a restart does
// not resume the route.
func TestPausedRouteAtProvider(t *testing.T) {
	t.Parallel()
	s := openTill(t, playAdapter(t))
	paying, about, behind := s.create(t), s.create(t), s.create(t)
	to := s.handOver(t, paying)
	s.becomes(t, paymentPath(about), "awaiting_payment")
	form := formToken.FindSubmatch(s.visit(t, http.MethodGet, s.BaseURL+about.page, nil).Body)

	if out, code := payledger(t, "routes", "pause", "reel", "--data", s.data); code != cli.ExitRefused || !strings.Contains(out, "Did you mean real?") {
		t.Errorf("%d %s", code, out)
	}
	if out, code := payledger(t, "routes", "pause", "real", "--reason", "the bank asks for it", "--data", s.data); code != 0 {
		t.Fatal(out)
	}
	if a := s.visit(t, http.MethodPost, s.BaseURL+about.page, url.Values{"form": {string(form[1])}}); a.Status != http.StatusServiceUnavailable {
		t.Errorf("pressed on a paused route: %d\n%s", a.Status, a.Body)
	}
	waiting := s.create(t)
	s.comeBack(t, paying, s.atProvider(t, to, "pay"))
	s.becomes(t, paymentPath(paying), "paid")
	if out, code := payledger(t, "status", "--data", s.data); code != 0 ||
		!strings.Contains(out, "real (paused): 1 attempt begun in 24 hours, 100.0 % of those that ended were paid") {
		t.Errorf("%d %s", code, out)
	}
	s.refunded(t, s.refund(t, paying))

	s.stops(t)
	s.restart(t)
	for _, b := range []bill{about, behind, waiting} {
		s.shows(t, b, "paused")
	}
	s.becomes(t, paymentPath(waiting), "created")
	if a := s.visit(t, http.MethodGet, s.BaseURL+"/readyz", nil); a.Status != http.StatusOK ||
		!strings.Contains(string(a.Body), "paused the route real") || strings.Contains(string(a.Body), "the bank asks") {
		t.Errorf("readyz: %d %s", a.Status, a.Body)
	}
	for _, series := range []string{`payledger_route_paused{route="real"} 1`, `payledger_attempts_success_ratio{route="real"} 1`, `payledger_router_held_total 1`} {
		eventually(t, series, func() bool { return strings.Contains(string(s.scrape(t)), series) })
	}
	if n := len(s.provider.Attempts(about.id)) + len(s.provider.Attempts(waiting.id)); n != 0 {
		t.Errorf("%d attempts on a paused route", n)
	}

	if out, code := payledger(t, "routes", "resume", "real", "--data", s.data); code != 0 {
		t.Fatal(out)
	}
	s.becomes(t, paymentPath(waiting), "awaiting_payment")
	for _, b := range []bill{about, waiting} {
		s.atProvider(t, s.handOver(t, b), "pay")
		s.becomes(t, paymentPath(b), "paid")
	}
	s.balanced(t, nil)
}

// shows waits until a payment's page shows a state.
func (s *till) shows(t testing.TB, b bill, state string) {
	t.Helper()
	eventually(t, "the page shows "+state, func() bool {
		return strings.Contains(string(s.visit(t, http.MethodGet, s.BaseURL+b.page, nil).Body), `data-state="`+state+`"`)
	})
}

// TestAttemptWithoutItsConnector: the server starts with a routes file without the
// route of an open attempt. It warns until the connector is back, and then the
// outcome is read.
func TestAttemptWithoutItsConnector(t *testing.T) {
	t.Parallel()
	s := openTill(t, playAdapter(t))
	content, err := os.ReadFile(s.routes)
	if err != nil {
		t.Fatal(err)
	}
	b := s.create(t)
	to := s.handOver(t, b)
	if out, code := payledger(t, "payments", "open", "--data", s.data); code != 0 || !strings.Contains(out, b.id.String()+"  real   attempt  1") {
		t.Errorf("%d %s", code, out)
	}
	s.stops(t)
	s.setRoutes(t, `[{"route":"other"}]`)
	s.restart(t)

	s.atProvider(t, to, "pay")
	s.shows(t, b, "orphaned")
	sentence := "The route real has no connector any more, and payments (1) are open at its provider"
	eventually(t, "readyz says what is wrong", func() bool {
		return strings.Contains(string(s.visit(t, http.MethodGet, s.BaseURL+"/readyz", nil).Body), sentence)
	})
	if n := strings.Count(s.stderr.String(), sentence); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	for _, series := range []string{`payledger_connector_missing{route="real"} 1`, `payledger_connector_open{kind="attempt",route="real"} 1`} {
		if !strings.Contains(string(s.scrape(t)), series) {
			t.Errorf("no %s", series)
		}
	}
	if out, code := payledger(t, "payments", "open", "--route", "real", "--data", s.data, "--json"); code != 0 ||
		!strings.Contains(out, `"kind":"attempt","id":"1"`) || !strings.Contains(out, `"last_error":"no connector asks this route's provider: the end has to come as a signal; an attempt ends only once the routes file has its connector again`) {
		t.Errorf("%d %s", code, out)
	}
	if out, code := payledger(t, "payments", "ask", b.id.String(), "--data", s.data); code != 5 || !strings.Contains(out, "taken out of the routes file, put it back") {
		t.Errorf("%d %s", code, out)
	}

	s.setRoutes(t, string(content))
	if out, code := payledger(t, "routes", "reload", "--data", s.data); code != 0 {
		t.Fatal(out)
	}
	s.becomes(t, paymentPath(b), "paid")
	eventually(t, "readyz is well", func() bool {
		return !strings.Contains(string(s.visit(t, http.MethodGet, s.BaseURL+"/readyz", nil).Body), "real")
	})
	s.balanced(t, nil)
}
