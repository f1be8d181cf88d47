package httpapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
)

func TestSandboxDecidesOutcomes(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, outcome := range []string{"paid", "failed", "expired"} {
		id := m.pay(`{"amount":1}`).object().ID
		m.route(id)
		if got := m.post("/v1/sandbox/payments/"+id, `{"outcome":"`+outcome+`"}`).want(200, "").object().Status; got != outcome {
			t.Errorf("%s became %s", outcome, got)
		}
		for _, again := range []string{"paid", "failed", "expired"} {
			before, _ := s.store.Last(t.Context())
			p := m.post("/v1/sandbox/payments/"+id, `{"outcome":"`+again+`"}`).want(409, domain.FinalStatus).problem()
			if string(p.PaymentStatus) != outcome {
				t.Errorf("%+v", p)
			}
			if after, _ := s.store.Last(t.Context()); after != before+1 {
				t.Errorf("%s after %s: %d events, want it recorded", again, outcome, after-before)
			}
		}
	}
	id := m.paid()
	refund := m.refund(id).object().ID
	if got := m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"succeeded"}`).want(200, "").object().Status; got != "succeeded" {
		t.Error(got)
	}
	p := m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"failed"}`).want(409, domain.FinalStatus).problem()
	if p.RefundStatus != "succeeded" {
		t.Errorf("%+v", p)
	}

	// The money comes back, once, and another refund can be made.
	if got := m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"returned"}`).want(200, "").object(); got.Status != "succeeded" {
		t.Errorf("%+v", got)
	}
	m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"returned"}`).want(409, domain.FinalStatus)
	second := m.refund(id).want(201, "").object().ID
	if got := m.post("/v1/sandbox/refunds/"+second, `{"outcome":"returned"}`).want(200, "").object(); got.Status != "failed" {
		t.Errorf("what comes back before it was heard to succeed has failed: %+v", got)
	}
}

func TestSandboxBodies(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	refund := m.refund(id).object().ID
	for sent, want := range map[string]string{
		`{}`:                          "#/outcome required",
		`{"outcome":null}`:            "#/outcome required",
		`{"outcome":1}`:               "#/outcome wrong_type",
		`{"outcome":"Paid"}`:          "#/outcome invalid_value",
		`{"outcome":"created"}`:       "#/outcome invalid_value",
		`{"outcome":"paid","x":1}`:    "#/x unknown_field",
		`[]`:                          "# wrong_type",
		`{"outcome":"?","amount":""}`: "#/outcome invalid_value, #/amount unknown_field",
	} {
		if got := m.post("/v1/sandbox/payments/"+id, sent).fields(); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
	if got := m.post("/v1/sandbox/payments/"+id, `{"outcome":"succeeded"}`).fields(); got != "#/outcome invalid_value" {
		t.Error(got)
	}
	for _, outcome := range []string{"paid", "expired", "pending"} {
		if got := m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"`+outcome+`"}`).fields(); got != "#/outcome invalid_value" {
			t.Error(got)
		}
	}
	m.post("/v1/sandbox/payments/"+refund, `{"outcome":"paid"}`).want(404, domain.PaymentNotFound)
	m.post("/v1/sandbox/refunds/"+id, `{"outcome":"failed"}`).want(404, domain.RefundNotFound)
	m.post("/v1/sandbox/payments/"+id, "").want(400, domain.BodyRequired)
	m.post("/v1/sandbox/payments/"+id, "{").want(400, domain.MalformedJSON)
}

// The request comes before the route is assigned, and waits for it.
func TestSandboxWaitsForARoute(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).object().ID
	var both sync.WaitGroup
	var a *answer
	both.Go(func() { a = m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`) })
	both.Go(func() {
		other := m.pay(`{"amount":1}`).object().ID // an event that is not the one
		m.route(other)
		m.route(id)
	})
	both.Wait()
	if got := a.want(200, "").object().Status; got != "paid" {
		t.Error(got)
	}
}

func TestSandboxOfAPaymentWithoutARoute(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).object().ID
	if _, err := s.decide(t.Context(), m.project, mustID(t, id), domain.AssignRoute{}); err != nil {
		t.Fatal(err)
	}
	if p := m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(409, domain.FinalStatus).problem(); p.PaymentStatus != "failed" {
		t.Errorf("%+v", p)
	}
}

func TestSandboxOffHasNoPaths(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Sandbox = nil })
	m := s.merchant("")
	m.post("/v1/sandbox/payments/x", `{"outcome":"paid"}`).want(404, domain.PathNotFound)
	s.adminDo("POST", "/admin/sandbox/payments/x", `{"outcome":"paid"}`).want(404, domain.PathNotFound)
}

// brokenProvider returns a fixed answer.
type brokenProvider struct {
	reply domain.SignalReply
	err   error
}

func (p brokenProvider) SignalPayment(context.Context, domain.Payment, domain.Outcome, string) (domain.SignalReply, error) {
	return p.reply, p.err
}

func (p brokenProvider) SignalRefund(context.Context, domain.Payment, domain.ID, domain.Outcome, string) (domain.SignalReply, error) {
	return p.reply, p.err
}

// What a signal led to is answered also where it was sent twice.
func TestSandboxSendsAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).object().ID
	m.route(id)
	m = m.on(s.again(func(cfg *settings) { cfg.Sandbox = provider{s: s, twice: true} }))
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	for _, late := range []string{"paid", "failed"} {
		if p := m.post("/v1/sandbox/payments/"+id, `{"outcome":"`+late+`"}`).want(409, domain.FinalStatus).problem(); p.PaymentStatus != "paid" {
			t.Errorf("%+v", p)
		}
	}
	refund := m.refund(id).object().ID
	m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"succeeded"}`).want(200, "")
	m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"failed"}`).want(409, domain.FinalStatus)
}

func TestSandboxThatFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	refund := m.refund(id).object().ID
	for _, c := range []struct {
		p      brokenProvider
		status int
		code   domain.Code
	}{
		{brokenProvider{err: context.DeadlineExceeded}, 503, domain.Unavailable},
		{brokenProvider{err: errors.New("no connection")}, 500, domain.InternalError},
		{brokenProvider{reply: domain.SignalReply{Result: domain.SignalParked, Reason: "?"}}, 500, domain.InternalError},
		{brokenProvider{reply: domain.SignalReply{Result: domain.SignalUnchanged}}, 503, domain.Unconfirmed}, // recorded, and not here yet
	} {
		other := m.on(s.again(func(cfg *settings) { cfg.Sandbox = c.p }))
		a := other.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(c.status, c.code)
		other.post("/v1/sandbox/refunds/"+refund, `{"outcome":"failed"}`).want(c.status, c.code)
		if strings.Contains(string(a.Body), "no connection") {
			t.Errorf("%s", a.Body)
		}
	}
}
