package httpapi

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/account"
	"payledger/httpapi/edge"
)

// inside is a session's way to the routes.
type inside struct {
	s   *server
	api *api
	as  account.Session
}

// inside is the same merchant with a session.
func (m shop) inside() inside {
	m.s.t.Helper()
	a, err := newAPI(m.s.cfg.Config)
	if err != nil {
		m.s.t.Fatal(err)
	}
	return inside{m.s, a, account.Session{Project: m.project, KeyID: m.keyID}}
}

func (in inside) do(method, target, body string, headers ...header) *answer {
	in.s.t.Helper()
	r, err := http.NewRequestWithContext(in.s.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		in.s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
	}
	res, err := in.api.call(in.as, r)
	if err != nil {
		in.s.t.Fatal(err)
	}
	return in.s.read(res)
}

func (in inside) get(target string) *answer {
	in.s.t.Helper()
	return in.do("GET", target, "")
}

func TestASessionGoesTheWayOfItsKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.inside()
	first := in.do("POST", "/v1/payments", `{"amount":"10"}`, key(1)).want(201, "").object()
	if again := in.do("POST", "/v1/payments", `{"amount":10}`, key(1)).want(201, "").object(); again.ID != first.ID {
		t.Errorf("the same key made %s and %s", first.ID, again.ID)
	}
	m.pay(`{"amount":"10.00"}`, key(1)).want(201, "")
	in.do("POST", "/v1/payments", `{"amount":"11"}`, key(1)).want(422, domain.IdempotencyKeyReused)
	if f := in.do("POST", "/v1/payments", `{"amount":"1.234"}`).fields(); f != "#/amount amount_precision" {
		t.Error(f)
	}
	in.get("/v1/payments/"+first.ID).want(200, "")
	in.get("/v1/nothing").want(404, domain.PathNotFound)
	in.get("/account-api/nothing").want(404, domain.PathNotFound)
	other := s.merchant("")
	other.inside().get("/v1/payments/"+first.ID).want(404, domain.PaymentNotFound)
	// The credentials of a request inside are its session.
	in.do("GET", "/v1/payments/"+first.ID, "", header{"Authorization", "Bearer no:body"}).want(200, "")
	other.inside().do("GET", "/v1/payments/"+first.ID, "", header{"Authorization", m.authorization()}).want(404, domain.PaymentNotFound)
}

func TestSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.inside()
	in.get("/account-api/session").want(200, "")
	s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+m.keyID, "").want(204, "")
	in.get("/account-api/session").want(401, domain.Unauthorized)

	m = s.merchant("")
	in = m.inside()
	s.adminDo("POST", "/admin/projects/"+m.project+"/disable", "{}").want(200, "")
	in.get("/account-api/session").want(403, domain.ProjectDisabledCode)

	in.as.Project = "prj_none"
	in.get("/account-api/session").want(401, domain.Unauthorized)
	in.as = account.Session{Project: s.merchant("").project, KeyID: s.merchant("").keyID}
	in.get("/account-api/session").want(401, domain.Unauthorized)
}

func TestInnerRoutesAreNotOnTheNetwork(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, rt := range m.inside().api.accountRoutes() {
		path := strings.NewReplacer("{key_id}", m.keyID, "{id}", "00000000000000000000000000").Replace(rt.Path)
		r := httptest.NewRequestWithContext(t.Context(), rt.Method, path, strings.NewReader("{}"))
		r.Header.Set("Authorization", m.authorization())
		w := httptest.NewRecorder()
		s.public.ServeHTTP(w, r)
		(&answer{t: t, Code: w.Code, Header: w.Header(), Body: w.Body.Bytes()}).want(404, domain.PathNotFound)
		if a := m.inside().do(rt.Method, path, ""); a.Code == 404 && a.problem().Code == domain.PathNotFound {
			t.Errorf("%s %s is not inside either", rt.Method, path)
		}
	}
}

func TestReadsInsideAreNotCountedAndWritesAre(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) {
		c.Limits = edge.Limits{Writes: edge.Rate{PerSecond: 1, Burst: 2}, Reads: edge.Rate{PerSecond: 1, Burst: 1}}
	})
	m := s.merchant("")
	in := m.inside()
	for range 5 {
		in.get("/v1/payments").want(200, "")
	}
	for range 2 {
		in.do("POST", "/v1/payments", `{"amount":"1"}`).want(201, "")
	}
	if a := in.do("POST", "/v1/payments", `{"amount":"1"}`).want(429, domain.RateLimited); a.Header.Get("Retry-After") != "1" {
		t.Error(a.Header)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Limits.FailedAuthPerMinute = 2 })
	m, closed := s.merchant(""), s.merchant("")
	s.adminDo("POST", "/admin/projects/"+closed.project+"/disable", "{}").want(200, "")
	a := m.inside().api
	try := func(address, project, secret string) (account.Session, *account.Problem) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/account/signin", http.NoBody)
		r.RemoteAddr = address
		as, err := a.signIn(r, project, secret)
		p, ok := err.(*account.Problem) //nolint:errorlint // what it answers
		if err != nil && !ok {
			t.Fatal(err)
		}
		return as, p
	}
	if as, p := try("192.0.2.1:1", m.project, m.secret); p != nil || as != (account.Session{Project: m.project, KeyID: m.keyID}) {
		t.Error(as, p)
	}
	for _, c := range []struct{ project, secret string }{{m.project, "sk_wrong"}, {"prj_unknown", m.secret}} {
		if _, p := try("192.0.2.1:1", c.project, c.secret); p == nil || p.Code != "unauthorized" || p.Status != 401 {
			t.Error(p)
		}
	}
	if _, p := try("192.0.2.1:2", m.project, ""); p == nil || p.Code != "rate_limited" || p.RetryAfter == "" {
		t.Error(p)
	}
	if _, p := try("192.0.2.1:2", m.project, m.secret); p != nil {
		t.Error("failures of others refused valid credentials: ", p)
	}
	// The API counts the same failures.
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/payments", http.NoBody)
	r.RemoteAddr = "192.0.2.1:3"
	a.Wrap(a.serve).ServeHTTP(w, r)
	if w.Code != 429 {
		t.Error(w.Code)
	}
	if _, p := try("192.0.2.2:1", closed.project, closed.secret); p == nil || p.Code != "project_disabled" {
		t.Error(p)
	}
	for _, secret := range []string{m.secret + "\r\nX: y", " " + m.secret, m.secret + ",", strings.Repeat("x", 1<<16)} {
		if _, p := try("192.0.2.3:1", m.project, secret); secret[0] != ' ' && p == nil {
			t.Errorf("%.40q is a key", secret)
		}
	}
}

// TestStreamsPassThrough follows a feed of events through a page: each event
// arrives before the next one is there.
func TestStreamsPassThrough(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.inside()
	page := httptest.NewServer(in.api.Wrap(func(x *edge.Exchange) {
		asPage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner := r.Clone(r.Context())
			inner.Header.Set("Cookie", "session=1")
			res := in.api.stream(w, in.as, inner)
			if res == nil {
				return
			}
			p := account.ReadProblem(res)
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(p.Status)
			_, _ = w.Write([]byte("refused: " + p.Code))
		})).ServeHTTP(x, x.Request)
	}))
	t.Cleanup(page.Close)
	get := func(path, accept string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), "GET", page.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		res, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	feed := get("/v1/events", edge.EventStream)
	if ct := feed.Header.Get("Content-Type"); feed.StatusCode != 200 || ct != edge.EventStream || len(feed.Header.Values("X-Request-Id")) != 1 {
		t.Fatal(feed.StatusCode, feed.Header)
	}
	lines := bufio.NewScanner(feed.Body)
	for range 3 {
		id := m.pay(`{"amount":"1"}`).want(201, "").object().ID
		for lines.Scan() && !strings.Contains(lines.Text(), id) {
		}
		if !strings.Contains(lines.Text(), id) {
			t.Fatalf("the feed ended: %v", lines.Err())
		}
	}
	list := s.read(get("/v1/payments", edge.CSVType))
	if list.Code != 200 || strings.Count(string(list.Body), "\r\n") != 4 || !strings.HasPrefix(list.Header.Get("Content-Type"), edge.CSVType) {
		t.Errorf("%d %s", list.Code, list.Body)
	}
	refused := s.read(get("/v1/payments?status=x", edge.CSVType))
	if refused.Code != 400 || string(refused.Body) != "refused: invalid_parameter" || refused.Header.Get("Content-Type") != "text/html" {
		t.Errorf("%d %s %v", refused.Code, refused.Body, refused.Header)
	}
	if log := s.log.String(); !strings.Contains(log, "page_request_id") || !strings.Contains(log, `"client":"127.0.0.1"`) {
		t.Error("records of requests inside do not name the page's request and client")
	}
}

func TestBrokenAnswersInside(t *testing.T) {
	t.Parallel()
	s := start(t)
	in := s.merchant("").inside()
	in.api.inner = edge.NewRouter([]edge.Route{
		{Method: "GET", Path: "/long", Operation: "long", Handle: func(x *edge.Exchange) error {
			_, err := x.Write(make([]byte, account.MaxAnswer+1))
			return err
		}},
		{Method: "GET", Path: "/half", Operation: "half", Handle: func(x *edge.Exchange) error {
			_, _ = x.Write([]byte("half"))
			return errors.New("the rest is lost")
		}},
		{Method: "GET", Path: "/panic", Operation: "panic", Handle: func(*edge.Exchange) error { panic("oops") }},
	}, in.api.m.Enter)
	for _, path := range []string{"/long", "/half"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := in.api.call(in.as, r); err == nil {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
		if path == "/long" {
			continue // what is passed on has no bound
		}
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // identity is its contract
					t.Errorf("%s: %v", path, v)
				}
			}()
			in.api.stream(httptest.NewRecorder(), in.as, r)
		}()
	}
	in.get("/panic").want(500, domain.InternalError)
}
