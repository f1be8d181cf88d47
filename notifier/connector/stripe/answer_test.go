package stripe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/notifier/connector"
	"payledger/notifier/connector/stripe/stripetest"
)

// kind names what a call answers.
func kind(s connector.State, err error) string {
	if busy, ok := errors.AsType[*connector.BusyError](err); ok {
		return "busy " + busy.After.String()
	}
	if refused, ok := errors.AsType[*connector.RefusedError](err); ok {
		return "refused " + refused.Reason
	}
	if _, ok := errors.AsType[*connector.SpentKeyError](err); ok {
		return "spent"
	}
	switch {
	case errors.Is(err, connector.ErrNotFound):
		return "not found"
	case err != nil:
		return "unknown"
	case s.Phase == connector.Paid:
		return fmt.Sprintf("paid %s %s", s.Amount, s.Currency)
	case s.Phase == connector.Open && s.HandOff == nil:
		return "open, waiting"
	}
	return string(s.Phase) + s.Reason
}

// TestAnswers: what each answer of Stripe's means for Begin and for Read.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const leak = "customer@example.com"
	a := attempt(t)
	a.Reference = "cs_test_1"
	session := func(members string) string {
		return fmt.Sprintf(`{"id":"cs_test_1","object":"checkout.session","metadata":{"payledger_payment":%q},%s}`, a.Payment, members)
	}
	problem := func(kind, more string) string {
		return fmt.Sprintf(`{"error":{"type":%q,"message":"for %s"%s}}`, kind, leak, more)
	}
	for _, test := range []struct {
		name        string
		status      int
		header      string // "Name: value"
		body        string
		begin, read string
	}{
		{"paid", 200, "", session(`"status":"complete","payment_status":"paid","amount_total":12345,"currency":"usd"`), "paid 123.45 USD", ""},
		{"another amount", 200, "", session(`"status":"complete","payment_status":"paid","amount_total":1,"currency":"jpy"`), "paid 0.01 JPY", ""},
		{"paid with nothing", 200, "", session(`"status":"complete","payment_status":"paid","amount_total":0,"currency":"usd"`), "unknown", ""},
		{"complete, but not paid", 200, "", session(`"status":"complete","payment_status":"unpaid","amount_total":1,"currency":"usd"`), "open, waiting", ""},
		{"nothing to pay", 200, "", session(`"status":"complete","payment_status":"no_payment_required","amount_total":0`), "closedno_payment_required", ""},
		{"expired", 200, "", session(`"status":"expired","payment_status":"unpaid"`), "closedexpired", ""},
		{"a new status", 200, "", session(`"status":"paused","payment_status":"unpaid"`), "unknown", ""},
		{"another payment's", 200, "", `{"id":"cs_test_1","metadata":{"payledger_payment":"x"},"status":"open"}`, "unknown", ""},
		{"no session", 200, "", `{}`, "unknown", ""},
		{"no JSON", 200, "", leak, "unknown", ""},
		{"redirect", 302, "Location: https://example.com/" + leak, session(`"status":"open"`), "unknown", ""},
		{"refused", 400, "", problem("invalid_request_error", `,"param":"line_items"`), "refused invalid_request_error", "unknown"},
		{"refused with a code", 400, "", problem("invalid_request_error", `,"code":"amount_too_small"`), "refused amount_too_small", "unknown"},
		{"other parameters", 400, "", problem("idempotency_error", ""), "spent", "unknown"},
		{"ends too soon", 400, "", problem("invalid_request_error", `,"param":"expires_at"`), "spent", "unknown"},
		{"wrong key", 401, "", problem("invalid_request_error", ""), "unknown", ""},
		{"card", 402, "", problem("card_error", `,"code":"card_declined"`), "refused card_declined", "unknown"},
		{"forbidden", 403, "", problem("invalid_request_error", ""), "unknown", ""},
		{"missing", 404, "", problem("invalid_request_error", `,"code":"resource_missing"`), "not found", ""},
		{"another server's 404", 404, "", "<html>", "unknown", ""},
		{"at the same time", 409, "", problem("idempotency_error", `,"code":"idempotency_key_in_use"`), "unknown", ""},
		{"dependency", 424, "", problem("api_error", ""), "unknown", ""},
		{"too many", 429, "", problem("invalid_request_error", `,"code":"rate_limit"`), "busy 0s", ""},
		{"too many, with a time", 429, "Retry-After: 7", "", "busy 7s", ""},
		{"too many, for another reason", 429, "Retry-After: never", problem("invalid_request_error", `,"code":"lock_timeout"`), "busy 0s", ""},
		{"server error", 500, "", problem("api_error", ""), "unknown", ""},
		{"stored server error", 500, "Idempotent-Replayed: true", problem("api_error", ""), "spent", "unknown"},
		{"server error without JSON", 502, "", leak, "unknown", ""},
		{"away", 503, "", problem("api_error", ""), "unknown", ""},
		{"away for a time", 503, "Retry-After: 30", problem("api_error", ""), "busy 30s", ""},
	} {
		s := stripetest.Start(t)
		c := openAt(t, s, func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(test.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		})
		if test.read == "" {
			test.read = test.begin
		}
		begun, beginErr := c.Begin(t.Context(), a)
		read, readErr := c.Read(t.Context(), a)
		if got := kind(begun, beginErr); got != test.begin {
			t.Errorf("%s: Begin answers %s, want %s: %v", test.name, got, test.begin, beginErr)
		}
		if got := kind(read, readErr); got != test.read {
			t.Errorf("%s: Read answers %s, want %s: %v", test.name, got, test.read, readErr)
		}
		for _, err := range []error{beginErr, readErr} {
			if err != nil && strings.Contains(err.Error(), leak) {
				t.Errorf("%s: the error holds the answer: %v", test.name, err)
			}
		}
	}
}

// TestRefundAnswers: what each refund of Stripe's means.
func TestRefundAnswers(t *testing.T) {
	t.Parallel()
	a := attempt(t)
	a.Reference = "cs_test_1"
	for members, want := range map[string]connector.RefundState{
		`"status":"pending"`:         {Phase: connector.Open},
		`"status":"requires_action"`: {Phase: connector.Open},
		`"status":"succeeded"`:       {Phase: connector.Paid},
		`"status":"canceled"`:        {Phase: connector.Closed, Reason: "canceled"},
		`"status":"failed"`:          {Phase: connector.Closed, Reason: "failed"},
		`"status":"failed","failure_reason":"Lost or stolen card"`: {Phase: connector.Closed, Reason: "lost_or_stolen_card"},
		`"status":"paused"`: {},
	} {
		s := stripetest.Start(t)
		c := openAt(t, s, func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":"re_1","amount":5,"currency":"eur","created":86400,"metadata":{"payledger_refund":%q,"payledger_payment":%q},%s}`, a.Payment, a.Payment, members)
		})
		got, err := c.Refund(t.Context(), connector.Refund{ID: a.Payment, Attempt: a, Reference: "re_1", Amount: 5, Currency: "EUR"})
		if want.Phase == "" {
			if err == nil {
				t.Errorf("%s: %+v", members, got)
			}
			continue
		}
		want.ID, want.Reference, want.Amount, want.Currency = a.Payment, "re_1", 5, "EUR"
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", members, got, err, want)
		}
		// A refund whose metadata was copied to another payment's is not ours.
		other := a
		other.Payment[0]++
		if got, err := c.Refund(t.Context(), connector.Refund{ID: a.Payment, Attempt: other, Reference: "re_1"}); err == nil {
			t.Errorf("%s: another payment's refund is ours: %+v", members, got)
		}
	}
}

// TestBodiesThatDoNotEnd: the error says that time ran out, or that there was too
// much.
func TestBodiesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	s := stripetest.Start(t)
	a := attempt(t)
	a.Reference = "cs_test_1"
	slow := openAt(t, s, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"id":`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := slow.Read(ctx, a); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
	long := openAt(t, s, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte(" "), connector.MaxAnswer+1))
	})
	if _, err := long.Read(t.Context(), a); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v; want that the answer is too long", err)
	}
}
