package check_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/notifier/connector/adapter/adaptertest"
	"payledger/notifier/connector/adapter/adaptertest/reference"
	"payledger/notifier/connector/adapter/check"
	"payledger/notifier/connector/client"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

func keys(t *testing.T) client.Keys {
	t.Helper()
	k, err := client.NewKeys(adaptertest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// judge runs all cases against an adapter.
func judge(t *testing.T, h http.Handler, callTime time.Duration) map[string]check.Result {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	results := make(map[string]check.Result)
	check.Run(t.Context(), check.Config{
		URL: server.URL, Keys: keys(t), HTTP: server.Client(), Now: time.Now, Amount: 15000, Currency: "RUB", CallTime: callTime,
	}, func(r check.Result) {
		if r.Name == "" || r.Rule == "" || results[r.Name].Name != "" {
			t.Errorf("a case without a name of its own, or a rule: %+v", r)
		}
		results[r.Name] = r
	})
	return results
}

const patience = time.Minute

// TestReferenceAdapterPasses: also where a refund takes its time, and without
// the means to play the customer.
func TestReferenceAdapterPasses(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		for _, r := range judge(t, &reference.Adapter{Secret: keys(t)[0], Page: adaptertest.Page, TestMode: true, Slow: slow}, patience) {
			if r.Verdict != check.OK {
				t.Errorf("%+v", r)
			}
		}
	}
	verdicts := make(map[check.Verdict]int)
	for _, r := range judge(t, &reference.Adapter{Secret: keys(t)[0], Page: adaptertest.Page}, patience) {
		verdicts[r.Verdict]++
	}
	if verdicts[check.Failed] != 0 || verdicts[check.Skipped] != 9 {
		t.Errorf("without /test: %v", verdicts)
	}
}

type object = map[string]any

// wrong is what an adapter gets wrong. call and answer may change what comes and
// goes; both are signed again.
type wrong struct {
	call    func(path *string, c object)
	answer  func(c, a object, status *int)
	outside func(http.Handler) http.Handler // nil: nothing
}

func (m wrong) handler(t *testing.T) http.Handler {
	t.Helper()
	k := keys(t)
	right := &reference.Adapter{Secret: k[0], Page: adaptertest.Page, TestMode: true}
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 100<<10))
		if err != nil {
			return
		}
		id := r.Header.Get(client.HeaderID)
		var c object
		if k.Verify(r.Header, body, time.Now()) == nil && json.Unmarshal(body, &c) == nil && c["attempt"] != nil {
			if m.call != nil {
				m.call(&r.URL.Path, c)
			}
			body, r.Header = sign(t, id, c)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		done := httptest.NewRecorder()
		right.ServeHTTP(done, r)
		var a object
		status, out := done.Code, done.Body.Bytes()
		if m.answer != nil && json.Unmarshal(out, &a) == nil {
			m.answer(c, a, &status)
			var header http.Header
			out, header = sign(t, id, a)
			maps.Copy(w.Header(), header)
		} else {
			maps.Copy(w.Header(), done.Header())
		}
		w.WriteHeader(status)
		_, _ = w.Write(out)
	})
	if m.outside != nil {
		return m.outside(inside)
	}
	return inside
}

func sign(t *testing.T, id string, v any) ([]byte, http.Header) {
	body, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	header, err := keys(t).Sign(id, time.Now(), body)
	if err != nil {
		t.Error(err)
	}
	return body, header
}

// resigning signs what comes anew, as if the adapter did not look at signatures,
// or with fresh only where it was signed with the secret.
func resigning(t *testing.T, secret bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			k := keys(t)
			if !secret || k[0].VerifyIgnoringTimestamp(body, r.Header) == nil {
				r.Header, err = k.Sign("any", time.Now(), body)
				if err != nil {
					t.Error(err)
				}
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})
	}
}

// TestWrongAdaptersFail: each case finds an adapter that breaks its rule.
func TestWrongAdaptersFail(t *testing.T) {
	t.Parallel()
	attempt := func(c object) object { return c["attempt"].(object) }
	faults := map[string]struct {
		finds []string // the cases
		wrong
	}{
		"begins anew each time": {
			[]string{"begin-again", "begin-lost", "begin-other-amount"},
			wrong{call: func(_ *string, c object) {
				if c["call"] == "begin" {
					attempt(c)["key"] = rand.Text()
				}
			}},
		},
		"any payment has any reference": {
			[]string{"other-payment"},
			wrong{call: func(_ *string, c object) {
				if r, ok := attempt(c)["reference"].(string); ok { // the reference adapter makes it of the key, and that of the payment
					attempt(c)["payment_id"] = strings.TrimPrefix(r, "ref-")[:len(domain.ID{}.String())]
				}
			}},
		},
		"begins once for all": {
			[]string{"begin-other-key"},
			wrong{call: func(_ *string, c object) {
				if c["call"] == "begin" {
					attempt(c)["key"] = "one"
				}
			}},
		},
		"sums do not matter": {
			[]string{"begin-other-amount", "refund-amount"},
			wrong{call: func(_ *string, c object) {
				attempt(c)["amount"], attempt(c)["currency"] = "150.00", "RUB"
				if r, ok := c["refund"].(object); ok {
					r["amount"] = "150.00"
				}
			}},
		},
		"no signature is looked at": {[]string{"unsigned", "forged", "stale"}, wrong{outside: resigning(t, false)}},
		"no clock":                  {[]string{"stale"}, wrong{outside: resigning(t, true)}},
		"another webhook-id": {
			[]string{"begin", "answers"},
			wrong{outside: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					header, err := keys(t).Sign("mine", time.Now(), body)
					if err != nil {
						t.Error(err)
					}
					r.Header, r.Body = header, io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(w, r)
				})
			}},
		},
		"answers are not signed": {
			[]string{"begin", "answers"},
			wrong{outside: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					done := httptest.NewRecorder()
					next.ServeHTTP(done, r)
					w.WriteHeader(done.Code)
					_, _ = w.Write(done.Body.Bytes())
				})
			}},
		},
		"failures are not signed": {
			[]string{"unknown", "answers"},
			wrong{outside: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					done := httptest.NewRecorder()
					next.ServeHTTP(done, r)
					if done.Code == http.StatusOK {
						maps.Copy(w.Header(), done.Header())
					}
					w.WriteHeader(done.Code)
					_, _ = w.Write(done.Body.Bytes())
				})
			}},
		},
		"the path alone counts": {
			[]string{"other-path"},
			wrong{call: func(path *string, c object) { c["call"] = (*path)[1:] }},
		},
		"what is not known is refused": {
			[]string{"new-members"},
			wrong{call: func(path *string, c object) {
				if _, found := c["new"]; found {
					*path = "/refused"
				}
			}},
		},
		"errors are 500": {
			[]string{"malformed"},
			wrong{outside: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					done := httptest.NewRecorder()
					next.ServeHTTP(done, r)
					maps.Copy(w.Header(), done.Header())
					if done.Code == http.StatusBadRequest {
						done.Code = http.StatusInternalServerError
					}
					w.WriteHeader(done.Code)
					_, _ = w.Write(done.Body.Bytes())
				})
			}},
		},
		"reads any body": {
			[]string{"too-large"},
			wrong{outside: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if trimmed := bytes.TrimSpace(body); len(trimmed) < len(body) {
						id := r.Header.Get(client.HeaderID)
						header, err := keys(t).Sign(id, time.Now(), trimmed)
						if err != nil {
							t.Error(err)
						}
						r.Header, body = header, trimmed
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(w, r)
				})
			}},
		},
		"cancels nothing that was cancelled": {
			[]string{"cancel"},
			wrong{answer: func(c, a object, status *int) {
				if c["call"] == "read" && a["reason"] == "cancelled" {
					clear(a)
					a["error"], *status = "not_found", http.StatusNotFound
				}
			}},
		},
		"cancels what was paid": {
			[]string{"cancel-paid"},
			wrong{answer: func(c, a object, _ *int) {
				if c["call"] == "cancel" && a["phase"] == "paid" {
					a["phase"] = "closed"
				}
			}},
		},
		"collects another amount": {
			[]string{"paid"},
			wrong{answer: func(_, a object, _ *int) {
				if a["phase"] == "paid" && a["id"] == nil {
					a["amount"] = "149.99"
				}
			}},
		},
		"pays what was declined": {
			[]string{"declined"},
			wrong{call: func(_ *string, c object) {
				if c["call"] == "test" {
					c["outcome"] = "paid"
				}
			}},
		},
		"keeps a refund that came back": {
			[]string{"refund-returned"},
			wrong{call: func(_ *string, c object) {
				if c["outcome"] == "returned" {
					c["outcome"] = "paid"
				}
			}},
		},
		"lists no disputes": {
			[]string{"dispute"},
			wrong{answer: func(_, a object, _ *int) { delete(a, "disputes") }},
		},
		"keeps disputes open": {
			[]string{"dispute"},
			wrong{answer: func(_, a object, _ *int) {
				if all, ok := a["disputes"].([]any); ok {
					all[0].(object)["status"] = "open"
				}
			}},
		},
		"closes what is disputed": {
			[]string{"dispute"},
			wrong{answer: func(_, a object, _ *int) {
				if a["disputes"] != nil {
					a["phase"] = "closed"
				}
			}},
		},
		"returns anything": {
			[]string{"refund-unpaid", "refund-other", "refund-amount", "refund", "refund-lost"},
			wrong{answer: func(c, a object, status *int) {
				if r, ok := c["refund"].(object); ok {
					clear(a)
					a["id"], a["reference"], a["phase"], a["amount"], a["currency"] = r["id"], rand.Text(), "paid", r["amount"], r["currency"]
					*status = http.StatusOK
				}
			}},
		},
		"lists no refunds": {
			[]string{"refund", "refund-lost", "refund-other"},
			wrong{answer: func(_, a object, _ *int) { delete(a, "refunds") }},
		},
	}
	found := make(map[string]bool)
	for name, fault := range faults {
		for _, one := range fault.finds {
			found[one] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := judge(t, fault.handler(t), patience)
			for _, one := range fault.finds {
				if d := results[one].Detail; results[one].Verdict != check.Failed || d == "" || strings.Contains(d, "%!") || strings.Contains(d, "0x") {
					t.Errorf("%+v", results[one])
				}
			}
		})
	}
	for name, r := range judge(t, wrong{}.handler(t), patience) {
		if r.Verdict != check.OK {
			t.Errorf("with nothing wrong: %+v", r)
		}
		if !found[name] {
			t.Errorf("no wrong adapter fails %s", name)
		}
	}
}

// TestSlowAdapterFails: an answer that comes late is none.
func TestSlowAdapterFails(t *testing.T) {
	t.Parallel()
	results := judge(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), 20*time.Millisecond)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if results[name].Verdict != check.Failed {
			t.Errorf("%+v", results[name])
		}
	}
}
