package stripe_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/stripe/stripetest"
)

// TestStripeMockTakesEveryRequest has stripe-mock, which knows Stripe's OpenAPI
// document but keeps no state, judge each request that the fake is sent.
func TestStripeMockTakesEveryRequest(t *testing.T) {
	t.Parallel()
	s, judge := stripetest.Start(t), startStripeMock(t)
	var mu sync.Mutex
	judged := make(map[string]bool)
	c := openAt(t, s, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		judged[r.Method+" "+regexp.MustCompile(`/(cs|re)_\w+`).ReplaceAllString(r.URL.Path, "/ID")] = true
		mu.Unlock()
		judge(t, r, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(w, r)
	})

	for _, language := range []string{"ru", "en"} {
		a := attempt(t)
		a.Language = language
		st, err := c.Begin(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		a.Reference = st.Reference
		if _, err := c.Begin(t.Context(), a); err != nil {
			t.Error(err)
		}
		if language == "en" {
			if st, err := c.Cancel(t.Context(), a); err != nil || st.Phase != connector.Closed {
				t.Errorf("%+v, %v", st, err)
			}
			continue
		}
		s.Pay(a.Reference)
		refund := connector.Refund{ID: domain.ID{1}, Attempt: a, Amount: a.Amount, Currency: a.Currency}
		back, err := c.Refund(t.Context(), refund)
		if err != nil {
			t.Fatal(err)
		}
		refund.Reference = back.Reference
		if _, err := c.Refund(t.Context(), refund); err != nil {
			t.Error(err)
		}
		if all, err := c.Refunds(t.Context(), a); err != nil || len(all) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
	}
	for _, want := range []string{
		"POST /v1/checkout/sessions", "GET /v1/checkout/sessions/ID", "POST /v1/checkout/sessions/ID/expire",
		"POST /v1/refunds", "GET /v1/refunds/ID", "GET /v1/refunds",
	} {
		if !judged[want] {
			t.Errorf("%s was not judged", want)
		}
		delete(judged, want)
	}
	if len(judged) > 0 {
		t.Errorf("requests that this test does not know: %v", judged)
	}
}

// startStripeMock builds stripe-mock, which Go keeps in its cache, and runs it on
// loopback. The test is skipped where it cannot be built, and fails where
// PAYLEDGER_REQUIRE_TOOLS says that it must be.
func startStripeMock(t *testing.T) (judge func(*testing.T, *http.Request, []byte)) {
	t.Helper()
	program, err := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../../.ci/tools/go.mod", "-n", "stripe-mock").Output()
	if err != nil {
		if os.Getenv("PAYLEDGER_REQUIRE_TOOLS") != "" {
			t.Fatalf("stripe-mock cannot be built, and PAYLEDGER_REQUIRE_TOOLS is set: %v", err)
		}
		t.Skipf("stripe-mock cannot be built, which takes its module from the Go module proxy: %v", err)
	}
	mock := exec.CommandContext(t.Context(), strings.TrimSpace(string(program)), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = mock.Process.Kill()
		_ = mock.Wait()
	})
	at := ""
	for at == "" && lines.Scan() {
		_, at, _ = strings.Cut(lines.Text(), "Listening for HTTP at address: ")
	}
	if at == "" {
		t.Fatal("stripe-mock does not listen")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(t *testing.T, r *http.Request, body []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+at+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		for _, name := range []string{"Content-Type", "Idempotency-Key", "Stripe-Version"} {
			req.Header[name] = slices.Clone(r.Header[name])
		}
		req.Header.Set("Authorization", "Bearer sk_test_123")
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			t.Errorf("stripe-mock refuses %s %s with %s: %s", r.Method, r.URL.Path, body, answer)
		}
	}
}
