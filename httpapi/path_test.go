package httpapi

import (
	"strings"
	"testing"

	"payledger/domain"
)

func TestPathsMatchByteForByte(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).want(201, "").object().ID
	ask := func(method, target string) *answer {
		return s.raw(method + " " + target + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + m.authorization() + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
	for _, target := range []string{
		"/v1/payments/", "//v1/payments", "/v1//payments", "/v1/./payments", "/v1/../v1/payments", "/./v1/payments",
		"/v1/payments/.", "/v1/payments/..", "/v1/payments/" + id + "/", "/v1/payments//" + id, "/v1/payments/" + id + "/events/",
		"/v1/p%61yments", "/%761/payments", "/v1%2Fpayments", "/v1/payments%2F" + id, "/V1/payments", "/v1/Payments",
		"/v1", "/v1/", "//", "/p", "/payments", "/v1/payments;x=1", "/v1/payments/" + id + "/x", "/v1/payments%20", "/v1/payments%3F",
		"/v1/sandbox", "/v1/sandbox/payments", endpointsPath + "/", "/v1/webhook_endpoints", endpointsPath + "/x/y", endpointsPath + "/x/deliveries/",
		endpointsPath + "/x/deliveries/y/z", "/docs/webhooks/", "/problems", "/problems/", "/problems/nothing", "/docs/", "/docs/nothing.js", "/docs/../livez",
		"/livez/", "/readyz/", "/openapi.yaml/", "/openapi.json", "/metrics", "/debug/pprof/", "/admin/projects", "/favicon.ico", "/v1.0/payments",
		"/v1payments", "/%2e%2e/v1/payments", "/v1/payments/%2e%2e", "/v1\\payments",
	} {
		a := ask("GET", target)
		if a.Code == 404 && a.problem().Code == domain.PaymentNotFound {
			// Any text in the place of an id is looked up as an id.
			if !strings.HasPrefix(target, "/v1/payments/") {
				t.Errorf("%s was taken for a payment", target)
			}
			continue
		}
		a.want(404, domain.PathNotFound)
		if a.Header.Get("Location") != "" {
			t.Errorf("%s: redirected", target)
		}
	}
	for _, target := range []string{"/v2/payments", "/v2", "/v0/payments", "/v10/x/y", "/v01/payments"} {
		ask("GET", target).want(404, domain.VersionNotSupported)
	}
	for _, target := range []string{"/v1/payments", "/v1/payments?", "http://elsewhere/v1/payments", "/v1/payments/" + id + "?ignored=1"} {
		ask("GET", target).want(200, "")
	}
}

func TestIdsAreComparedAsText(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	refund := m.refund(id).want(201, "").object().ID
	spellings := func(id string) []string {
		return []string{
			strings.ToLower(id), id[:25], id + "0", id[:25] + "%20", "%20" + id, id[:25] + "u", id[:25] + "I", "8" + id[1:], "Z" + id[1:],
			"%3" + id[:1] + id[1:], "x", strings.Repeat("0", 26), id[:13] + "%2F" + id[13:], "%FF%FE", "null", strings.Repeat("9", 5000),
			"pay_" + id, id + "%00",
		}
	}
	for _, other := range spellings(id) {
		m.get("/v1/payments/"+other).want(404, domain.PaymentNotFound)
		m.get("/v1/payments/"+other+"/events").want(404, domain.PaymentNotFound)
	}
	for _, other := range spellings(refund) {
		m.get("/v1/refunds/"+other).want(404, domain.RefundNotFound)
	}
	m.get("/v1/payments/"+refund).want(404, domain.PaymentNotFound)
	m.get("/v1/refunds/"+id).want(404, domain.RefundNotFound)
	for _, other := range []string{strings.ToLower(id), " " + id, id + " ", id[:25], "", "x"} {
		m.refund(other).want(404, domain.PaymentNotFound)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).want(201, "").object().ID
	for _, c := range []struct{ target, allow string }{
		{"/v1/payments", "GET, HEAD, POST"},
		{"/v1/payments/" + id, "GET, HEAD"},
		{"/v1/payments/" + id + "/events", "GET, HEAD"},
		{"/v1/refunds", "GET, HEAD, POST"},
		{"/v1/refunds/" + id, "GET, HEAD"},
		{"/v1/sandbox/payments/" + id, "POST"},
		{endpointsPath, "GET, HEAD, POST"},
		{endpointsPath + "/we_x", "DELETE, GET, HEAD, POST"},
		{endpointsPath + "/we_x/test", "POST"},
		{endpointsPath + "/we_x/deliveries", "GET, HEAD"},
		{endpointsPath + "/we_x/deliveries/x", "GET, HEAD"},
		{endpointsPath + "/we_x/deliveries/x/resend", "POST"},
		{"/v1/payments/" + id + "/deliveries", "GET, HEAD"},
		{"/docs/webhooks", "GET, HEAD"},
		{"/connectors/cards", "POST"},
		{"/docs/clients", "GET, HEAD"},
		{"/problems/unauthorized", "GET, HEAD"},
		{"/openapi.yaml", "GET, HEAD"},
		{"/docs", "GET, HEAD"},
		{"/", "GET, HEAD"},
		{"/livez", "GET, HEAD"},
		{"/readyz", "GET, HEAD"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "Post"} {
			allowed := false
			for a := range strings.SplitSeq(c.allow, ", ") {
				allowed = allowed || a == method
			}
			if allowed {
				continue
			}
			a := s.raw(method + " " + c.target + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + m.authorization() + "\r\nConnection: close\r\n\r\n")
			if a.Header.Get("Allow") != c.allow || a.Code != 405 {
				t.Errorf("%s %s: %d, Allow %q, want %q", method, c.target, a.Code, a.Header.Get("Allow"), c.allow)
			}
			if method != "HEAD" {
				a.want(405, domain.MethodNotAllowed)
			}
		}
	}
}

func TestHeadAnswersAsGetWithoutTheBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).want(201, "").object().ID
	for _, target := range []string{"/v1/payments", "/v1/payments/" + id, "/v1/refunds", "/livez", "/docs", "/problems/unavailable", "/v1/payments/x"} {
		get, head := m.get(target), m.send("HEAD", target, nil)
		if head.Code != get.Code || len(head.Body) != 0 {
			t.Errorf("%s: HEAD %d with %d bytes, GET %d", target, head.Code, len(head.Body), get.Code)
		}
		for name := range get.Header {
			if name != "X-Request-Id" && name != "Date" && name != "Etag" && head.Header.Get(name) != get.Header.Get(name) {
				t.Errorf("%s: %s: HEAD %q, GET %q", target, name, head.Header.Get(name), get.Header.Get(name))
			}
		}
	}
}

func TestEveryAnswerHasARequestIDOfOurOwn(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	seen := map[string]bool{}
	for _, target := range []string{"/v1/payments", "/v1/nothing", "/nothing", "/livez", "/p/x", "/docs"} {
		a := m.send("GET", target, nil, header{"X-Request-Id", "mine"})
		id := a.Header.Get("X-Request-Id")
		if _, ok := domain.ParseID(id); !ok || seen[id] || len(a.Header["X-Request-Id"]) != 1 {
			t.Errorf("%s: X-Request-Id %q", target, a.Header["X-Request-Id"])
		}
		seen[id] = true
	}
	a := s.send("GET", "/v1/payments", nil)
	if p := a.problem(); p.RequestID != a.Header.Get("X-Request-Id") {
		t.Errorf("request_id %q, header %q", p.RequestID, a.Header.Get("X-Request-Id"))
	}
}
