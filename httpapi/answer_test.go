package httpapi

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"

	"github.com/getkin/kin-openapi/openapi3"
)

// JSON ends with a newline for a curl that asks for no media type, and only then.
func TestNewlineForCurl(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	curl, wide := header{"User-Agent", "curl/8.14.1"}, header{"Accept", "*/*"}
	ends := func(a *answer) bool { return bytes.HasSuffix(a.Body, []byte("\n")) }
	for name, c := range map[string]struct {
		a    *answer
		want bool
	}{
		"curl":                {m.send("GET", "/v1/payments", nil, curl, wide), true},
		"a refusal":           {m.send("GET", "/v1/nothing", nil, curl, wide), true},
		"without Accept":      {m.send("GET", "/v1/payments", nil, curl), true},
		"a creation":          {m.pay(`{"amount":"1.00"}`, curl, wide), true},
		"a type was asked":    {m.send("GET", "/v1/payments", nil, curl, header{"Accept", "application/json"}), false},
		"another client":      {m.send("GET", "/v1/payments", nil, header{"User-Agent", "libcurl/8"}, wide), false},
		"a script named curl": {m.send("GET", "/v1/payments", nil, header{"User-Agent", "my curl/1"}), false},
	} {
		if got := ends(c.a); got != c.want {
			t.Errorf("%s: ends with a newline: %v\n%s", name, got, c.a.Body)
		}
	}
	// A repeated creation gets the bytes of the first answer.
	first := m.pay(`{"amount":"2.00"}`, key(7), curl, wide).want(201, "")
	again := m.pay(`{"amount":"2.00"}`, key(7)).want(201, "")
	byCurl := m.pay(`{"amount":"2.00"}`, key(7), curl).want(201, "")
	if !bytes.Equal(first.Body, again.Body) || !bytes.Equal(first.Body, byCurl.Body) || ends(first) {
		t.Errorf("%q, %q, %q", first.Body, again.Body, byCurl.Body)
	}
	// HEAD has the Content-Length of GET.
	get, head := m.send("GET", "/v1/payments", nil, curl, wide), m.send("HEAD", "/v1/payments", nil, curl, wide)
	if get.Header.Get("Content-Length") != head.Header.Get("Content-Length") {
		t.Errorf("%v, %v", get.Header, head.Header)
	}
}

// An unknown name is answered with the known ones, and is repeated only in the
// pointer and the member parameter.
func TestUnknownNamesAreAnsweredWithKnownOnes(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	payment := []string{"amount", "currency", "description", "payload"}
	for _, c := range []struct {
		path, body, nearest string
		allowed             []string
	}{
		{"/v1/payments", `{"amount":1,"Curency":"RUB"}`, "currency", payment},
		{"/v1/payments", `{"amount":1,"card_number":"4111"}`, "", payment},
		{"/v1/payments", `{"amount":1,"` + strings.Repeat("a", 70) + `":1}`, "", payment},
		{"/v1/refunds", `{"payment_id":"x","paymentid":"y"}`, "payment_id", []string{"payment_id"}},
		{"/v1/webhook-endpoints", `{"url":"https://shop.example.com/","kind":[]}`, "kinds", []string{"url", "kinds", "description"}},
		{"/v1/sandbox/payments/x", `{"outcome":"paid","outcom":"paid"}`, "outcome", []string{"outcome"}},
		{"/v1/webhook-endpoints/we_x/test", `{"outcom":"paid"}`, "", nil},
	} {
		p := m.post(c.path, c.body).want(422, domain.ValidationFailed).problem()
		if len(p.Errors) != 1 {
			t.Fatalf("%+v", p)
		}
		f := p.Errors[0]
		if f.Code != domain.UnknownField || f.Nearest != c.nearest || !slices.Equal(f.Allowed, c.allowed) || p.Detail != f.Detail {
			t.Errorf("%s %s: %+v", c.path, c.body, p)
		}
		if suggests := strings.Contains(f.Detail, "Did you mean "+c.nearest+"?"); suggests != (c.nearest != "") ||
			strings.Contains(p.Detail, "Curency") || strings.Contains(p.Detail, "card_number") || strings.Contains(p.Detail, "outcom ") {
			t.Errorf("%s", p.Detail)
		}
	}
	for query, want := range map[string]wire.Problem{
		"statsu=paid":                  {Parameter: "statsu", Nearest: "status"},
		"Limit=1":                      {Parameter: "Limit", Nearest: "limit"},
		"token=x":                      {Parameter: "token"},
		strings.Repeat("l", 70) + "=1": {},
	} {
		p := m.get("/v1/payments?"+query).want(400, domain.InvalidParameter).problem()
		if p.Parameter != want.Parameter || p.Nearest != want.Nearest || !slices.Contains(p.Allowed, "description_prefix") || strings.Contains(p.Detail, "statsu") {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestMethodsInTheBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	p := m.send("DELETE", "/v1/payments", nil).want(405, domain.MethodNotAllowed).problem()
	if !slices.Equal(p.Allowed, []string{"GET", "HEAD", "POST"}) || p.Detail != "This path takes GET, HEAD, POST." {
		t.Errorf("%+v", p)
	}
}

// The detail is the first fault of the fields and the number of the others.
func TestFirstFaultInTheDetail(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for body, want := range map[string]string{
		`{"amount":"1.005"}`: "amount: Send at most two digits after the point.",
		`{"currency":"EUR"}`: "amount: This field is required. See errors for one more.",
		`{"amount":"1.005","colour":"red","currency":"X"}`: "amount: Send at most two digits after the point. See errors for 2 more.",
		`[]`: "The body must be one JSON object.",
	} {
		if p := m.pay(body).want(422, domain.ValidationFailed).problem(); p.Detail != want {
			t.Errorf("%s: %q, want %q", body, p.Detail, want)
		}
	}
}

// What clients resolve against the address of a request stays below the path of the public URL.
func TestPathOfThePublicURL(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/base"} {
		s := start(t, func(c *settings) { c.PublicURL = publicURL + prefix })
		m := s.merchant("")
		made := m.pay(`{"amount":1}`, key(1)).want(201, "")
		again := m.pay(`{"amount":1}`, key(1)).want(201, "")
		paid := m.paid()
		refund := m.refund(paid).want(201, "")
		hook := m.post(endpointsPath, `{"url":"`+hookURL+`"}`).want(201, "")
		var endpoint wire.Endpoint
		hook.decode(&endpoint)
		for got, want := range map[string]string{
			made.Header.Get("Location"):   "/v1/payments/" + made.object().ID,
			again.Header.Get("Location"):  "/v1/payments/" + made.object().ID,
			refund.Header.Get("Location"): "/v1/refunds/" + refund.object().ID,
			hook.Header.Get("Location"):   endpointsPath + "/" + endpoint.ID,
		} {
			if got != prefix+want {
				t.Errorf("Location %s, want %s", got, prefix+want)
			}
		}
		if link := m.get("/v1/payments?limit=1").want(200, "").Header.Get("Link"); !strings.HasPrefix(link, "<"+prefix+"/v1/payments?cursor=") {
			t.Errorf("Link %s", link)
		}
		of := "/admin/projects/" + m.project + "/webhook-endpoints" // another listener, without the path
		if a := s.adminDo("POST", of, `{"url":"`+hookURL+`"}`).want(201, ""); !strings.HasPrefix(a.Header.Get("Location"), of+"/") {
			t.Errorf("%v", a.Header)
		}
		doc, err := openapi3.NewLoader().LoadFromData(s.send("GET", "/openapi.yaml", nil).want(200, "").Body)
		if err != nil || len(doc.Servers) != 1 || doc.Servers[0].URL != cmp.Or(prefix, "/") {
			t.Errorf("%v %+v", err, doc.Servers)
		}
	}
}

func TestLandingPage(t *testing.T) {
	t.Parallel()
	for prefix, root := range map[string]string{"": publicURL, "/base": publicURL + "/base"} {
		s := start(t).again(func(c *settings) { c.PublicURL = root })
		var l wire.Landing
		s.send("GET", "/", nil, header{"Accept", "application/json, text/html;q=0.5"}).want(200, "").decode(&l)
		a := s.send("GET", "/", nil, header{"Accept", "*/*"}).want(200, "")
		if a.decode(&l); l.Docs != root+"/docs" || l.API != root+"/v1" || l.Clients != root+"/docs/clients" || a.Header.Get("Vary") != "Accept" {
			t.Errorf("%+v %v", l, a.Header)
		}
		page := s.send("GET", "/", nil, header{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"}).want(200, "")
		if !bytes.Contains(page.Body, []byte(`href="`+prefix+`/docs"`)) || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s", page.Body)
		}
		for _, path := range []string{l.Docs, l.OpenAPI, l.Clients, l.Webhooks} {
			s.send("GET", strings.TrimPrefix(path, root), nil, header{"Accept", "text/html"}).want(200, "")
		}
		s.browser().open(strings.TrimPrefix(l.Account, root)).want(303)
	}
}
