package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFailedAuthenticationIsTheSame(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	revoked := s.merchant("")
	s.adminDo("DELETE", "/admin/projects/"+revoked.project+"/keys/"+revoked.keyID, "").want(204, "")
	good := m.authorization()
	var first string
	for name, lines := range map[string][]string{
		"no header":                 nil,
		"empty":                     {""},
		"scheme only":               {"Bearer"},
		"scheme and blank":          {"Bearer "},
		"other scheme":              {"Basic " + m.project + ":" + m.secret},
		"no scheme":                 {m.project + ":" + m.secret},
		"no colon":                  {"Bearer " + m.project},
		"empty project":             {"Bearer :" + m.secret},
		"empty key":                 {"Bearer " + m.project + ":"},
		"unknown project":           {"Bearer prj_00000000000000000000000000:" + m.secret},
		"project in lower case":     {"Bearer " + strings.ToLower(m.project) + ":" + m.secret},
		"another project's key":     {"Bearer " + m.project + ":" + other.secret},
		"key in upper case":         {"Bearer " + m.project + ":" + strings.ToUpper(m.secret)},
		"key cut short":             {good[:len(good)-1]},
		"key with more":             {good + "x"},
		"key, blank, more":          {good + " x"},
		"key, comma":                {good + ",x"},
		"two equal lines":           {good, good},
		"a good and a bad line":     {good, "Bearer x:y"},
		"tab after the scheme":      {"Bearer\t" + m.project + ":" + m.secret},
		"colon first":               {"Bearer ::" + m.secret},
		"hash instead of the key":   {"Bearer " + m.project + ":" + projects.HashKey(m.secret).String()},
		"revoked key":               {revoked.authorization()},
		"quoted":                    {`Bearer "` + m.project + ":" + m.secret + `"`},
		"percent-encoded colon":     {"Bearer " + m.project + "%3A" + m.secret},
		"very long":                 {"Bearer " + strings.Repeat("x", 100_000)},
		"bytes that are not UTF-8":  {"Bearer \xff\xfe:\xff"},
		"the key id for the secret": {"Bearer " + m.project + ":" + m.keyID},
	} {
		var headers []header
		for _, l := range lines {
			headers = append(headers, header{"Authorization", l})
		}
		a := s.send("GET", "/v1/payments", nil, headers...).want(401, domain.Unauthorized)
		if got := a.Header.Get("WWW-Authenticate"); got != `Bearer realm="payments"` {
			t.Errorf("%s: WWW-Authenticate %q", name, got)
		}
		body := strings.ReplaceAll(string(a.Body), a.Header.Get("X-Request-Id"), "ID")
		if first == "" {
			first = body
		}
		if body != first {
			t.Errorf("%s: another body: %s", name, body)
		}
	}
}

func TestAcceptedSpellingsOfCredentials(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER ", "bEaReR  "} {
		s.send("GET", "/v1/payments", nil, header{"Authorization", scheme + m.project + ":" + m.secret}).want(200, "")
	}
}

func TestSeveralLiveKeysAndRevocation(t *testing.T) {
	t.Parallel()
	s := start(t)
	old := s.merchant("")
	var issued wire.Key
	s.adminDo("POST", "/admin/projects/"+old.project+"/keys", `{}`).want(201, "").decode(&issued)
	next := shop{s: s, project: old.project, secret: issued.APIKey, keyID: issued.KeyID}
	old.get("/v1/payments").want(200, "")
	next.get("/v1/payments").want(200, "")
	s.adminDo("DELETE", "/admin/projects/"+old.project+"/keys/"+old.keyID, "").want(204, "")
	old.get("/v1/payments").want(401, domain.Unauthorized)
	next.get("/v1/payments").want(200, "")
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := start(t)
	all := s.merchant("")
	id := all.paid()
	for scope, allowed := range map[string]string{
		"payments:write": "POST /v1/payments",
		"refunds:write":  "POST /v1/refunds",
		"read":           "GET",
		"audit":          "-",
	} {
		var k wire.Key
		s.adminDo("POST", "/admin/projects/"+all.project+"/keys", fmt.Sprintf(`{"scopes":[%q]}`, scope)).want(201, "").decode(&k)
		m := shop{s: s, project: all.project, secret: k.APIKey}
		for _, c := range [][2]string{
			{"POST /v1/payments", `{"amount":1}`},
			{"POST /v1/refunds", `{"payment_id":"` + id + `"}`},
			{"GET /v1/payments", ""},
			{"GET /v1/payments/" + id, ""},
			{"HEAD /v1/payments/" + id, ""},
			{"GET /v1/payments/" + id + "/events", ""},
			{"GET /v1/refunds", ""},
		} {
			method, target, _ := strings.Cut(c[0], " ")
			a := m.send(method, target, strings.NewReader(c[1]), header{"Content-Type", "application/json"})
			may := c[0] == allowed || (allowed == "GET" && method != "POST")
			if may != (a.Code < 300) || (!may && a.Code != 403) {
				t.Errorf("a key with %s: %s answered %d %s", scope, c[0], a.Code, a.Body)
			}
			if !may && method != "HEAD" {
				if p := a.problem(); p.Code != domain.ScopeMissing || p.RequiredScope == "" {
					t.Errorf("%s: %+v", c[0], p)
				}
			}
		}
	}
}

// Failed attempts of others at the same address never lock out a valid key.
func TestFailedAuthenticationIsLimitedByAddress(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.FailedAuthPerMinute = 10 })
	m := s.merchant("")
	bad := header{"Authorization", "Bearer prj_x:sk_y"}
	for range 10 {
		s.send("GET", "/v1/payments", nil, bad).want(401, domain.Unauthorized)
	}
	a := s.send("GET", "/v1/payments", nil, bad).want(429, domain.RateLimited)
	want := map[string]string{
		"Retry-After": "6", "RateLimit": `"failed-authentication";r=0;t=60`, "RateLimit-Policy": `"failed-authentication";q=10;w=60`,
	}
	for name, v := range want {
		if got := a.Header.Get(name); got != v {
			t.Errorf("%s: %s, want %s", name, got, v)
		}
	}
	for range 20 {
		m.get("/v1/payments").want(200, "")
	}
	s.clock.advance(6 * time.Second)
	s.send("GET", "/v1/payments", nil, bad).want(401, domain.Unauthorized)
	s.send("GET", "/v1/payments", nil, bad).want(429, domain.RateLimited)
	s.send("GET", "/livez", nil).want(200, "")
	// Behind a proxy each of its clients has its own budget, and its address is in the log.
	near, far := header{"X-Forwarded-For", "192.0.2.1"}, header{"X-Forwarded-For", "192.0.2.1, 192.0.2.2"}
	for range 10 {
		s.send("GET", "/v1/payments", nil, bad, near).want(401, domain.Unauthorized)
	}
	s.send("GET", "/v1/payments", nil, bad, near).want(429, domain.RateLimited)
	s.send("GET", "/v1/payments", nil, bad, far).want(401, domain.Unauthorized)
	for !strings.Contains(s.log.String(), `"client":"192.0.2.2"`) { // written after the client has its answer
		if t.Context().Err() != nil {
			t.Fatal("the log does not tell the client's address")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestProjectsCannotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	mine, other := s.merchant(""), s.merchant("")
	id := mine.paid()
	refund := mine.refund(id).want(201, "").object().ID
	const unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	same := func(target, body string) {
		t.Helper()
		method := "GET"
		if body != "" {
			method = "POST"
		}
		ask := func(id string) (int, string, []string) {
			r := strings.NewReader(strings.ReplaceAll(body, "ID", id))
			a := other.send(method, strings.ReplaceAll(target, "ID", id), r, header{"Content-Type", "application/json"})
			var names []string
			for name := range a.Header {
				names = append(names, name)
			}
			return a.Code, strings.ReplaceAll(string(a.Body), a.Header.Get("X-Request-Id"), "R"), names
		}
		foreign := id
		if strings.Contains(target, "refunds/ID") {
			foreign = refund
		}
		code, b, names := ask(foreign)
		wantCode, want, wantNames := ask(unknown)
		if code != 404 || code != wantCode || b != want || len(names) != len(wantNames) {
			t.Errorf("%s %s: %s", target, body, cmp.Diff(fmt.Sprint(wantCode, want, wantNames), fmt.Sprint(code, b, names)))
		}
	}
	same("/v1/payments/ID", "")
	same("/v1/payments/ID/events", "")
	same("/v1/refunds/ID", "")
	same("/v1/refunds", `{"payment_id":"ID"}`)
	same("/v1/sandbox/payments/ID", `{"outcome":"paid"}`)
	same("/v1/sandbox/refunds/ID", `{"outcome":"failed"}`)
	for _, target := range []string{"/v1/payments", "/v1/refunds", "/v1/refunds?payment_id=" + id} {
		if a := other.get(target).want(200, ""); string(a.Body) != `{"data":[],"next_cursor":null}` {
			t.Errorf("%s: %s", target, a.Body)
		}
	}
	// The same key in two projects is two keys.
	a := mine.pay(`{"amount":1}`, key(1)).want(201, "").object().ID
	if b := other.pay(`{"amount":2}`, key(1)).want(201, "").object().ID; a == b {
		t.Error("one payment for two projects")
	}
}
