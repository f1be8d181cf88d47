package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// Operations check scopes, budgets, idempotency and fields also when they are called
// as functions, as the account does.
func TestOperationsHoldWithoutHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) {
		c.Limits, c.FailedAuthPerMinute = domain.Limits{RateWrites: 3, RateReads: 1}, 1
	})
	api, err := merchant.New(s.cfg.Config.Config)
	if err != nil {
		t.Fatal(err)
	}
	m := s.merchant("")
	c, err := api.SignIn(t.Context(), "192.0.2.1", m.project, m.secret, nil)
	if err != nil || c.Project.ID != m.project || c.Key.ID != m.keyID {
		t.Fatal(c, err)
	}
	amount, wrong := "10.00", "1.234"
	key, err := merchant.ParseKey(someKey)
	if err != nil {
		t.Fatal(err)
	}
	first, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount}, key)
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	if again, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount}, key); err != nil || !again.Replayed || again.Object.ID != first.Object.ID {
		t.Error(again, err)
	}
	var faults domain.FieldErrors
	if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &wrong}, nil); !errors.As(err, &faults) || faults[0].Code != domain.AmountPrecision {
		t.Error(err)
	}
	if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{}, nil); !errors.As(err, &faults) || faults[0].Code != domain.Required {
		t.Error(err)
	}
	// Each call costs the budget once, although it is checked several times.
	for range 2 {
		if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount}, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount}, nil); codeOf(err) != domain.RateLimited {
		t.Error(err)
	}
	s.clock.advance(time.Hour)
	for range 2 {
		if _, err := api.Payment(t.Context(), c, first.Object.ID.String()); err != nil {
			t.Error(err)
		}
	}
	if _, err := merchant.PageOf(api.Payments)(t.Context(), c, nil); codeOf(err) != domain.RateLimited {
		t.Error(err)
	}
	// Pages have a limit of their own.
	page, err := api.Resume(t.Context(), merchant.Session{Project: m.project, KeyID: m.keyID, Since: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if list, err := merchant.PageOf(api.Payments)(t.Context(), page, nil); err != nil || len(list.Data) != 3 {
			t.Error(list, err)
		}
	}
	if _, err := merchant.PageOf(api.Payments)(t.Context(), page, map[string][]string{"status": {"x"}}); codeOf(err) != domain.InvalidParameter {
		t.Error(err)
	}
	for range 6 { // what they change counts
		if _, err := api.CreatePayment(t.Context(), page, merchant.PaymentRequest{Amount: &amount}, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := api.CreatePayment(t.Context(), page, merchant.PaymentRequest{Amount: &amount}, nil); codeOf(err) != domain.RateLimited {
		t.Error(err)
	}
	other, err := api.Resume(t.Context(), merchant.Session{Project: s.merchant("").project, KeyID: m.keyID, Since: 1})
	if codeOf(err) != domain.Unauthorized {
		t.Error(other, err)
	}
	reader := s.merchant("", "read")
	if c, err = api.Resume(t.Context(), merchant.Session{Project: reader.project, KeyID: reader.keyID, Since: 1}); err != nil {
		t.Fatal(err)
	}
	var missing wire.Problem
	if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount}, nil); !errors.As(err, &missing) || missing.RequiredScope != projects.PaymentsWrite {
		t.Error(err)
	}
	if _, _, _, err := api.EventsBetween(t.Context(), c, 0, 0, 1); codeOf(err) != domain.ScopeMissing {
		t.Error(err)
	}
	if _, err := api.Payment(t.Context(), c, first.Object.ID.String()); !errors.As(err, new(*domain.Refusal)) {
		t.Error("another project's payment: ", err)
	}
	for _, want := range []domain.Code{domain.Unauthorized, domain.RateLimited} {
		if _, err := api.SignIn(t.Context(), "192.0.2.2", m.project, "sk_wrong", nil); codeOf(err) != want {
			t.Error(err)
		}
	}
}

// Every route checks the scope that its operation needs. If the two differed, a
// request would cost twice.
func TestEveryRequestCostsOnce(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) {
		c.Limits = domain.Limits{RateWrites: 500, RateReads: 500}
	})
	a, err := newAPI(s.cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.NewReplacer("{id}", strings.Repeat("0", 26), "{endpoint_id}", "we_x", "{event_id}", strings.Repeat("0", 26), "{tile:.+}", "0/000",
		"inclusion", "inclusion?position=1&size=1", "consistency", "consistency?from=1&to=1")
	bodies := map[string]string{
		"createPayment": `{"amount":1}`, "createRefund": `{"payment_id":"x"}`, "recoverDeliveries": `{"since":"2026-11-20T10:15:30Z"}`,
		"settlePayment": `{"outcome":"paid"}`, "settleRefund": `{"outcome":"failed"}`,
	}
	for _, rt := range a.routes() {
		if rt.Scope == "" {
			continue
		}
		m := s.merchant("") // with a budget of its own
		var r *answer
		if rt.Body {
			r = m.post(paths.Replace(rt.Path), cmp.Or(bodies[rt.Operation], "{}"))
		} else {
			r = m.send(rt.Method, paths.Replace(rt.Path), nil)
		}
		next, want := m.get, `"reads";r=998;t=1`
		if rt.Method != http.MethodGet {
			next, want = func(string) *answer { return m.pay("x") }, `"writes";r=998;t=1`
		}
		if got := next("/v1/payments/x").Header.Get("RateLimit"); got != want || r.Code == 403 {
			t.Errorf("%s: %d, then %s", rt.Operation, r.Code, got)
		}
	}
}
