package httpapi

import (
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
