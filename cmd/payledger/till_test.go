package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/notifier/health/healthtest"
)

// till is a server whose one route leads to a provider, and its merchant.
type till struct {
	*server
	provider *played
	data     string
	routes   string // the routes file
	args     []string
}

// openTill starts a server on a new directory, with more flags.
func openTill(t testing.TB, p *played, flags ...string) *till {
	t.Helper()
	dir := t.TempDir()
	s := &till{provider: p, data: filepath.Join(dir, "data")}
	if out, code := payledger(t, "init", "--data", s.data); code != 0 {
		t.Fatalf("init: %d\n%s", code, out)
	}
	s.routes = filepath.Join(dir, "routes.json")
	s.setRoutes(t, fmt.Sprintf(`{"rules":[{"route":"real"}],"connectors":{"real":%s}}`, p.settings))
	s.args = append([]string{
		"serve", "--data", s.data, "--routes", s.routes, "--log-level", "warn", "--webhook-allow-private",
		"--rate-writes", "0", "--rate-reads", "0", "--rate-customers", "0", "--json", "--listen", healthtest.FreeAddress(t),
		"--admin-listen", "127.0.0.1:0",
	}, flags...)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("stderr of payledger:\n%s", s.stderr)
		}
	})
	s.restart(t)
	s.newProject(t)
	return s
}

// setRoutes writes the routes file.
func (s *till) setRoutes(t testing.TB, content string) {
	t.Helper()
	if err := os.WriteFile(s.routes, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// restart starts the server, again after a kill.
func (s *till) restart(t testing.TB) {
	t.Helper()
	next, err := runServer(s.command())
	if s.server != nil {
		next.ProjectID, next.APIKey = s.ProjectID, s.APIKey
	}
	s.server = next
	if err != nil {
		t.Fatal(err)
	}
}

func (s *till) command() *exec.Cmd {
	cmd := exec.Command("payledger", s.args...)
	cmd.Env = append(os.Environ(), s.provider.env...)
	return cmd
}

// bill is a payment and its page.
type bill struct {
	id   domain.ID
	page string // path of the payment link
}

// create makes a payment of 1500.00 RUB.
func (s *till) create(t testing.TB) bill {
	t.Helper()
	created := s.do(t, http.StatusCreated, http.MethodPost, "/v1/payments", `{"amount":"1500.00"}`)
	link := created.object(t)["instructions"].(map[string]any)["url"].(string)
	u, err := url.Parse(link)
	id, ok := domain.ParseID(created.text(t, "id"))
	if err != nil || !ok {
		t.Fatalf("a new payment: %s", created.Body)
	}
	return bill{id, u.Path}
}

// visit requests a page and follows no redirect.
func (s *till) visit(t testing.TB, method, address string, form url.Values) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := s.provider.customer().Do(req)
	if err != nil {
		return answer{} // the server was killed
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}
	}
	return answer{resp.StatusCode, resp.Header, body}
}

// formToken finds the token of the page's form.
var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// pressPay opens the payment's page and presses Pay. A server that was killed
// meanwhile, also while it asked the provider about an earlier payment, gives no
// answer.
func (s *till) pressPay(t testing.TB, b bill) answer {
	t.Helper()
	var found [][]byte
	eventually(t, "the page has its form", func() bool {
		page := s.visit(t, http.MethodGet, s.BaseURL+b.page, nil)
		found = formToken.FindSubmatch(page.Body)
		return found != nil || s.killed()
	})
	if found == nil {
		return answer{}
	}
	return s.visit(t, http.MethodPost, s.BaseURL+b.page, url.Values{"form": {string(found[1])}})
}

// handOver presses Pay and returns where the customer is sent.
func (s *till) handOver(t testing.TB, b bill) string {
	t.Helper()
	a := s.pressPay(t, b)
	to := a.Header.Get("Location")
	if a.Status != http.StatusSeeOther || !strings.HasPrefix(to, "https://"+s.provider.host+"/") {
		t.Fatalf("a customer who pressed Pay: %d, Location %q\n%s", a.Status, to, a.Body)
	}
	return to
}

// atProvider opens the provider's page, presses a button there and returns where the
// customer is sent; "" when the page is shown again.
func (s *till) atProvider(t testing.TB, page, button string) (back string) {
	t.Helper()
	if a := s.visit(t, http.MethodGet, page, nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), " RUB") {
		t.Fatalf("the provider's page: %d\n%s", a.Status, a.Body)
	}
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	path, form := s.provider.press(button)
	u.Path += path
	return s.visit(t, http.MethodPost, u.String(), form).Header.Get("Location")
}

// comeBack opens the page to which the provider returns the customer.
func (s *till) comeBack(t testing.TB, b bill, to string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil || u.Path != b.page || u.RawQuery != "returned=1" {
		t.Fatalf("the provider sends the customer back to %q, want %s?returned=1", to, b.page)
	}
	if a := s.visit(t, http.MethodGet, s.BaseURL+u.RequestURI(), nil); a.Status != http.StatusOK {
		t.Fatalf("the page of a customer who came back: %d\n%s", a.Status, a.Body)
	}
}

// becomes waits until a payment or a refund has a status.
func (s *till) becomes(t testing.TB, path, status string) {
	t.Helper()
	eventually(t, path+" is "+status, func() bool {
		return s.do(t, http.StatusOK, http.MethodGet, path, "").text(t, "status") == status
	})
}

// has reports whether the payment has an event of the type.
func (s *till) has(t testing.TB, b bill, kind string) bool {
	t.Helper()
	events := s.do(t, http.StatusOK, http.MethodGet, paymentPath(b)+"/events", "").Body
	return strings.Contains(string(events), `"`+kind+`"`)
}

func paymentPath(b bill) string { return "/v1/payments/" + b.id.String() }

// notify delivers the notifications that the provider has sent.
func (s *till) notify(t testing.TB) {
	t.Helper()
	sent := s.provider.Sent()
	if len(sent) == 0 {
		t.Fatal("the provider has sent no notification")
	}
	for _, n := range sent {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.BaseURL+"/connectors/real", strings.NewReader(string(n.Body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = n.Header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answered, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Errorf("the notification %s: %d %s", n.Body, resp.StatusCode, answered)
		}
	}
}

// refund requests the payment's refund.
func (s *till) refund(t testing.TB, b bill) (id domain.ID) {
	t.Helper()
	a := s.do(t, http.StatusCreated, http.MethodPost, "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, b.id))
	id, ok := domain.ParseID(a.text(t, "id"))
	if !ok {
		t.Fatalf("a new refund: %s", a.Body)
	}
	return id
}

// refunded waits until the provider has the refund, lets it end there, and waits
// until the ledger has its outcome.
func (s *till) refunded(t testing.TB, id domain.ID) {
	t.Helper()
	eventually(t, "the provider is asked for the refund", func() bool { return s.provider.SettleRefund(id, true) })
	s.becomes(t, "/v1/refunds/"+id.String(), "succeeded")
}

// balanced stops the server and compares the ledger with the provider: both have
// collected and returned the same, and nothing twice. The ledger has as many events as
// are wanted of a type.
func (s *till) balanced(t testing.TB, want map[string]int) {
	t.Helper()
	s.stops(t)
	if out, code := payledger(t, "verify", "--data", s.data); code != 0 {
		t.Errorf("verify: %d\n%s", code, out)
	}
	out, code := payledger(t, "events", "tail", "--data", s.data, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	kinds := map[string]int{}
	var collected, returned []string
	for line := range strings.Lines(out) {
		var e struct {
			Event struct {
				Type, Stream string
				Data         struct {
					Amount, Currency string
					Signal           struct{ Reference, Amount, Currency string }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kinds[e.Event.Type]++
		moved, byHand := e.Event.Data.Signal, e.Event.Data
		switch e.Event.Type {
		case domain.TypePaymentPaid, domain.TypePaymentLateFunds:
			collected = append(collected, strings.Join([]string{e.Event.Stream, moved.Reference, moved.Amount, moved.Currency}, " "))
		case domain.TypeRefundSucceeded:
			returned = append(returned, strings.Join([]string{e.Event.Stream, moved.Amount, moved.Currency}, " "))
		case domain.TypePaymentRefundedAtProvider:
			returned = append(returned, strings.Join([]string{e.Event.Stream, byHand.Amount, byHand.Currency}, " "))
		}
	}
	var atProvider, back []string
	for _, m := range s.provider.Collected() {
		atProvider = append(atProvider, fmt.Sprint(m.Payment, " ", m.Reference, " ", m.Amount, " ", m.Currency))
	}
	for _, m := range s.provider.Returned() {
		back = append(back, fmt.Sprint(m.Payment, " ", m.Amount, " ", m.Currency))
	}
	for what, pair := range map[string][2][]string{"collected": {collected, atProvider}, "returned": {returned, back}} {
		slices.Sort(pair[0])
		slices.Sort(pair[1])
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s in the ledger: %q\nat the provider: %q", what, pair[0], pair[1])
		}
	}
	for kind, n := range want {
		if kinds[kind] != n {
			t.Errorf("%d events %s, want %d", kinds[kind], kind, n)
		}
	}
}
