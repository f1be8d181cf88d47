package stripe_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/client"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/stripe"
	"payledger/notifier/connector/stripe/stripetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConnector: what every connector promises.
func TestConnector(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(t *testing.T) connectortest.Provider { return stripetest.Start(t) })
}

// secrets answer the settings' secrets by their environment variables.
type secrets map[string]string

func (s secrets) env() connector.Env {
	return connector.Env{
		Now: time.Now, HTTP: client.New(client.Config{AllowPrivate: true}),
		Secret: func(name, file, env string) (string, error) {
			if secret := s[file+env]; secret != "" {
				return secret, nil
			}
			return "", &connector.SettingError{Field: name + "_env", Detail: "there is no such variable"}
		},
	}
}

// openAt opens a connector whose requests go to a handler.
func openAt(t *testing.T, s *stripetest.Stripe, h http.HandlerFunc) connector.Connector {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := stripe.Type().Open(secrets{"KEY": s.Key, "SECRET": s.Secret}.env(), "visa",
		fmt.Appendf(nil, `{"api_key_env":"KEY","webhook_secret_env":"SECRET","test":true,"api_base":%q}`, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recorder keeps the forms of all requests that go to Stripe.
type recorder struct {
	*stripetest.Stripe
	mu    sync.Mutex
	forms []url.Values
	keys  []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	r.mu.Lock()
	r.forms, r.keys = append(r.forms, form), append(r.keys, req.Header.Get("Idempotency-Key"))
	r.mu.Unlock()
	r.Stripe.ServeHTTP(w, req)
}

func (r *recorder) last() url.Values {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forms[len(r.forms)-1]
}

func attempt(t *testing.T) connector.Attempt {
	t.Helper()
	payment := domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next()
	return connector.Attempt{
		Project: "prj_tea", Payment: payment, Number: 1, Key: payment.String() + "-1", Amount: 150_000, Currency: "EUR",
		BegunAt: domain.InstantOf(time.Now()), ExpiresAt: domain.InstantOf(time.Now().Add(time.Hour)), ReturnURL: "https://pay.example.com/p/A?returned=1",
		Language: "ru", Merchant: "Чай & Co", Receipt: []byte(`{"customer":{"email":"customer@example.com"}}`),
	}
}

// TestSession: what Stripe hears of an attempt.
func TestSession(t *testing.T) {
	t.Parallel()
	r := &recorder{Stripe: stripetest.Start(t)}
	c := openAt(t, r.Stripe, r.ServeHTTP)
	a := attempt(t)
	s, err := c.Begin(t.Context(), a)
	if err != nil || s.HandOff == nil || s.HandOff.Kind != domain.HandOffRedirect || !s.HandOff.ExpiresAt.Equal(time.Unix(a.ExpiresAt.Time().Unix(), 0)) {
		t.Fatalf("%+v, %v", s, err)
	}
	form := r.last()
	for name, want := range map[string]string{
		"mode": "payment", "payment_method_types[0]": "card", "adaptive_pricing[enabled]": "false", "locale": "ru",
		"client_reference_id": a.Key, "success_url": a.ReturnURL, "cancel_url": a.ReturnURL,
		"line_items[0][price_data][product_data][name]": a.Merchant,
		"line_items[0][price_data][unit_amount]":        "150000",
		"line_items[0][price_data][currency]":           "eur",
		"metadata[payledger_payment]":                   a.Payment.String(),
		// Of which the column payment_metadata[payledger_payment] of Stripe's reports is made.
		"payment_intent_data[metadata][payledger_payment]": a.Payment.String(),
	} {
		if got := form.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.keys[0] != a.Key {
		t.Errorf("the idempotency key is %q, want %q", r.keys[0], a.Key)
	}
	if strings.Contains(form.Encode(), "customer") {
		t.Errorf("Stripe hears of the receipt: %v", form)
	}
}

// TestSessionLife: Stripe takes 30 minutes to 24 hours.
func TestSessionLife(t *testing.T) {
	t.Parallel()
	r := &recorder{Stripe: stripetest.Start(t)}
	c := openAt(t, r.Stripe, r.ServeHTTP)
	for left, want := range map[time.Duration]time.Duration{
		time.Minute: 45 * time.Minute, 50 * time.Minute: 50 * time.Minute, 23 * time.Hour: 23 * time.Hour, 90 * 24 * time.Hour: 23 * time.Hour,
	} {
		a := attempt(t)
		a.ExpiresAt = a.BegunAt.Add(left)
		if _, err := c.Begin(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if got := r.last().Get("expires_at"); got != fmt.Sprint(a.BegunAt.Add(want).Time().Unix()) {
			t.Errorf("%s before the deadline the session ends at %s, want %s after its begin", left, got, want)
		}
	}
}

// TestSpentKeys: keys of which nothing can come any more.
func TestSpentKeys(t *testing.T) {
	t.Parallel()
	s := stripetest.Start(t)
	c := s.Connector()
	spent := func(a connector.Attempt) {
		t.Helper()
		_, err := c.Begin(t.Context(), a)
		if _, ok := errors.AsType[*connector.SpentKeyError](err); !ok {
			t.Errorf("%v; want a SpentKeyError", err)
		}
	}

	// The answer was lost, and the merchant has another name since.
	a := attempt(t)
	s.Fault(connectortest.ErrorAfter, 0, 1)
	if _, err := c.Begin(t.Context(), a); err == nil {
		t.Fatal("no error")
	}
	a.Merchant = "Coffee"
	spent(a)

	// Stripe was away for so long that the session would end too soon.
	late := attempt(t)
	late.BegunAt = late.BegunAt.Add(-20 * time.Minute)
	late.ExpiresAt = late.BegunAt.Add(30 * time.Minute)
	spent(late)
	if got := s.Attempts(late.Payment); len(got) != 0 {
		t.Errorf("made %q", got)
	}
}

// TestAmountLimits: Stripe knows its limits, but for a currency that it counts in
// other units.
func TestAmountLimits(t *testing.T) {
	t.Parallel()
	s := stripetest.Start(t)
	c := s.Connector()
	for _, test := range []struct {
		amount   domain.Amount
		currency domain.Currency
		reason   string
	}{
		{49, "EUR", "amount_too_small"}, {100_000_000, "EUR", "amount_too_large"}, {150_000, "MGA", "currency_not_supported"},
	} {
		a := attempt(t)
		a.Amount, a.Currency = test.amount, test.currency
		_, err := c.Begin(t.Context(), a)
		if refused, ok := errors.AsType[*connector.RefusedError](err); !ok || refused.Reason != test.reason {
			t.Errorf("%s %s: %v; want %s", test.amount, test.currency, err, test.reason)
		}
	}
}

// TestRefundMovesOnFromStoredErrors: the keys of refunds that answer an old error
// are passed over, and the money is returned once.
func TestRefundMovesOnFromStoredErrors(t *testing.T) {
	t.Parallel()
	r := &recorder{Stripe: stripetest.Start(t)}
	c := openAt(t, r.Stripe, r.ServeHTTP)
	a := attempt(t)
	s, err := c.Begin(t.Context(), a)
	if err != nil || !r.Pay(s.Reference) {
		t.Fatal(err)
	}
	a.Reference = s.Reference
	refund := connector.Refund{ID: a.Payment, Attempt: a, Amount: a.Amount, Currency: a.Currency}
	for known := range 2 {
		r.Fault(connectortest.StoredError, known, 1)
		if st, err := c.Refund(t.Context(), refund); err == nil {
			t.Fatalf("%+v after a server error", st)
		}
		r.Fault(0, 0, 0)
	}
	st, err := c.Refund(t.Context(), refund)
	if err != nil || st.Phase != connector.Open || st.ID != refund.ID {
		t.Fatalf("%+v, %v", st, err)
	}
	if key := r.keys[len(r.keys)-1]; key != refund.ID.String()+"-3" {
		t.Errorf("the refund's last key is %q", key)
	}
	all, err := c.Refunds(t.Context(), a)
	if err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}

	// Every key answers an error: then nothing is known.
	r.ForgetKeys()
	r.SettleRefund(refund.ID, false)
	refund.ID = domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next()
	r.Fault(connectortest.StoredError, 0, 100)
	for range 4 {
		if st, err := c.Refund(t.Context(), refund); err == nil {
			t.Fatalf("%+v after server errors", st)
		}
	}
}

// TestRefundsHasManyPages: refunds in crumbs, made by hand.
func TestRefundsHasManyPages(t *testing.T) {
	t.Parallel()
	s := stripetest.Start(t)
	c := s.Connector()
	a := attempt(t)
	st, err := c.Begin(t.Context(), a)
	if err != nil || !s.Pay(st.Reference) {
		t.Fatal(err)
	}
	a.Reference = st.Reference
	for range 120 {
		if !s.RefundPart(a.Reference, 100) {
			t.Fatal("no refund")
		}
	}
	all, err := c.Refunds(t.Context(), a)
	if err != nil || len(all) != 120 || all[0].ID != (domain.ID{}) || all[119].Amount != 100 {
		t.Fatalf("%d refunds, %v", len(all), err)
	}
	// Less is left than the whole: neither ours, nor wholly another's.
	r := connector.Refund{ID: a.Payment, Attempt: a, Amount: a.Amount, Currency: a.Currency}
	if got, err := c.Refund(t.Context(), r); err != nil || got.Phase != connector.Closed || got.Reason != "invalid_request_error" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCustomersPage: what a browser does on the page of the fake.
func TestCustomersPage(t *testing.T) {
	t.Parallel()
	s := stripetest.Start(t)
	c := s.Connector()
	a := attempt(t)
	st, err := c.Begin(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	a.Reference = st.Reference
	browser := s.Customer()
	visit := func(method, path string) (int, string, string) {
		t.Helper()
		u, _ := url.Parse(st.HandOff.URL)
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+u.Host+u.Path+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("Location"), string(body)
	}
	if status, _, page := visit(http.MethodGet, ""); status != http.StatusOK || !strings.Contains(page, "Чай &amp; Co") || !strings.Contains(page, "1500.00 EUR") {
		t.Errorf("%d: %s", status, page)
	}
	if status, _, page := visit(http.MethodPost, "/decline"); status != http.StatusOK || !strings.Contains(page, "declined") {
		t.Errorf("%d: %s", status, page)
	}
	for _, button := range []string{"/cancel", "/pay"} {
		if status, to, _ := visit(http.MethodPost, button); status != http.StatusSeeOther || to != a.ReturnURL {
			t.Errorf("%s: %d to %q", button, status, to)
		}
	}
	if got, err := c.Read(context.WithoutCancel(t.Context()), a); err != nil || got.Phase != connector.Paid {
		t.Errorf("%+v, %v", got, err)
	}
	if status, _, page := visit(http.MethodPost, "/pay"); status != http.StatusOK || !strings.Contains(page, "You have completed") {
		t.Errorf("paid twice: %d: %s", status, page)
	}
}
