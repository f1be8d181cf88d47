package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/adaptertest"
	"payledger/notifier/connector/client"
)

const otherSecret = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyISE="

func keys(t testing.TB, secrets ...string) client.Keys {
	t.Helper()
	k, err := client.NewKeys(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func attempt() connector.Attempt {
	now := domain.InstantOf(time.Now())
	return connector.Attempt{
		Project: "prj_test", Payment: domain.ID{1, 2, 3}, Number: 1, Key: domain.ID{1, 2, 3}.String() + "-1", Reference: "ref",
		Amount: 1500, Currency: "RUB", BegunAt: now, ExpiresAt: now.Add(time.Hour), ReturnURL: "https://pay.example.com/p/x",
		Language: "ru", Merchant: "Shop",
	}
}

// answering is the connector of an adapter that answers what it is told.
func answering(t *testing.T, answer http.HandlerFunc) *adapter.Adapter {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return adapter.New(adapter.Config{URL: server.URL + "/", Keys: keys(t, adaptertest.Secret), HTTP: server.Client(), Now: time.Now})
}

// signed answers a body, signed for the call or as alter has it.
func signed(t *testing.T, status int, body string, alter func(id *string, at *time.Time, k *client.Keys)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		id, at, k := r.Header.Get(client.HeaderID), time.Now(), keys(t, adaptertest.Secret)
		if alter != nil {
			alter(&id, &at, &k)
		}
		header, err := k.Sign(id, at, []byte(body))
		if err != nil {
			t.Error(err)
		}
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const open = `{"reference":"ref","phase":"open","hand_off":{"kind":"redirect","url":"https://pay.example.com/a"}}`

// TestAnswersThatDoNotCount: nothing is taken from an answer that is not signed
// by the adapter, for this call, now.
func TestAnswersThatDoNotCount(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"unsigned":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, open) },
		"another secret":  signed(t, 200, open, func(_ *string, _ *time.Time, k *client.Keys) { *k = keys(t, otherSecret) }),
		"an old answer":   signed(t, 200, open, func(_ *string, at *time.Time, _ *client.Keys) { *at = at.Add(-6 * time.Minute) }),
		"from the future": signed(t, 200, open, func(_ *string, at *time.Time, _ *client.Keys) { *at = at.Add(6 * time.Minute) }),
		"to another call": signed(t, 200, open, func(id *string, _ *time.Time, _ *client.Keys) { *id = "call_another" }),
		"unsigned 404": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"not_found"}`, http.StatusNotFound)
		},
		"unsigned 422": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"refused"}`, http.StatusUnprocessableEntity)
		},
		"503 without a pause": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"the call itself": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			for _, name := range []string{client.HeaderID, client.HeaderTimestamp, client.HeaderSignature} {
				w.Header().Set(name, r.Header.Get(name))
			}
			_, _ = w.Write(body)
		},
	} {
		a := answering(t, answer)
		for call, do := range map[string]func(context.Context, connector.Attempt) (connector.State, error){"Begin": a.Begin, "Read": a.Read, "Cancel": a.Cancel} {
			s, err := do(t.Context(), attempt())
			_, refused := errors.AsType[*connector.RefusedError](err)
			_, busy := errors.AsType[*connector.BusyError](err)
			if err == nil || refused || busy || errors.Is(err, connector.ErrNotFound) {
				t.Errorf("%s, %s: %+v, %v", name, call, s, err)
			}
		}
	}
	// The tests themselves are right.
	if s, err := answering(t, signed(t, 200, open, nil)).Begin(t.Context(), attempt()); err != nil || s.HandOff == nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLies: signed answers that no honest adapter gives.
func TestLies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"reference":"ref"}`, `{"phase":"open"}`, `{"reference":"ref","phase":"PAID"}`, `{"reference":"ref","phase":"succeeded"}`,
		`{"reference":"","phase":"open"}`, `{"reference":"a\u0000b","phase":"open"}`, `{"reference":"` + strings.Repeat("r", 129) + `","phase":"open"}`,
		`{"reference":"another","phase":"paid","amount":"15.00","currency":"RUB"}`,
		`{"reference":"ref","phase":"paid"}`, `{"reference":"ref","phase":"paid","amount":"15.00"}`, `{"reference":"ref","phase":"paid","currency":"RUB"}`,
		`{"reference":"ref","phase":"paid","amount":15.00,"currency":"RUB"}`, `{"reference":"ref","phase":"paid","amount":"1e2","currency":"RUB"}`,
		`{"reference":"ref","phase":"paid","amount":"15.001","currency":"RUB"}`, `{"reference":"ref","phase":"paid","amount":"-15.00","currency":"RUB"}`,
		`{"reference":"ref","phase":"paid","amount":"0.00","currency":"RUB"}`, `{"reference":"ref","phase":"paid","amount":"15.00","currency":"rub"}`,
		`{"reference":"ref","phase":"open","phase":"paid","amount":"15.00","currency":"RUB"}`, `{"reference":"ref","phase":"open","Phase":"paid"}`,
		`{"reference":"ref","phase":"open","extra":1}`, `{"reference":"ref","phase":"open"} x`, "{\"reference\":\"ref\xff\",\"phase\":\"open\"}",
		`{"reference":"ref","phase":"open","hand_off":{"kind":"redirect","url":"http://pay.example.com/"}}`,
		`{"reference":"ref","phase":"open","hand_off":{"kind":"redirect","url":"https://127.0.0.1/"}}`,
		`{"reference":"ref","phase":"open","hand_off":{"kind":"redirect","url":"javascript:alert(1)"}}`,
		`{"reference":"ref","phase":"open","hand_off":{"kind":"form","url":"https://pay.example.com/"}}`,
		`{"reference":"ref","phase":"open","hand_off":{}}`,
		`{"id":"01M7W78FJBM8T4R7B5N0C1D2E3","reference":"ref","phase":"paid","amount":"15.00","currency":"RUB"}`,
	} {
		a := answering(t, signed(t, 200, body, nil))
		if s, err := a.Read(t.Context(), attempt()); err == nil {
			t.Errorf("%s: %+v", body, s)
		}
		if s, err := a.Refunds(t.Context(), attempt()); err == nil {
			t.Errorf("refunds of %s: %+v", body, s)
		}
	}
	id := domain.ID{9}.String()
	for _, body := range []string{
		`{"phase":"open","amount":"15.00","currency":"RUB"}`, `{"id":"` + id + `","phase":"paid","amount":"15.00","currency":"RUB"}`,
		`{"id":"` + id + `","reference":"r","phase":"paid","currency":"RUB"}`, `{"id":"` + id + `","reference":"r","phase":"maybe","amount":"15.00","currency":"RUB"}`,
		`{"id":"01M7W78FJBM8T4R7B5N0C1D2E3","reference":"r","phase":"paid","amount":"15.00","currency":"RUB"}`,
		`{"id":"` + strings.ToLower(domain.ID{9, 9, 9, 255}.String()) + `","reference":"r","phase":"paid","amount":"15.00","currency":"RUB"}`,
		`{"reference":"r","phase":"paid","amount":"15.00","currency":"RUB"}`,
		`{"id":"00000000000000000000000000","reference":"zero","phase":"paid","amount":"15.00","currency":"RUB"}`,
		open, `{"error":"not_found"}`, `{"error":"spent_key"}`, `{"error":"other"}`,
	} {
		a := answering(t, signed(t, 200, body, nil))
		r := connector.Refund{ID: domain.ID{9}, Attempt: attempt(), Amount: 1500, Currency: "RUB", AskedAt: domain.InstantOf(time.Now())}
		s, err := a.Refund(t.Context(), r)
		_, spent := errors.AsType[*connector.SpentKeyError](err)
		if err == nil || spent || errors.Is(err, connector.ErrNotFound) {
			t.Errorf("%s: %+v, %v", body, s, err)
		}
		list := `{"reference":"ref","phase":"paid","amount":"15.00","currency":"RUB","refunds":[` + strings.Replace(body, `"id":"`+id+`",`, "", 1) + `]}`
		if strings.Contains(body, `"reference":"r"`) && !strings.Contains(body, "maybe") && strings.Contains(body, "amount") {
			continue // one made by hand, or another of ours
		}
		if s, err := answering(t, signed(t, 200, list, nil)).Refunds(t.Context(), attempt()); err == nil {
			t.Errorf("%s: %+v", list, s)
		}
	}
}

// TestWrongDisputes: nothing is taken from a state with a dispute that cannot be.
func TestWrongDisputes(t *testing.T) {
	t.Parallel()
	list := func(disputes string) (all []connector.DisputeState, err error) {
		body := `{"reference":"ref","phase":"paid","amount":"15.00","currency":"RUB","disputes":[` + disputes + `]}`
		a := attempt()
		a.Reference = "ref"
		return answering(t, signed(t, 200, body, nil)).Disputes(t.Context(), a)
	}
	const rest = `"amount":"15.00","currency":"RUB","opened_at":"2026-11-23T01:00:00Z"}`
	all, err := list(`{"reference":"d1","status":"open","reason":"Fraud!",` + rest + `,{"reference":"d2","status":"lost",` + rest)
	if err != nil || len(all) != 2 || all[0].Outcome != domain.OutcomeDisputed || all[0].Reason != "fraud" || all[1].Outcome != domain.OutcomeDisputeLost || all[1].Reason != "" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, wrong := range []string{
		`{"reference":"d","status":"maybe",` + rest, `{"reference":"d",` + rest, `{"status":"open",` + rest, `{"reference":"` + strings.Repeat("d", 129) + `","status":"open",` + rest,
		`{"reference":"d","status":"open","amount":"0.00","currency":"RUB","opened_at":"2026-11-23T01:00:00Z"}`,
		`{"reference":"d","status":"open","amount":"15.00","currency":"rub","opened_at":"2026-11-23T01:00:00Z"}`,
		`{"reference":"d","status":"open","amount":"15.00","currency":"RUB"}`, `{"reference":"d","status":"open","amount":"15.00","currency":"RUB","opened_at":"monday"}`,
		`{"reference":"d","status":"open","won":true,` + rest, `{"reference":"d","status":"open",` + rest + `,{}`,
	} {
		if all, err := list(wrong); err == nil || len(all) > 0 {
			t.Errorf("%s: %+v, %v", wrong, all, err)
		}
	}
	refund := `{"id":"` + domain.ID{9}.String() + `","reference":"r","phase":"paid","amount":"15.00","currency":"RUB","disputes":[{"reference":"d","status":"open",` + rest + `]}`
	if s, err := answering(t, signed(t, 200, refund, nil)).Refund(t.Context(), connector.Refund{ID: domain.ID{9}, Attempt: attempt(), Amount: 1500, Currency: "RUB"}); err == nil {
		t.Errorf("a refund with disputes: %+v", s)
	}
}

// TestFailures: what an adapter says becomes the error of the connector.
func TestFailures(t *testing.T) {
	t.Parallel()
	refused := answering(t, signed(t, 422, `{"error":"refused","reason":"Too much!","detail":"more than\u0000 the limit"}`, nil))
	_, err := refused.Begin(t.Context(), attempt())
	if e, ok := errors.AsType[*connector.RefusedError](err); !ok || e.Reason != "too_much" || e.Detail != "more than  the limit" {
		t.Errorf("%v", err)
	}
	if _, err := refused.Read(t.Context(), attempt()); err == nil || errors.As(err, new(*connector.RefusedError)) {
		t.Errorf("a refused read: %v", err)
	}
	s, err := refused.Refund(t.Context(), connector.Refund{ID: domain.ID{9}, Attempt: attempt(), Amount: 1500, Currency: "RUB"})
	if err != nil || s.ID != (domain.ID{9}) || s.Phase != connector.Closed || s.Reason != "too_much" {
		t.Errorf("a refused refund: %+v, %v", s, err)
	}
	spent := answering(t, signed(t, 409, `{"error":"spent_key"}`, nil))
	if _, err := spent.Begin(t.Context(), attempt()); !errors.As(err, new(*connector.SpentKeyError)) {
		t.Errorf("%v", err)
	}
	gone := answering(t, signed(t, 404, `{"error":"not_found"}`, nil))
	if _, err := gone.Read(t.Context(), attempt()); !errors.Is(err, connector.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := gone.Begin(t.Context(), attempt()); err == nil || errors.Is(err, connector.ErrNotFound) {
		t.Errorf("begin: %v", err)
	}
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "99999999999": 4095 * time.Second, "Mon, 23 Nov 2026 01:00:00 GMT": 0} {
		for _, status := range []int{429, 503} {
			busy := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(status)
			})
			_, err := busy.Begin(t.Context(), attempt())
			if e, ok := errors.AsType[*connector.BusyError](err); !ok || e.After != want {
				t.Errorf("%d, %s: %v", status, after, err)
			}
		}
	}
	long := answering(t, signed(t, 200, fmt.Sprintf(`{"reference":"ref","phase":"closed","reason":%q}`, strings.Repeat("x", connector.MaxAnswer)), nil))
	if _, err := long.Read(t.Context(), attempt()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long answer: %v", err)
	}
}

// TestRotation: while there are two secrets, calls have both signatures, and
// answers either.
func TestRotation(t *testing.T) {
	t.Parallel()
	for _, known := range []string{adaptertest.Secret, otherSecret} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = http.NoBody
			if keys(t, known)[0].Verify(body, r.Header) != nil {
				t.Error("the call is not signed with the secret that the adapter knows")
			}
			signed(t, 200, open, func(_ *string, _ *time.Time, k *client.Keys) { *k = keys(t, known) })(w, r)
		}))
		t.Cleanup(server.Close)
		a := adapter.New(adapter.Config{URL: server.URL, Keys: keys(t, otherSecret, adaptertest.Secret), HTTP: server.Client(), Now: time.Now})
		if _, err := a.Read(t.Context(), attempt()); err != nil {
			t.Error(err)
		}
		header, err := keys(t, known).Sign("msg_1", time.Now(), []byte(`{"reference":"ref"}`))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.Notices(t.Context(), header, []byte(`{"reference":"ref"}`)); err != nil || len(n) != 1 || n[0].Reference != "ref" {
			t.Errorf("%+v, %v", n, err)
		}
	}
}

// FuzzNotices: a signed notification is refused, or names one attempt.
func FuzzNotices(f *testing.F) {
	f.Add([]byte(`{"reference":"ref","refunds":true}`))
	f.Add([]byte(`{"payment_id":"01M7W78FJBM8T4R7B5N0C1D2E3"}`))
	f.Add([]byte(`{"payment_id":"00000000000000000000000000"}`))
	f.Add([]byte(`{"test":true}`))
	p := adaptertest.New()
	c := p.Connector()
	f.Fuzz(func(t *testing.T, body []byte) {
		n := p.Signed(body)
		notices, err := c.Notices(t.Context(), n.Header, n.Body)
		if err != nil && !errors.As(err, new(*connector.RefusedError)) {
			t.Fatal(err)
		}
		for _, one := range notices {
			if one.Reference == "" && one.Payment.IsZero() || len(one.Reference) > domain.MaxReference {
				t.Fatalf("%+v", one)
			}
		}
	})
}
