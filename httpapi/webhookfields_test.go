package httpapi

import (
	"io"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
)

func TestEndpointFields(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	one := m.hook(`{"url":"` + hookURL + `"}`)
	long := func(n int) string { return hookURL + strings.Repeat("x", n-len(hookURL)) }
	for _, c := range []struct{ body, want, change string }{ // change: what a change answers, "=" for the same, "" for 200
		{`{}`, "#/url required", ""},
		{`{"url":null}`, "#/url required", ""},
		{`{"url":""}`, "#/url required", "="},
		{`{"url":1}`, "#/url wrong_type", "="},
		{`{"url":["` + hookURL + `"]}`, "#/url wrong_type", "="},
		{`{"url":"http://shop.example.com/"}`, "#/url target_not_allowed", "="},
		{`{"url":"shop"}`, "#/url target_not_allowed", "="},
		{`{"url":"` + hookURL + `\n"}`, "#/url control_character", "="},
		{`{"url":"` + hookURL + `\u0000"}`, "#/url control_character", "="},
		{`{"url":"` + hookURL + ` "}`, "#/url invalid_value", "="},
		{`{"url":"` + hookURL + `?a=\"><b>"}`, "#/url invalid_value", "="},
		{`{"url":"` + hookURL + `%4"}`, "#/url invalid_value", "="},
		{`{"url":"https://магазин.рф/"}`, "#/url invalid_value", "="},
		{`{"url":"` + hookURL + `\u00e9"}`, "#/url invalid_value", "="},
		{`{"url":"` + long(2049) + `"}`, "#/url too_long", "="},
		{`{"url":"` + hookURL + strings.Repeat("é", 1025) + `"}`, "#/url too_long", "="},
		{`{"URL":"` + hookURL + `"}`, "#/url required, #/URL unknown_field", "#/URL unknown_field"},
		{`{"url":"` + hookURL + `","kinds":[]}`, "#/kinds invalid_value", "="},
		{`{"url":"` + hookURL + `","kinds":["payment.settled"]}`, "#/kinds invalid_value", "="},
		{`{"url":"` + hookURL + `","kinds":["payment.paid","*"]}`, "#/kinds invalid_value", "="},
		{`{"url":"` + hookURL + `","kinds":["endpoint.test"]}`, "#/kinds invalid_value", "="},
		{`{"url":"` + hookURL + `","kinds":["Payment.Paid"]}`, "#/kinds invalid_value", "="},
		{`{"url":"` + hookURL + `","kinds":"payment.paid"}`, "#/kinds wrong_type", "="},
		{`{"url":"` + hookURL + `","kinds":["payment.paid",1]}`, "#/kinds wrong_type", "="},
		{`{"url":"` + hookURL + `","kinds":[null]}`, "#/kinds wrong_type", "="},
		{`{"url":"` + hookURL + `","description":"` + strings.Repeat("ж", 129) + `"}`, "#/description too_long", "="},
		{`{"url":"` + hookURL + `","description":"a\tb"}`, "#/description control_character", "="},
		{`{"url":"` + hookURL + `","description":{}}`, "#/description wrong_type", "="},
		{`{"url":"` + hookURL + `","secret":"whsec_x","status":"disabled"}`, "#/secret unknown_field, #/status unknown_field", "="},
		{
			`{"x":1,"description":"\u0007","kinds":["y"],"url":"http://x"}`,
			"#/url target_not_allowed, #/kinds invalid_value, #/description control_character, #/x unknown_field", "=",
		},
		{`[]`, "# wrong_type", "="},
		{`"` + hookURL + `"`, "# wrong_type", "="},
	} {
		before, _ := s.store.Last(t.Context())
		if got := m.post(endpointsPath, c.body).fields(); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
		want := c.want
		if c.change != "=" {
			want = c.change
		}
		if a := m.post(endpointsPath+"/"+one.ID, c.body); (want == "") != (a.Code == 200) || want != "" && a.fields() != want {
			t.Errorf("change: %s: %d %s", c.body, a.Code, a.Body)
		}
		if after, _ := s.store.Last(t.Context()); after != before {
			t.Errorf("%s: something was recorded", c.body)
		}
	}
	for _, body := range []string{
		`{"url":"` + long(2048) + `"}`, `{"url":"https:\/\/shop.example.com\u002fhooks"}`,
		`{"url":"` + hookURL + `?a=1&b=%C3%A9"}`, `{"url":"` + hookURL + `","description":"` + strings.Repeat("ж", 128) + `","kinds":null}`,
		`{"url":"` + hookURL + `","kinds":["payment.created","payment.awaiting_payment","payment.paid","payment.expired","payment.failed","payment.disputed","payment.dispute_won","payment.dispute_lost","refund.pending","refund.succeeded","refund.failed","refund.returned"]}`,
	} {
		m.hook(body)
	}
	p := m.post(endpointsPath, `{"url":"http://secret-host/"}`).problem()
	if d := p.Errors[0].Detail; !strings.Contains(d, "https://") || strings.Contains(d, "secret-host") {
		t.Errorf("%s", d)
	}
	s.audited()
}

func TestBodiesOfEndpointActions(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	path := endpointsPath + "/" + m.hook(`{"url":"`+hookURL+`"}`).ID
	event := s.hooks.add(domain.DeliveryObject{EndpointID: path[len(endpointsPath)+1:], Type: domain.KindPaymentPaid, PaymentID: &domain.ID{1}}).EventID
	s.hooks.newest[domain.ID{1}] = event
	for _, action := range []string{"/enable", "/disable", "/enable", "/test", "/rotate-secret", "/deliveries/" + event.String() + "/resend"} {
		target := path + action
		ok := func(a *answer) {
			t.Helper()
			if a.Code/100 != 2 {
				t.Errorf("%s: %d %s", action, a.Code, a.Body)
			}
		}
		ok(m.send("POST", target, nil))
		ok(m.send("POST", target, nil, header{"Content-Type", "text/plain"}))
		ok(m.post(target, ``))
		ok(m.post(target, ` {} `))
		ok(m.s.raw(rawPost(m, target, ``)))
		ok(m.s.raw("POST " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + m.authorization() + "\r\n\r\n"))
		ok(m.send("POST", target, io.MultiReader(), header{"Content-Type", "application/json"}))
		if got := m.post(target, `{"x":1,"y":{}}`).fields(); got != "#/x unknown_field, #/y unknown_field" {
			t.Errorf("%s: %s", action, got)
		}
		m.post(target, `[]`).want(422, domain.ValidationFailed)
		m.post(target, `null`).want(422, domain.ValidationFailed)
		m.post(target, ` `).want(400, domain.BodyRequired)
		m.post(target, `{`).want(400, domain.MalformedJSON)
		m.post(target, `{"x":1,"x":1}`).want(400, domain.DuplicateMember)
		m.send("POST", target, strings.NewReader("{}"), header{"Content-Type", "text/plain"}).want(415, domain.UnsupportedMediaType)
		m.post(target, `{"x":"`+strings.Repeat("x", edge.MaxBody)+`"}`).want(413, domain.BodyTooLarge)
	}
	for body, want := range map[string]string{
		`{"overlap_seconds":-1}`:     "#/overlap_seconds invalid_value",
		`{"overlap_seconds":604801}`: "#/overlap_seconds invalid_value",
		`{"overlap_seconds":1e300}`:  "#/overlap_seconds invalid_value",
		`{"overlap_seconds":1e999}`:  "#/overlap_seconds invalid_value",
		`{"overlap_seconds":0.5}`:    "#/overlap_seconds wrong_type",
		`{"overlap_seconds":"60"}`:   "#/overlap_seconds wrong_type",
		`{"overlap_seconds":true}`:   "#/overlap_seconds wrong_type",
		`{"overlap_seconds":[60]}`:   "#/overlap_seconds wrong_type",
		`{"overlap":60}`:             "#/overlap unknown_field",
	} {
		if got := m.post(path+"/rotate-secret", body).fields(); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	s.hooks.calls()
	for body, want := range map[string]string{
		`{}`:                                         "#/since required",
		`{"since":null}`:                             "#/since required",
		`{"since":1795169730}`:                       "#/since wrong_type",
		`{"since":"yesterday"}`:                      "#/since invalid_value",
		`{"since":""}`:                               "#/since invalid_value",
		`{"since":"2026-11-20"}`:                     "#/since invalid_value",
		`{"since":"2026-11-20 10:00:00Z"}`:           "#/since invalid_value",
		`{"since":"2026-11-20T10:00:00"}`:            "#/since invalid_value",
		`{"since":"2026-11-20T10:00:00Z","until":1}`: "#/until unknown_field",
	} {
		if got := m.post(path+"/recover", body).fields(); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	// A schema cannot refuse a day that its month does not have.
	if got := m.s.raw(rawPost(m, path+"/recover", `{"since":"2026-02-30T10:00:00Z"}`, header{"Content-Type", "application/json"})).fields(); got != "#/since invalid_value" {
		t.Error(got)
	}
	m.send("POST", path+"/recover", nil).want(415, domain.UnsupportedMediaType)
	m.post(path+"/recover", ``).want(400, domain.BodyRequired)
	if calls := s.hooks.calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
	for _, since := range []string{"1970-01-01T00:00:00Z", "1969-07-21T02:56:15Z"} {
		m.post(path+"/recover", `{"since":"`+since+`"}`).want(202, "")
	}
	s.hooks.calls()
	for _, since := range []string{"2026-11-20T10:00:00Z", "2026-11-20T13:00:00.0009+03:00"} {
		if a := m.post(path+"/recover", `{"since":"`+since+`"}`).want(202, ""); string(a.Body) != `{"enqueued":7}` {
			t.Errorf("%s", a.Body)
		}
		if calls := s.hooks.calls(); len(calls) != 1 || !strings.HasSuffix(calls[0], "2026-11-20T10:00:00.000Z") {
			t.Errorf("%s: %v", since, calls)
		}
	}
}
