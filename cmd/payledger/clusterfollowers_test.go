package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/installation"
)

// TestFollowersAnswerAsTheLeader asks every node what in truth one node knows or
// does.
func TestFollowersAnswerAsTheLeader(t *testing.T) {
	t.Parallel()
	n, top := newNodes(t), t // whose servers run until the end of all
	n.start(t, 0, 1, 2)
	n.project(t)
	t.Run("deliveries", func(t *testing.T) { deliveriesOnEveryNode(t, n) })
	t.Run("sessions", func(t *testing.T) {
		sessionsOnEveryNode(t, n, func(node int) { n.start(top, node) })
	})
	t.Run("rates", func(t *testing.T) { ratesAmongNodes(t, n) })
}

// TestFormerLeaderForgetsTheWork has a leader warn of a payment that its provider's connector was
// taken from, and another node lead: the former one says no more of it, nor of other work.
func TestFormerLeaderForgetsTheWork(t *testing.T) {
	t.Parallel()
	n, p := newNodes(t), playAdapter(t)
	s := &till{provider: p, routes: filepath.Join(t.TempDir(), "routes.json")}
	s.setRoutes(t, fmt.Sprintf(`{"rules":[{"route":"real"}],"connectors":{"real":%s}}`, p.settings))
	n.under, n.flags = append([]string{"env"}, p.env...), []string{"--routes", s.routes, "--admin-listen", "127.0.0.1:0"}
	n.start(t, 0, 1, 2)
	n.project(t)
	s.server = n.servers[0]
	b := s.create(t)
	s.becomes(t, paymentPath(b), "awaiting_payment")
	s.handOver(t, b)
	s.setRoutes(t, `[{"route":"other"}]`)
	for _, one := range n.servers {
		one.kill()
	}
	n.start(t, 0, 1, 2)
	was := n.leader(t, 0)
	s.server = n.servers[was]
	warns := func() bool {
		return strings.Contains(string(s.visit(t, http.MethodGet, s.BaseURL+"/readyz", nil).Body), "The route real has no connector any more")
	}
	eventually(t, "the leader warns", warns)
	work := regexp.MustCompile(`payledger_(?:[a-z]+_up|connector_missing|connector_open|collector_payments|signals_[a-z_]+)\b`)
	if found := work.FindAllString(string(s.scrape(t)), -1); len(found) < 15 {
		t.Errorf("the leader's metrics have only %q", found)
	}
	n.becomes(t, (was+1)%3)
	eventually(t, "the former leader is well", func() bool { return !warns() })
	eventually(t, "the former leader's metrics have nothing of the work", func() bool {
		found := work.FindAllString(string(s.scrape(t)), -1)
		return !slices.ContainsFunc(found, func(name string) bool { return name != "payledger_nats_server_up" })
	})
}

// TestReloadOfAFollowersRoutes is answered at once, and recorded when that node becomes the leader:
// only then do its routes decide anything.
func TestReloadOfAFollowersRoutes(t *testing.T) {
	t.Parallel()
	n, file := newNodes(t), filepath.Join(t.TempDir(), "routes.json")
	rules := func(weight string) {
		if err := os.WriteFile(file, []byte(`[{"route":"cards","weight":`+weight+`}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules("1")
	n.flags = []string{"--routes", file}
	n.start(t, 0, 1, 2)
	loads := func(want int) func() bool {
		return func() bool {
			acts, code := payledger(t, "audit", "--data", n.dirs[0], "--json")
			return code == 0 && strings.Count(acts, installation.TypeRoutesLoaded) == want
		}
	}
	eventually(t, "the leader's routes are recorded", loads(1))
	rules("2")
	follower := (n.leader(t, 0) + 1) % 3
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "payledger", "routes", "reload", "--data", n.dirs[follower]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !loads(1)() {
		t.Error("a follower's routes are recorded as those in use")
	}
	n.becomes(t, follower)
	eventually(t, "the new leader's routes are recorded", loads(2))
}

// everyNode runs a check for each node, the leader last.
func (n *nodes) everyNode(t *testing.T, check func(t *testing.T, s *server, dir string)) {
	first := n.leader(t, 0) + 1
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
		eventually(t, "the endpoint is disabled", func() bool { // which is recorded after the attempt
			return strings.Contains(string(s.do(t, 200, "GET", of, "").Body), `"status":"disabled"`)
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

// visitor is a browser of the account that comes to another node each time, as behind a
// proxy.
type visitor struct {
	t      *testing.T
	nodes  []*server
	turn   int
	client http.Client
}

func (n *nodes) visitor(t *testing.T) *visitor {
	jar, err := cookiejar.New(nil) // the nodes differ by their ports, which cookies do not mind
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t: t, nodes: n.servers, client: http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask sends a request below /account to the next node that can answer it now.
func (v *visitor) ask(method, path string, form url.Values) (status int, page, location string) {
	v.t.Helper()
	eventually(v.t, method+" "+path, func() bool {
		v.turn++
		req, err := http.NewRequest(method, v.nodes[v.turn%len(v.nodes)].BaseURL+"/account/"+path, strings.NewReader(form.Encode()))
		if err != nil {
			v.t.Fatal(err)
		}
		if form != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp, err := v.client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if to := resp.Header.Get("Location"); to != "" { // relative to the page
			at, err := req.URL.Parse(to)
			if err != nil {
				v.t.Fatal(err)
			}
			location = strings.TrimPrefix(at.RequestURI(), "/account/")
		}
		status, page = resp.StatusCode, string(b)
		return err == nil && status != http.StatusServiceUnavailable
	})
	return status, page, location
}

// opens checks that a page is shown.
func (v *visitor) opens(path string) string {
	v.t.Helper()
	status, page, location := v.ask("GET", path, nil)
	if status != http.StatusOK {
		v.t.Fatalf("GET %s: %d, leads to %q", path, status, location)
	}
	return page
}

// isOut checks that every node asks the visitor to sign in.
func (v *visitor) isOut() {
	v.t.Helper()
	for range v.nodes {
		if status, _, location := v.ask("GET", "session", nil); status != http.StatusSeeOther || !strings.HasPrefix(location, "signin") {
			v.t.Errorf("GET session: %d, leads to %q, want signin", status, location)
		}
	}
}

func (v *visitor) signsIn() {
	v.t.Helper()
	s := v.nodes[0]
	status, _, location := v.ask("POST", "signin", url.Values{"project": {s.ProjectID}, "key": {s.APIKey}})
	if status != http.StatusSeeOther || strings.HasPrefix(location, "signin") {
		v.t.Fatalf("signing in: %d, leads to %q", status, location)
	}
}

// sends sends a form of a page, with its token.
func (v *visitor) sends(page, to string, form url.Values) (status int, location string) {
	v.t.Helper()
	token := formToken.FindStringSubmatch(page)
	if token == nil {
		v.t.Fatalf("no form in\n%s", page)
	}
	form.Set("form", token[1])
	status, _, location = v.ask("POST", to, form)
	return status, location
}

// secretOnPage is an API key that a page shows.
var secretOnPage = regexp.MustCompile(`sk_[a-z2-7]+`)

// sendsToTwoNodes sends the form of a new key to two nodes at once: both answer with the
// one key that it makes.
func (v *visitor) sendsToTwoNodes(form url.Values) {
	v.t.Helper()
	token := formToken.FindStringSubmatch(v.opens("keys/new"))
	if token == nil {
		v.t.Fatal("no form")
	}
	form.Set("form", token[1])
	var secrets [2]string
	var both sync.WaitGroup
	for i := range secrets {
		both.Go(func() {
			resp, err := v.client.PostForm(v.nodes[i].BaseURL+"/account/keys/new", form)
			if err != nil {
				v.t.Error(err)
				return
			}
			defer resp.Body.Close()
			page, err := io.ReadAll(resp.Body)
			secrets[i] = secretOnPage.FindString(string(page))
			if err != nil || secrets[i] == "" {
				v.t.Errorf("node %d: %d, %v\n%s", i, resp.StatusCode, err, page)
			}
		})
	}
	both.Wait()
	if secrets[0] != secrets[1] {
		v.t.Error("two keys of one form")
	}
}

// sessionsOnEveryNode: who signed in at one node is signed in at each and can send a form
// to another node than the one that showed it. Sent to each, it makes one key, which
// every answer shows. Who signed out is signed out everywhere, also while a node is down.
func sessionsOnEveryNode(t *testing.T, n *nodes, start func(node int)) {
	one, two := n.visitor(t), n.visitor(t)
	one.signsIn()
	two.signsIn()
	for range n.servers {
		one.opens("session")
	}
	page := one.opens("keys/new")
	key := url.Values{"name": {"till"}, "scopes": {"read"}}
	secret := ""
	for i := range n.servers {
		token := formToken.FindStringSubmatch(page)
		if token == nil {
			t.Fatalf("no form in\n%s", page)
		}
		key.Set("form", token[1])
		status, shown, _ := one.ask("POST", "keys/new", key)
		if i == 0 {
			secret = secretOnPage.FindString(shown)
		}
		if status != http.StatusOK || secret == "" || !strings.Contains(shown, "till") || secretOnPage.FindString(shown) != secret {
			t.Errorf("the form of a key, sent for the %dth time: %d\n%s", i+1, status, shown)
		}
	}
	if keys := one.opens("keys"); strings.Count(keys, "<bdi>till</bdi>") != 1 || strings.Contains(keys, secret) {
		t.Errorf("the keys:\n%s", keys)
	}

	for range 3 {
		one.sendsToTwoNodes(url.Values{"name": {"twice"}, "scopes": {"read"}})
	}

	killed := n.leader(t, 0)
	n.servers[killed].kill()
	page = one.opens("session")
	if status, _ := one.sends(page, "signout", url.Values{}); status != http.StatusSeeOther {
		t.Errorf("signing out: %d", status)
	}
	one.isOut()
	two.opens("session")
	start(killed)
	for range n.servers {
		two.opens("session")
	}
	one.isOut()

	one.signsIn()
	if status, _ := two.sends(two.opens("session"), "signout-everywhere", url.Values{}); status != http.StatusSeeOther {
		t.Errorf("signing out everywhere: %d", status)
	}
	one.isOut()
	two.isOut()
	one.signsIn()
	does(t, "project", "sign-out", n.servers[0].ProjectID, "--data", n.dirs[killed])
	one.isOut()
}

// ratesAmongNodes: the nodes let as many requests of a project pass together as one
// server would.
func ratesAmongNodes(t *testing.T, n *nodes) {
	const rate = 9 // a second
	does(t, "project", "change", n.servers[0].ProjectID, "--rate-writes", "9", "--rate-reads", "9", "--data", n.dirs[0])
	for _, s := range n.servers {
		if a := s.do(t, 200, "GET", "/v1/payments", ""); a.Header.Get("RateLimit-Policy") != `"reads";q=18;w=2` {
			t.Errorf("the rate of reads: %s", a.Header)
		}
	}
	leader, began, answers := n.leader(t, 0), time.Now(), make(map[int]int)
	for _, s := range n.servers {
		for range 4 * rate {
			if a, err := s.send("POST", "/v1/payments", `{}`); err == nil {
				answers[a.Status]++
			}
		}
	}
	most := 2*rate + int(rate*time.Since(began).Seconds()) + 1
	if n.leader(t, 0) != leader {
		most += 2 * rate // a new leader's buckets are full
	}
	// One that meets no leader is answered 503, and did not pass either.
	if passed := answers[http.StatusUnprocessableEntity]; passed < 2*rate || passed > most {
		t.Errorf("%d requests passed, want %d to %d: the answers %v", passed, 2*rate, most, answers)
	}
}
