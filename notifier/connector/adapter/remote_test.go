package adapter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
)

// FuzzAnswers: whatever a program answers, a state that is taken from it keeps
// what connector.State promises.
func FuzzAnswers(f *testing.F) {
	id := domain.ID{1}
	for _, body := range []string{
		`{"reference":"ref","phase":"open","hand_off":{"kind":"qr","url":"https://qr.nspk.ru/AS1","expires_at":"2026-11-23T01:00:00Z"}}`,
		`{"reference":"ref","phase":"paid","amount":"15.00","currency":"RUB","refunds":[{"reference":"r","phase":"open","amount":"15.00","currency":"RUB"}]}`,
		`{"reference":"ref","phase":"closed","reason":"Card declined"}`,
		`{"reference":"ref","phase":"paid","amount":"15.00","currency":"RUB","disputes":[{"reference":"d","status":"open","amount":"15.00","currency":"RUB","opened_at":"2026-11-23T01:00:00Z"}]}`,
		`{"id":"` + id.String() + `","reference":"r","phase":"paid","amount":"15.00","currency":"RUB","created_at":"2026-11-23T01:00:00Z"}`,
		`{"id":"` + id.String() + `","phase":"closed","reason":"refunded_at_provider","amount":"15.00","currency":"RUB"}`,
		`{"error":"refused","reason":"no","detail":"d"}`, `{"error":"busy","retry_after":-5}`, `{"error":"not_found"}`, `{"error":"spent_key"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := adapter.Connector{Transport: func(context.Context, adapter.Call, []byte) ([]byte, error) { return body, nil }}
		a := connector.Attempt{Reference: "ref", Amount: 1500, Currency: "RUB"}
		if s, err := c.Begin(t.Context(), connector.Attempt{Amount: 1500, Currency: "RUB"}); err == nil {
			state(t, s)
		} else if busy, ok := errors.AsType[*connector.BusyError](err); ok && busy.After < 0 {
			t.Errorf("busy for %s", busy.After)
		}
		if s, err := c.Read(t.Context(), a); err == nil && s.Reference != "ref" {
			t.Errorf("%+v", s)
		}
		r := connector.Refund{ID: id, Attempt: a, Amount: 1500, Currency: "RUB"}
		if s, err := c.Refund(t.Context(), r); err == nil {
			refund(t, s)
			if s.ID != id {
				t.Errorf("%+v", s)
			}
		}
		all, err := c.Refunds(t.Context(), a)
		for _, s := range all {
			refund(t, s)
		}
		if err != nil && len(all) > 0 {
			t.Errorf("%+v, %v", all, err)
		}
		disputes, err := c.Disputes(t.Context(), a)
		for _, d := range disputes {
			if err != nil || !d.Outcome.AboutDispute() || d.Reference == "" || d.Amount < domain.MinAmount || d.OpenedAt.IsZero() || d.Reason != "" && d.Reason != connector.ReasonCode(d.Reason) {
				t.Errorf("%+v, %v", d, err)
			}
		}
	})
}

func state(t *testing.T, s connector.State) {
	switch {
	case s.Reference == "" || len(s.Reference) > domain.MaxReference || strings.ContainsFunc(s.Reference, unicode.IsControl),
		(s.Phase == connector.Paid) != (s.Amount > 0), (s.Phase == connector.Paid) != (s.Currency != ""),
		s.Phase != connector.Open && s.HandOff != nil, s.HandOff != nil && connector.ValidHandOff(*s.HandOff) != nil:
		t.Errorf("%+v", s)
	}
	reason(t, s.Phase, s.Reason)
}

func refund(t *testing.T, s connector.RefundState) {
	if s.Amount < domain.MinAmount || s.Currency == "" || s.Reference == "" && s.Phase != connector.Closed || len(s.Reference) > domain.MaxReference {
		t.Errorf("%+v", s)
	}
	reason(t, s.Phase, s.Reason)
}

func reason(t *testing.T, phase connector.Phase, code string) {
	switch phase {
	case connector.Open, connector.Paid:
		if code != "" {
			t.Errorf("%s, because of %q", phase, code)
		}
	case connector.Closed:
		if code != connector.ReasonCode(code) {
			t.Errorf("the reason %q", code)
		}
	default:
		t.Errorf("the phase %q", phase)
	}
}

// TestBytesOfCalls: an adapter signs and repeats what it is asked; the bytes stay.
func TestBytesOfCalls(t *testing.T) {
	t.Parallel()
	at := domain.Instant(1795169942400)
	a := connector.Attempt{
		Project: "prj_1", Payment: domain.ID{1}, Number: 2, Key: "K-2", Amount: 150000, Currency: "RUB", BegunAt: at,
		ExpiresAt: at.Add(time.Hour), ReturnURL: "https://pay.example.com/p/A", Language: "ru", Merchant: "Чай <&>",
	}
	full := a
	full.Reference, full.Receipt = "ref", []byte(`{"b":1,"a":[2.50]}`)
	r := connector.Refund{ID: domain.ID{9}, Attempt: full, Amount: 1, Currency: "RUB", AskedAt: at}
	known := r
	known.Reference = "re_1"
	for _, c := range []struct {
		call    adapter.Call
		a       connector.Attempt
		of      *connector.Refund
		outcome adapter.Outcome
		want    string
	}{
		{adapter.Begin, a, nil, "", `{"call":"begin","attempt":{"key":"K-2","project_id":"prj_1","payment_id":"01000000000000000000000000","number":2,"amount":"1500.00","currency":"RUB","begun_at":"2026-11-20T10:19:02.400Z","expires_at":"2026-11-20T11:19:02.400Z","return_url":"https://pay.example.com/p/A","language":"ru","merchant":"Чай <&>"}}`},
		{adapter.Read, full, nil, "", `{"call":"read","attempt":{"key":"K-2","project_id":"prj_1","payment_id":"01000000000000000000000000","number":2,"reference":"ref","amount":"1500.00","currency":"RUB","begun_at":"2026-11-20T10:19:02.400Z","expires_at":"2026-11-20T11:19:02.400Z","return_url":"https://pay.example.com/p/A","language":"ru","merchant":"Чай <&>","receipt":{"b":1,"a":[2.50]}}}`},
		{adapter.Refund, full, &r, "", `{"call":"refund","attempt":{"key":"K-2","project_id":"prj_1","payment_id":"01000000000000000000000000","number":2,"reference":"ref","amount":"1500.00","currency":"RUB","begun_at":"2026-11-20T10:19:02.400Z","expires_at":"2026-11-20T11:19:02.400Z","return_url":"https://pay.example.com/p/A","language":"ru","merchant":"Чай <&>","receipt":{"b":1,"a":[2.50]}},"refund":{"id":"09000000000000000000000000","amount":"0.01","currency":"RUB","asked_at":"2026-11-20T10:19:02.400Z"}}`},
		{adapter.Refund, a, &known, "", `{"call":"refund","attempt":{"key":"K-2","project_id":"prj_1","payment_id":"01000000000000000000000000","number":2,"amount":"1500.00","currency":"RUB","begun_at":"2026-11-20T10:19:02.400Z","expires_at":"2026-11-20T11:19:02.400Z","return_url":"https://pay.example.com/p/A","language":"ru","merchant":"Чай <&>"},"refund":{"id":"09000000000000000000000000","reference":"re_1","amount":"0.01","currency":"RUB","asked_at":"2026-11-20T10:19:02.400Z"}}`},
		{adapter.Test, a, nil, adapter.Paid, `{"call":"test","attempt":{"key":"K-2","project_id":"prj_1","payment_id":"01000000000000000000000000","number":2,"amount":"1500.00","currency":"RUB","begun_at":"2026-11-20T10:19:02.400Z","expires_at":"2026-11-20T11:19:02.400Z","return_url":"https://pay.example.com/p/A","language":"ru","merchant":"Чай <&>"},"outcome":"paid"}`},
	} {
		got, err := adapter.Encode(c.call, c.a, c.of, c.outcome)
		if err != nil || string(got) != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s", c.call, got, err, c.want)
		}
	}
}
