package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/httpapi/wire"
)

func TestRateLimitsOfAProject(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Limits = domain.DefaultLimits() })
	m, other := s.merchant(""), s.merchant("")
	check := func(a *answer, limit, policy string) {
		t.Helper()
		if a.Header.Get("RateLimit") != limit || a.Header.Get("RateLimit-Policy") != policy {
			t.Errorf("RateLimit %s, RateLimit-Policy %s; want %s, %s", a.Header.Get("RateLimit"), a.Header.Get("RateLimit-Policy"), limit, policy)
		}
	}
	const writes, reads = `"writes";q=50;w=2`, `"reads";q=200;w=2`
	check(m.pay(`{"amount":1}`).want(201, ""), `"writes";r=49;t=1`, writes)
	for i := range 49 {
		a := m.pay(`{`).want(400, domain.MalformedJSON) // refused ones count, too
		check(a, fmt.Sprintf(`"writes";r=%d;t=%d`, 48-i, (i+1)/25+1), writes)
	}
	a := m.refund("x").want(429, domain.RateLimited)
	check(a, `"writes";r=0;t=2`, writes)
	if got := a.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %s", got)
	}
	check(m.get("/v1/payments").want(200, ""), `"reads";r=199;t=1`, reads)
	check(other.pay(`{"amount":1}`).want(201, ""), `"writes";r=49;t=1`, writes)
	s.clock.advance(40 * time.Millisecond)
	m.pay(`{"amount":1}`).want(201, "")
	m.pay(`{"amount":1}`).want(429, domain.RateLimited)
	s.clock.advance(time.Hour)
	check(m.pay(`{"amount":1}`).want(201, ""), `"writes";r=49;t=1`, writes)
	for range 199 {
		m.get("/v1/refunds").want(200, "")
	}
	m.send("HEAD", "/v1/payments", nil).wantCode(200)
	m.get("/v1/payments/x").want(429, domain.RateLimited)
}

func (a *answer) wantCode(status int) {
	a.t.Helper()
	if a.Code != status {
		a.t.Errorf("answer %d, want %d", a.Code, status)
	}
}

func TestNoLimits(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for range 300 {
		if a := m.get("/v1/payments").want(200, ""); a.Header.Get("RateLimit") != "" {
			t.Fatal("a limit is announced")
		}
	}
}

// Customers are counted by address: forms, reads and the questions of open pages
// separately. The page says when to come again.
func TestRateLimitOfThePaymentPage(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Limits.RateCustomers = 20 })
	ask := func(method, peer, forwarded string) int {
		r := httptest.NewRequest(method, "/p/x", nil)
		r.RemoteAddr = peer + ":4711"
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		rec := httptest.NewRecorder()
		s.public.ServeHTTP(rec, r)
		if rec.Code == http.StatusTooManyRequests && (rec.Header().Get("Retry-After") == "" ||
			!strings.Contains(rec.Body.String(), "Too many requests")) {
			t.Errorf("%v %s", rec.Header(), rec.Body)
		}
		return rec.Code
	}
	for range 20 {
		if code := ask("GET", "203.0.113.1", ""); code != http.StatusNotFound {
			t.Fatalf("within the limit: %d", code)
		}
	}
	for _, c := range []struct {
		method, peer, forwarded string
		want                    int
	}{
		{"GET", "203.0.113.1", "", 429},
		{"GET", "203.0.113.1", "198.51.100.9", 429}, // nobody's proxy
		{"GET", "203.0.113.2", "", 404},
		{"GET", "127.0.0.1", "198.51.100.9, 203.0.113.1", 429},
		{"GET", "10.1.2.3", "203.0.113.1, 198.51.100.9", 404},
		{"GET", "127.0.0.1", "nonsense", 404},
		{"POST", "203.0.113.1", "", 404},
		{"POST", "203.0.113.1", "", 404},
		{"POST", "203.0.113.1", "", 429},
	} {
		if got := ask(c.method, c.peer, c.forwarded); got != c.want {
			t.Errorf("%s from %s for %q: %d, want %d", c.method, c.peer, c.forwarded, got, c.want)
		}
	}
	for i := range 201 { // an open page's questions, ten for each page that is read
		r := httptest.NewRequest("GET", "/p/x/status", nil)
		r.RemoteAddr = "203.0.113.1:4711"
		rec := httptest.NewRecorder()
		s.public.ServeHTTP(rec, r)
		if want := map[bool]int{true: 404, false: 429}[i < 200]; rec.Code != want {
			t.Fatalf("question %d: %d, want %d", i+1, rec.Code, want)
		}
	}
	s.clock.advance(3 * time.Second)
	if code := ask("GET", "203.0.113.1", ""); code != http.StatusNotFound {
		t.Errorf("3 s later: %d", code)
	}
}

// A project's own limits hold at once and for it alone. Where it has none, the
// server's hold.
func TestLimitsOfOneProject(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Limits = domain.DefaultLimits() })
	m, other := s.merchant(""), s.merchant("")
	change := func(settings string) *answer {
		return s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":`+settings+`}`).want(200, "")
	}
	left := func(a *answer, limit string) {
		t.Helper()
		if got := a.want(200, "").Header.Get("RateLimit"); got != limit {
			t.Errorf("RateLimit %s, want %s", got, limit)
		}
	}
	left(m.get("/v1/payments"), `"reads";r=199;t=1`)
	var p wire.Project
	change(`{"rate_reads":2,"rate_writes":0}`).decode(&p)
	if *p.Settings.RateReads != 2 || *p.Settings.RateWrites != 0 || p.Settings.RateCustomers != nil {
		t.Errorf("%+v", p.Settings)
	}
	for i, limit := range []string{`"reads";r=3;t=1`, `"reads";r=2;t=1`, `"reads";r=1;t=2`, `"reads";r=0;t=2`} {
		a := m.get("/v1/payments")
		left(a, limit)
		if got := a.Header.Get("RateLimit-Policy"); got != `"reads";q=4;w=2` {
			t.Errorf("%d: RateLimit-Policy %s", i, got)
		}
	}
	m.get("/v1/payments").want(429, domain.RateLimited)
	for range 60 {
		if a := m.pay(`{"amount":1}`).want(201, ""); a.Header.Get("RateLimit") != "" {
			t.Fatal("a limit is announced")
		}
	}
	left(other.get("/v1/payments"), `"reads";r=199;t=1`)
	change(`{"rate_reads":null}`)
	m.get("/v1/payments").want(429, domain.RateLimited) // what was used stays used
	s.clock.advance(time.Second)
	left(m.get("/v1/payments"), `"reads";r=99;t=2`)
	m.pay(`{"amount":1}`).want(201, "") // the other limit stayed
}

// Customers of a project with its own limit are counted separately.
func TestCustomersOfOneProject(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Limits.RateCustomers = 3 })
	pages := make([]string, 2)
	for i, settings := range []string{`{"rate_customers":5}`, `{}`} {
		m := s.merchant("")
		s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":`+settings+`}`).want(200, "")
		p := m.pay(`{"amount":1}`).want(201, "").object()
		m.route(p.ID) // or each page waits for it
		pages[i] = must(url.Parse(p.Instructions.URL)).Path
	}
	passed := func(path string) (n int) {
		for {
			w := httptest.NewRecorder()
			s.public.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code == http.StatusTooManyRequests {
				return n
			}
			n++
		}
	}
	if n := passed(pages[0]); n != 5 {
		t.Errorf("%d requests of the project's customers passed, want its own 5", n)
	}
	if n := passed(pages[1]) + passed("/p/x"); n != 3 {
		t.Errorf("%d requests of other customers passed, want the server's 3", n)
	}
}
