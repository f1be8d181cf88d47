package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/admin"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestStoreThatTakesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	first := m.pay(`{"amount":1}`, key(1)).want(201, "")
	for err, says := range map[error]string{
		eventstore.ErrFull: "is full", eventstore.ErrBusy: "too busy",
	} {
		s.store.Refuse(err)
		for _, a := range []*answer{m.pay(`{"amount":1}`), m.refund(id), m.pay(`{"amount":1}`, key(2))} {
			a.want(503, domain.Unavailable)
			if d := a.problem().Detail; a.Header.Get("Retry-After") == "" || !strings.Contains(d, "nothing was stored") || !strings.Contains(d, says) {
				t.Errorf("%v: %v %s", err, a.Header, a.Body)
			}
		}
		m.get("/v1/payments/"+id).want(200, "")
		m.pay(`{"amount":"x"}`).want(422, domain.ValidationFailed)
	}
	s.store.Refuse(nil)
	again := m.pay(`{"amount":1}`, key(1)).want(201, "")
	if string(again.Body) != string(first.Body) {
		t.Errorf("%s", again.Body)
	}
}

// A store of several machines may not find out in time whether a commit happened.
// Every interface then says that it may have happened; repeated with the same key it
// happens once.
func TestUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	id := m.paid()
	b := s.browser().signIn(m)
	form := b.open("/account/payments/" + id + "/refund").token("refund")
	unconfirmed := func(a *answer) {
		t.Helper()
		a.want(503, domain.Unconfirmed)
		if a.Header.Get("Retry-After") == "" || !strings.Contains(a.problem().Detail, "same Idempotency-Key") {
			t.Errorf("%v %s", a.Header, a.Body)
		}
	}
	refunds := func() int { return len(m.list("/v1/refunds").Data) }

	s.store.Refuse(eventstore.ErrUnconfirmed) // it did not happen
	unconfirmed(m.pay(`{"amount":1}`))
	unconfirmed(m.pay(`{"amount":2}`, key(1)))
	unconfirmed(m.refund(id))
	unconfirmed(s.adminDo("POST", "/admin/projects", `{"name":"Tea"}`))
	b.post("/account/payments/"+id+"/refund", url.Values{"form": {form}}).want(503).has("not known yet whether this was done")
	m.pay(`{"amount":"x"}`).want(422, domain.ValidationFailed)
	s.store.Refuse(nil)
	if n := refunds(); n != 0 {
		t.Errorf("%d refunds", n)
	}
	m.pay(`{"amount":2}`, key(1)).want(201, "")

	s.store.Lose(eventstore.ErrUnconfirmed) // it did, and the answer is lost
	unconfirmed(m.refund(id))
	first := m.pay(`{"amount":3}`, key(2)).want(201, "") // by its key it is found at once
	if first.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the answer that was lost counts as an earlier one")
	}
	s.store.Lose(nil)
	if n := refunds(); n != 1 {
		t.Errorf("%d refunds", n)
	}
	m.refund(id).want(409, domain.RefundExists)
	if again := m.pay(`{"amount":3}`, key(2)).want(201, ""); string(again.Body) != string(first.Body) {
		t.Errorf("%s", again.Body)
	}
	if n := len(m.list("/v1/payments").Data); n != 3 {
		t.Errorf("%d payments, want 3", n)
	}
}

// After a fatal commit error it is unknown whether the commit is on disk. The answer
// tells the merchant to repeat with the same key; after the next start that returns
// the one payment.
func TestFatalCommitThenReplay(t *testing.T) {
	t.Parallel()
	for _, persisted := range []bool{true, false} {
		s := start(t)
		m := s.merchant("")
		s.store.FailNext(memory.Fault{Persisted: persisted, Err: errors.New("fsync: input/output error")})
		a := m.pay(`{"amount":1}`, key(1)).want(503, domain.Unavailable)
		if a.Header.Get("Retry-After") == "" || strings.Contains(string(a.Body), "fsync") || !strings.Contains(s.log.String(), "fsync") {
			t.Errorf("%s", a.Body)
		}
		m.pay(`{"amount":1}`).want(503, domain.Unavailable)

		m = m.on(startOn(t, s.store.Reopen()))
		if a = m.pay(`{"amount":1}`, key(1)).want(201, ""); (a.Header.Get("Idempotent-Replayed") == "true") != persisted {
			t.Errorf("persisted %v: %v", persisted, a.Header)
		}
		if l := m.list("/v1/payments"); len(l.Data) != 1 {
			t.Errorf("persisted %v: %d payments", persisted, len(l.Data))
		}
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*answer{m.pay(`{"amount":1}`), m.get("/v1/payments"), m.refund("x")} {
		a.want(503, domain.Unavailable)
	}
	s.send("GET", "/livez", nil).want(200, "")
}

func TestDamagedRecordIs500AndTellsNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	last, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.store.Damage(last)
	for _, a := range []*answer{m.refund(id), m.get("/v1/payments/" + id + "/events")} {
		a.want(500, domain.InternalError)
		if strings.Contains(string(a.Body), "damaged") {
			t.Errorf("%s", a.Body)
		}
	}
	if !strings.Contains(s.log.String(), "damaged") {
		t.Error("the log does not tell why")
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	var reason error
	var waiting []string
	s := start(t, func(c *settings) {
		c.Ready, c.Degraded = func() error { return reason }, func() []string { return waiting }
	})
	if a := s.send("GET", "/readyz", nil).want(200, ""); string(a.Body) != "ok\n" {
		t.Errorf("%s", a.Body)
	}
	waiting = []string{"Webhook notifications wait.", "Providers' outcomes wait."}
	if a := s.send("GET", "/readyz", nil).want(200, ""); string(a.Body) != "degraded\n"+strings.Join(waiting, "\n")+"\n" {
		t.Errorf("%s", a.Body)
	}
	reason = errors.New("draining: 10.0.0.1")
	if a := s.send("GET", "/readyz", nil).want(503, domain.Unavailable); strings.Contains(string(a.Body), "10.0.0.1") {
		t.Errorf("%s", a.Body)
	}
	s.send("GET", "/livez", nil).want(200, "")
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, err := merchant.New(s.cfg.Config.Config)
	if err != nil {
		t.Fatal(err)
	}
	e := edge.New(m.Config().Edge(s.cfg.Log, nil, "test"))
	serve := func(f func(*edge.Exchange)) (w *httptest.ResponseRecorder, panicked any) {
		w = httptest.NewRecorder()
		defer func() { panicked = recover() }()
		e.Wrap(f).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		return w, nil
	}
	w, panicked := serve(func(*edge.Exchange) { panic("secret state") })
	if panicked != nil || w.Code != 500 || strings.Contains(w.Body.String(), "secret state") || w.Header().Get("X-Request-Id") == "" {
		t.Errorf("%v %d %s", panicked, w.Code, w.Body)
	}
	if !strings.Contains(s.log.String(), "secret state") {
		t.Error("the log does not tell of the panic")
	}
	// An answer that has begun can only be cut short.
	if _, panicked = serve(func(x *edge.Exchange) { _, _ = x.Write([]byte("half")); panic("x") }); panicked != any(http.ErrAbortHandler) {
		t.Errorf("%v", panicked)
	}
	if _, panicked = serve(func(*edge.Exchange) { panic(http.ErrAbortHandler) }); panicked != any(http.ErrAbortHandler) {
		t.Errorf("%v", panicked)
	}
}

func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/payments", nil)
	r.Header.Set("Authorization", m.authorization())
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, r)
	if w.Code != 503 {
		t.Errorf("%d", w.Code)
	}
}

func TestMetricsHaveLabelsFromFixedLists(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s := start(t, func(c *settings) { c.Metrics = reg })
	m := s.merchant("")
	m.pay(`{"amount":1}`).want(201, "")
	m.get("/v1/nothing").want(404, domain.PathNotFound)
	s.raw("BREW /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: "+m.authorization()+"\r\nConnection: close\r\n\r\n").want(405, domain.MethodNotAllowed)
	const want = `
# HELP payledger_http_requests_total Requests answered, by operation, method and status.
# TYPE payledger_http_requests_total counter
payledger_http_requests_total{listener="public",method="GET",operation="none",status="404"} 1
payledger_http_requests_total{listener="public",method="POST",operation="createPayment",status="201"} 1
payledger_http_requests_total{listener="public",method="other",operation="none",status="405"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "payledger_http_requests_total"); err != nil {
		t.Error(err)
	}
	if _, err := admin.New(admin.Config{Config: s.cfg.Config.Config, Metrics: reg}); err != nil {
		t.Errorf("both handlers cannot share a registry: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, change := range map[string]func(*settings){
		"no store":      func(c *settings) { c.Ledger = eventstore.Ledger{} },
		"no views":      func(c *settings) { c.Views = nil },
		"no links":      func(c *settings) { c.Links = nil },
		"no ids":        func(c *settings) { c.IDs = nil },
		"no public URL": func(c *settings) { c.PublicURL = "" },
		"relative URL":  func(c *settings) { c.PublicURL = "/pay" },
		"other scheme":  func(c *settings) { c.PublicURL = "ftp://pay.example.com" },
		"query":         func(c *settings) { c.PublicURL = "https://pay.example.com/?x=1" },
		"user":          func(c *settings) { c.PublicURL = "https://u:p@pay.example.com" },
		"negative rate": func(c *settings) { c.Limits.RateWrites = -1 },
		"short session": func(c *settings) { c.Limits.SessionMaxSeconds = 1 },
	} {
		cfg := s.cfg
		change(&cfg)
		if _, err := New(cfg.Config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if a := s.again(func(c *settings) { c.PublicURL = "https://pay.example.com/base/" }).send("GET", "/x", nil); a.problem().Type != "https://pay.example.com/base/problems/path_not_found" {
		t.Errorf("%s", a.Body)
	}
}

// oneParked is a parked signal that is not discarded here.
type oneParked struct{ admin.Parked }

func (oneParked) List(context.Context, uint64, string, int) (domain.ParkedPage, error) {
	return domain.ParkedPage{Data: []domain.ParkedSignal{{ID: 7}}}, nil
}

// TestParkedSignalsWithoutALog: where the log takes nothing, that is what the operator is told, and
// not that JetStream failed.
func TestParkedSignalsWithoutALog(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) {
		c.Parked = oneParked{}
		c.Record = func(context.Context, eventstore.Cause, installation.Command) (bool, error) {
			return false, eventstore.ErrFull
		}
	})
	for _, path := range []string{"/admin/signals/parked/7/retry", "/admin/signals/parked/7/discard", "/admin/signals/parked/discard?through=7"} {
		body := string(s.adminDo("POST", path, "{}").want(503, domain.Unavailable).Body)
		if strings.Contains(body, "JetStream") || !strings.Contains(body, "The parked signals stay as they are.") || !strings.Contains(body, eventstore.ErrFull.Error()) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
