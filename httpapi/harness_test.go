package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/checkout"
	"payledger/projections"
)

const publicURL = "https://pay.example.com"

// server is the public handler behind a real listener, over a memory store
// and real views, with everything it needs to be driven.
type server struct {
	t      testing.TB
	url    string
	cfg    Config
	store  *memory.Store
	clock  *clock
	log    *lockedBuffer
	client *http.Client
	admin  http.Handler
	public http.Handler
}

// start runs a server without limits and with a sandbox.
func start(t testing.TB, change ...func(*Config)) *server {
	t.Helper()
	s := &server{t: t, store: memory.New(), clock: newClock(), log: new(lockedBuffer), client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 128},
	}}
	s.cfg = Config{
		Ledger:    eventstore.Ledger{Store: s.store, Codec: eventstore.NewCodec()},
		IDs:       domain.NewIDs(s.clock.Now, rand.Reader, domain.ID{}),
		Now:       s.clock.Now,
		PublicURL: publicURL,
		Log:       zerolog.New(s.log),
	}
	s.cfg.Sandbox = provider{s}
	var err error
	if s.cfg.Links, err = checkout.NewLinks(map[int][32]byte{1: {1}, 2: {2}}, 1); err != nil {
		t.Fatal(err)
	}
	s.cfg.Views, err = projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(t.TempDir(), "projections.db"), Store: s.store, Codec: s.cfg.Ledger.Codec, LogID: domain.ID{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { _ = s.cfg.Views.Run(ctx) })
	for _, f := range change {
		f(&s.cfg)
	}
	if s.public, err = New(s.cfg); err != nil {
		t.Fatal(err)
	}
	admin := s.cfg
	admin.Metrics = nil
	if s.admin, err = NewAdmin(admin); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s.public)
	s.url = listener.URL
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		listener.Close()
		stop()
		following.Wait()
		_ = s.cfg.Views.Close()
		_ = s.store.Close()
	})
	return s
}

// again serves the same log and views with other settings.
func (s *server) again(change func(*Config)) *server {
	s.t.Helper()
	other := *s
	change(&other.cfg)
	var err error
	if other.public, err = New(other.cfg); err != nil {
		s.t.Fatal(err)
	}
	listener := httptest.NewServer(other.public)
	s.t.Cleanup(listener.Close)
	other.url = listener.URL
	return &other
}

// clock is a clock that only tests move.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(1795169730123)
	return c
}

func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// provider is the sandbox: what the enforcer would do with its signals, at
// once.
type provider struct{ s *server }

func (p provider) SignalPayment(ctx context.Context, pay domain.Payment, outcome domain.Outcome, ref string) (domain.SignalReply, error) {
	return p.apply(ctx, pay, domain.Signal{
		Route: pay.Route, Outcome: outcome, Reference: ref, Amount: pay.Amount, Currency: pay.Currency,
		StartedAt: domain.InstantOf(p.s.clock.Now()),
	})
}

func (p provider) SignalRefund(ctx context.Context, pay domain.Payment, refund domain.ID, outcome domain.Outcome, ref string) (domain.SignalReply, error) {
	return p.apply(ctx, pay, domain.Signal{
		Route: pay.Route, Outcome: outcome, Reference: ref, RefundID: &refund, Amount: pay.Amount, Currency: pay.Currency,
	})
}

func (p provider) apply(ctx context.Context, pay domain.Payment, signal domain.Signal) (domain.SignalReply, error) {
	res, err := p.s.decide(ctx, pay.Project, pay.ID, domain.ApplySignal{Signal: signal})
	reply := domain.SignalReply{Result: domain.SignalApplied}
	switch e := res.Event.(type) {
	case nil:
		reply.Result = domain.SignalUnchanged
	case domain.PaymentSignalRefused:
		reply.Result, reply.Reason = domain.SignalRefused, e.Reason
	case domain.PaymentLateFunds:
		reply.Result, reply.Reason = domain.SignalLateFunds, e.Reason
	}
	return reply, err
}

// decide runs a command against a payment, as the workers behind JetStream
// would.
func (s *server) decide(ctx context.Context, project string, id domain.ID, cmd domain.PaymentCommand) (eventstore.Result[domain.Payment], error) {
	return eventstore.Execute(ctx, s.cfg.Ledger, eventstore.PaymentStream(project, id),
		domain.Payment{Project: project, ID: id}, cmd, eventstore.Order{EventID: s.cfg.IDs.Next()})
}

// merchant is a project with a key of its own.
type merchant struct {
	s       *server
	project string
	secret  string
	keyID   string
}

func (s *server) merchant(settings string, scopes ...string) merchant {
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
	var v projectView
	a.decode(&v)
	return merchant{s: s, project: v.ProjectID, secret: v.APIKey, keyID: v.KeyID}
}

func (m merchant) authorization() string { return "Bearer " + m.project + ":" + m.secret }

// on is the same merchant at another server of the same log.
func (m merchant) on(s *server) merchant {
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
	var p problem
	if a.Code >= 400 {
		a.decode(&p)
	}
	if a.Code != status || p.Code != code {
		a.t.Fatalf("answer %d %s, want %d %s\n%s", a.Code, p.Code, status, code, a.Body)
	}
	return a
}

func (a *answer) problem() problem {
	a.t.Helper()
	var p problem
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
	Payload      rawValue
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
	r, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.url+target, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		r.Header[http.CanonicalHeaderKey(h[0])] = append(r.Header[http.CanonicalHeaderKey(h[0])], h[1])
	}
	var sent []byte
	if b, ok := body.(*strings.Reader); ok {
		sent = make([]byte, b.Len())
		_, _ = b.ReadAt(sent, 0)
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

func (m merchant) send(method, target string, body io.Reader, headers ...header) *answer {
	m.s.t.Helper()
	return m.s.send(method, target, body, append([]header{{"Authorization", m.authorization()}}, headers...)...)
}

func (m merchant) get(target string) *answer {
	m.s.t.Helper()
	return m.send("GET", target, nil)
}

func (m merchant) post(target, body string, headers ...header) *answer {
	m.s.t.Helper()
	return m.send("POST", target, strings.NewReader(body), append([]header{{"Content-Type", "application/json"}}, headers...)...)
}

func (m merchant) pay(body string, headers ...header) *answer {
	m.s.t.Helper()
	return m.post("/v1/payments", body, headers...)
}

func (m merchant) refund(payment string, headers ...header) *answer {
	m.s.t.Helper()
	return m.post("/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, payment), headers...)
}

// route assigns the route, as the router would.
func (m merchant) route(payment string) {
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
func (m merchant) paid() string {
	m.s.t.Helper()
	id := m.pay(`{"amount":"1500.00"}`).want(201, "").object().ID
	m.route(id)
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	return id
}

func key(n int) header {
	return header{"Idempotency-Key", fmt.Sprintf("0190f5a1-7c1e-4b6e-9d3a-%012x", n)}
}
