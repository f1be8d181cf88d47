package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// shop is a project with its own key.
type shop struct {
	s       *server
	project string
	secret  string
	keyID   string
}

func (s *server) merchant(settings string, scopes ...string) shop {
	s.t.Helper()
	body := `{"name":"Tea & Co"`
	if settings != "" {
		body += `,"settings":` + settings
	}
	if len(scopes) > 0 {
		body += `,"scopes":["` + strings.Join(scopes, `","`) + `"]`
	}
	a := s.adminDo("POST", "/admin/projects", body+"}")
	a.want(201, "")
	var v wire.Project
	a.decode(&v)
	return shop{s: s, project: v.ProjectID, secret: v.APIKey, keyID: v.KeyID}
}

func (m shop) authorization() string { return "Bearer " + m.project + ":" + m.secret }

// on is the same merchant at another server of the same log.
func (m shop) on(s *server) shop {
	m.s = s
	return m
}

func (s *server) adminDo(method, path, body string) *answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, r)
	return &answer{t: s.t, Code: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
}

// answer is a response, read to its end.
type answer struct {
	t      testing.TB
	Code   int
	Header http.Header
	Body   []byte
}

func (a *answer) decode(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, v, json.MatchCaseInsensitiveNames(true)); err != nil {
		a.t.Fatalf("%v in %s", err, a.Body)
	}
}

// want checks the status and, for a failure, the code.
func (a *answer) want(status int, code domain.Code) *answer {
	a.t.Helper()
	var p wire.Problem
	if a.Code >= 400 {
		a.decode(&p)
	}
	if a.Code != status || p.Code != code {
		a.t.Fatalf("answer %d %s, want %d %s\n%s", a.Code, p.Code, status, code, a.Body)
	}
	return a
}

func (a *answer) problem() wire.Problem {
	a.t.Helper()
	var p wire.Problem
	a.decode(&p)
	return p
}

// fields are the faults of a validation_failed as "pointer code".
func (a *answer) fields() string {
	a.t.Helper()
	a.want(422, domain.ValidationFailed)
	var all []string
	for _, f := range a.problem().Errors {
		all = append(all, f.Pointer+" "+string(f.Code))
	}
	return strings.Join(all, ", ")
}

type created struct {
	ID           string
	Status       string
	Amount       string
	Currency     string
	Description  *string
	Payload      jsontext.Value
	PaymentID    string `json:"payment_id"`
	Instructions *domain.Instructions
	CreatedAt    string `json:"created_at"`
}

func (a *answer) object() created {
	a.t.Helper()
	var c created
	a.decode(&c)
	return c
}

// header is a request header; a name may come more than once.
type header [2]string

// send sends a request with a body exactly as given and checks the exchange
// against the OpenAPI document.
func (s *server) send(method, target string, body io.Reader, headers ...header) *answer {
	s.t.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case *strings.Reader:
		sent = make([]byte, b.Len())
		_, _ = b.ReadAt(sent, 0)
	default: // of unknown length
		var err error
		if sent, err = io.ReadAll(body); err != nil {
			s.t.Fatal(err)
		}
		body = io.MultiReader(bytes.NewReader(sent))
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.url+target, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		r.Header[http.CanonicalHeaderKey(h[0])] = append(r.Header[http.CanonicalHeaderKey(h[0])], h[1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.read(res)
	checkContract(s.t, r, sent, a)
	return a
}

func (s *server) read(res *http.Response) *answer {
	s.t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answer{t: s.t, Code: res.StatusCode, Header: res.Header, Body: body}
}

// raw sends the bytes of a request as they are, on a connection of its own.
func (s *server) raw(request string) *answer {
	s.t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%q: %v", request, err)
	}
	return s.read(res)
}

func (m shop) send(method, target string, body io.Reader, headers ...header) *answer {
	m.s.t.Helper()
	return m.s.send(method, target, body, append([]header{{"Authorization", m.authorization()}}, headers...)...)
}

func (m shop) get(target string) *answer {
	m.s.t.Helper()
	return m.send("GET", target, nil)
}

func (m shop) post(target, body string, headers ...header) *answer {
	m.s.t.Helper()
	return m.send("POST", target, strings.NewReader(body), append([]header{{"Content-Type", "application/json"}}, headers...)...)
}

func (m shop) pay(body string, headers ...header) *answer {
	m.s.t.Helper()
	return m.post("/v1/payments", body, headers...)
}

func (m shop) refund(payment string, headers ...header) *answer {
	m.s.t.Helper()
	return m.post("/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, payment), headers...)
}

// route assigns the route, as the router would.
func (m shop) route(payment string) {
	m.s.t.Helper()
	id, ok := domain.ParseID(payment)
	if !ok {
		m.s.t.Fatalf("%q is no id", payment)
	}
	if _, err := m.s.decide(m.s.t.Context(), m.project, id, domain.AssignRoute{Table: domain.SandboxTable()}); err != nil {
		m.s.t.Fatal(err)
	}
}

// paid makes a payment that is paid.
func (m shop) paid() string {
	m.s.t.Helper()
	id := m.pay(`{"amount":"1500.00"}`).want(201, "").object().ID
	m.route(id)
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	return id
}

func key(n int) header {
	return header{"Idempotency-Key", fmt.Sprintf("0190f5a1-7c1e-4b6e-9d3a-%012x", n)}
}
