package stripe_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/stripe"
	"payledger/notifier/connector/stripe/stripetest"
)

const paid = `{"id":"evt_1","object":"event","api_version":"2019-05-16","type":"checkout.session.completed",` +
	`"data":{"object":{"id":"cs_test_1","object":"checkout.session","metadata":{"payledger_payment":"01M7W78FJBM8T4R7B5N0C1D2E3"}}}}`

func openWith(t testing.TB, secret string) connector.Connector {
	t.Helper()
	settings := `{"api_key_env":"KEY","webhook_secret_env":"SECRET"}`
	if secret == "" {
		settings = `{"api_key_env":"KEY"}`
	}
	c, err := stripe.Type().Open(secrets{"KEY": "sk_live_1", "SECRET": secret}.env(), "visa", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSignatures: by any secret in force, at most five minutes old, over the raw
// body, whatever the version of the API.
func TestSignatures(t *testing.T) {
	t.Parallel()
	both, now := openWith(t, "whsec_new whsec_old"), time.Now()
	good := stripetest.SignedAt([]byte(paid), "whsec_new", now)
	header := func(value string) http.Header { return http.Header{"Stripe-Signature": {value}} }
	signature := good.Header.Get("Stripe-Signature")
	for _, test := range []struct {
		name   string
		c      connector.Connector
		header http.Header
		body   string
		ok     bool
	}{
		{"new secret", both, good.Header, paid, true},
		{"old secret", both, stripetest.SignedAt([]byte(paid), "whsec_old", now).Header, paid, true},
		{"four minutes old", both, stripetest.SignedAt([]byte(paid), "whsec_new", now.Add(-4*time.Minute)).Header, paid, true},
		{"two signatures", both, header(signature + ",v1=00,v0=11"), paid, true},
		{"six minutes old", both, stripetest.SignedAt([]byte(paid), "whsec_new", now.Add(-6*time.Minute)).Header, paid, false},
		{"another secret", both, stripetest.SignedAt([]byte(paid), "whsec_x", now).Header, paid, false},
		{"another body", both, good.Header, strings.Replace(paid, "cs_test_1", "cs_test_2", 1), false},
		{"another time", both, header(strings.Replace(signature, "t=", "t=1", 1)), paid, false},
		{"no signature", both, http.Header{}, paid, false},
		{"not a signature", both, header("t=1"), paid, false},
		{"nonsense", both, header("=,=="), paid, false},
		{"no secret", openWith(t, ""), good.Header, paid, false},
		{"empty secret", openWith(t, ""), stripetest.SignedAt([]byte(paid), "", now).Header, paid, false},
	} {
		notices, err := test.c.Notices(t.Context(), test.header, []byte(test.body))
		payment, _ := domain.ParseID("01M7W78FJBM8T4R7B5N0C1D2E3")
		want := []connector.Notice{{Payment: payment, Reference: "cs_test_1"}}
		if test.ok && (err != nil || !slices.Equal(notices, want)) || !test.ok && (!errors.Is(err, connector.ErrForged) || notices != nil) {
			t.Errorf("%s: %+v, %v", test.name, notices, err)
		}
	}
}

// FuzzNotices reads signed bodies.
func FuzzNotices(f *testing.F) {
	f.Add([]byte(paid))
	f.Add([]byte(`{"object":"event","type":"refund.failed","data":{"object":{"id":"re_1","metadata":{"payledger_payment":"01M7W78FJBM8T4R7B5N0C1D2E3"}}}}`))
	f.Add([]byte(`{"object":"event","type":"charge.refunded","data":{"object":{"metadata":null}}}`))
	f.Add([]byte(`{"object":"event","type":"checkout.session.expired","data":{"object":{"id":"../x","metadata":{"payledger_payment":"01M7W78FJBM8T4R7B5N0C1D2E3"}}}}`))
	f.Add([]byte(`{"object":"event","type":"checkout.session.expired","data":null}`))
	f.Add([]byte(`{"object":"v2.core.event","type":"v1.x"}`))
	c := openWith(f, "whsec_1")
	f.Fuzz(func(t *testing.T, body []byte) {
		notices, err := c.Notices(t.Context(), stripetest.SignedAt(body, "whsec_1", time.Now()).Header, body)
		if _, refused := errors.AsType[*connector.RefusedError](err); err != nil && !refused {
			t.Fatal(err)
		}
		for _, n := range notices {
			if len(notices) > 1 || n.Payment.IsZero() || n.Refunds == (n.Reference != "") || n.Reference != "" && !strings.HasPrefix(n.Reference, "cs_") || len(n.Reference) > domain.MaxReference {
				t.Fatalf("%+v", notices)
			}
		}
	})
}
