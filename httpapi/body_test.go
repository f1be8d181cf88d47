package httpapi

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
)

func TestContentType(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, c := range []struct {
		lines []string
		OK    bool
	}{
		{[]string{"application/json"}, true},
		{[]string{"Application/JSON"}, true},
		{[]string{"application/json;charset=utf-8"}, true},
		{[]string{"application/json; charset=UTF-8"}, true},
		{[]string{`application/json; Charset="Utf-8"`}, true},
		{[]string{"application/json ; charset=utf-8"}, true},
		{[]string{"application/json;"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"text/json"}, false},
		{[]string{"application/jsonx"}, false},
		{[]string{"application/problem+json"}, false},
		{[]string{"application/vnd.api+json"}, false},
		{[]string{"application/*"}, false},
		{[]string{"application/json; charset=utf-16"}, false},
		{[]string{"application/json; charset=utf8"}, false},
		{[]string{"application/json; charset=latin1"}, false},
		{[]string{"application/json; charset"}, false},
		{[]string{"application/json; charset="}, false},
		{[]string{"application/json; charset=utf-8; version=1"}, false},
		{[]string{"application/json; version=1"}, false},
		{[]string{"application/json; charset=utf-8; charset=latin1"}, false},
		{[]string{"application/json; charset*=utf-8''utf-8"}, false},
		{[]string{"application/json, application/json"}, false},
		{[]string{"application/json", "application/json"}, false},
		{[]string{"application/x-www-form-urlencoded"}, false},
		{[]string{"multipart/form-data; boundary=x"}, false},
	} {
		var headers []header
		for _, l := range c.lines {
			headers = append(headers, header{"Content-Type", l})
		}
		// This goes round the OpenAPI document, whose validator reads media types
		// differently.
		a := m.s.raw(rawPost(m, "/v1/payments", `{"amount":1}`, headers...))
		if c.OK != (a.Code == 201) || (!c.OK && a.problem().Code != domain.UnsupportedMediaType) {
			t.Errorf("%q: %d %s", c.lines, a.Code, a.Body)
		}
	}
	for _, encoding := range []string{"gzip", "identity", "br", ""} {
		s.raw(rawPost(m, "/v1/payments", `{"amount":1}`, header{"Content-Type", "application/json"}, header{"Content-Encoding", encoding})).
			want(415, domain.UnsupportedMediaType)
	}
}

func rawPost(m shop, target, body string, headers ...header) string {
	r := "POST " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + m.authorization() + "\r\n"
	for _, h := range headers {
		r += h[0] + ": " + h[1] + "\r\n"
	}
	return r + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	padded := func(size int) string {
		const least = `{"amount":1}`
		return `{"amount":1` + strings.Repeat(" ", size-len(least)) + "}"
	}
	for _, c := range []struct {
		size int
		OK   bool
	}{{12, true}, {edge.MaxBody - 1, true}, {edge.MaxBody, true}, {edge.MaxBody + 1, false}, {10 * edge.MaxBody, false}, {1 << 20, false}} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(padded(c.size))
			if chunked {
				body = io.MultiReader(body) // its length is not known beforehand
			}
			a := m.send("POST", "/v1/payments", body, header{"Content-Type", "application/json"})
			if c.OK {
				a.want(201, "")
				continue
			}
			a.want(413, domain.BodyTooLarge)
		}
	}
}

func TestBodiesThatEndEarlyOrHaveBrokenChunks(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	head := "POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: " + m.authorization() + "\r\n"
	s.raw(head+"Transfer-Encoding: chunked\r\n\r\nzz\r\n").want(400, domain.MalformedJSON)
	s.raw(head+"Transfer-Encoding: chunked\r\n\r\nC\r\n{\"amount\":1}\r\n0\r\n\r\n").want(201, "")
	s.raw(head+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").want(400, domain.BodyRequired)
	s.raw(head+"Content-Length: 0\r\n\r\n").want(400, domain.BodyRequired)
}

func TestBodiesOfGetAreIgnored(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, body := range []string{"{", strings.Repeat("x", 100*edge.MaxBody)} {
		m.send("GET", "/v1/payments", io.MultiReader(strings.NewReader(body)), header{"Content-Type", "text/plain"}).want(200, "")
	}
}

func TestBytesAndJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	nested := func(depth int) string {
		return `{"amount":1,"payload":{"a":` + strings.Repeat("[", depth-2) + strings.Repeat("]", depth-2) + "}}"
	}
	for _, c := range []struct {
		body string
		code domain.Code
	}{
		{"", domain.BodyRequired},
		{" \r\n\t ", domain.BodyRequired},
		{"\ufeff" + `{"amount":1}`, domain.InvalidEncoding},
		{"\ufeff", domain.InvalidEncoding},
		{"\xff\xfe{\x00}\x00", domain.InvalidEncoding},
		{`{"amount":1,"description":"` + "\xe9" + `"}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"` + "\xc0\xaf" + `"}`, domain.InvalidEncoding},     // overlong
		{`{"amount":1,"description":"` + "\xed\xa0\x80" + `"}`, domain.InvalidEncoding}, // encoded surrogate
		{`{"amount":1,"description":"` + "\xf4\x90\x80\x80" + `"}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"\ud800"}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"\udc00\ud800"}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"\ud83dx"}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"\ud83d\n"}`, domain.InvalidEncoding},
		{`{"amount":1,"\ud800":1}`, domain.InvalidEncoding},
		{`{"amount":1,"payload":{"a":{"\udfff":1}}}`, domain.InvalidEncoding},
		{`{"amount":1,"payload":{"a":["\ud800\ud800"]}}`, domain.InvalidEncoding},
		{`{"amount":1,"description":"\ud800"} x`, domain.InvalidEncoding},
		{`"\ud800"`, domain.InvalidEncoding},
		{`{"amount":1,"amount":1}`, domain.DuplicateMember},
		{`{"amount":1,"\u0061mount":2}`, domain.DuplicateMember},
		{`{"amount":1,"description":null,"description":null}`, domain.DuplicateMember},
		{`{"amount":1,"x":1,"x":2}`, domain.DuplicateMember},
		{`{"amount":1,"payload":{"a":1,"a":1}}`, domain.DuplicateMember},
		{`{"amount":1,"payload":{"a":[{"b":{"c":1,"c":2}}]}}`, domain.DuplicateMember},
		{`{"amount":1,"unknown":{"a":1,"a":1}}`, domain.DuplicateMember},
		{`[{"a":1,"a":1}]`, domain.DuplicateMember},
		{`{"":1,"":2}`, domain.DuplicateMember},
		{`{"amount":1} {}`, domain.MalformedJSON},
		{`{"amount":1}x`, domain.MalformedJSON},
		{`{"amount":1}]`, domain.MalformedJSON},
		{`{"amount":1}` + "\x00", domain.MalformedJSON},
		{`{"amount":1,}`, domain.MalformedJSON},
		{`{"amount":01}`, domain.MalformedJSON},
		{`{"amount":+1}`, domain.MalformedJSON},
		{`{"amount":.5}`, domain.MalformedJSON},
		{`{"amount":1.}`, domain.MalformedJSON},
		{`{"amount":NaN}`, domain.MalformedJSON},
		{`{"amount":Infinity}`, domain.MalformedJSON},
		{`{"amount":0x10}`, domain.MalformedJSON},
		{`{"amount":1_000}`, domain.MalformedJSON},
		{`{amount:1}`, domain.MalformedJSON},
		{`{'amount':1}`, domain.MalformedJSON},
		{`{"amount":1 // x` + "\n}", domain.MalformedJSON},
		{`{"amount":1`, domain.MalformedJSON},
		{`{"amount":`, domain.MalformedJSON},
		{`{`, domain.MalformedJSON},
		{`}`, domain.MalformedJSON},
		{`nul`, domain.MalformedJSON},
		{`True`, domain.MalformedJSON},
		{"{\"amount\":1,\"description\":\"a\nb\"}", domain.MalformedJSON}, // bare line break
		{"{\"amount\":1,\"description\":\"\x01\"}", domain.MalformedJSON},
		{`{"amount":1,"description":"\x41"}`, domain.MalformedJSON},
		{`{"amount":1,"description":"\u00"}`, domain.MalformedJSON},
		{"\u00a0" + `{"amount":1}`, domain.MalformedJSON},
		{"{\x00\"\x00a\x00", domain.MalformedJSON},
		{"amount=1", domain.MalformedJSON},
		{nested(edge.MaxDepth + 1), domain.MalformedJSON},
		{`{"amount":1,"payload":{"a":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + "}}", domain.MalformedJSON},
		{strings.Repeat("[", 16000), domain.MalformedJSON},
		{strings.Repeat(`{"a":`, 3000), domain.MalformedJSON},
	} {
		a := m.pay(c.body)
		if a.Code != 400 || a.problem().Code != c.code {
			t.Errorf("%.80q: %d %s, want %s", c.body, a.Code, a.Body, c.code)
		}
	}
	m.pay(nested(edge.MaxDepth)).want(201, "")
	m.pay(" \r\n\t{\"amount\":1}\n ").want(201, "")
	for _, body := range []string{"[]", `""`, "1", "null", "true", `[{"amount":1}]`, `"\u00e9"`} {
		if got := m.pay(body).fields(); got != "# wrong_type" {
			t.Errorf("%s: %s", body, got)
		}
		if got := m.post("/v1/refunds", body).fields(); got != "# wrong_type" {
			t.Errorf("%s: %s", body, got)
		}
	}
}
