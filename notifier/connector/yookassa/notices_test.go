package yookassa_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/yookassa"
	"payledger/notifier/connector/yookassa/yookassatest"
)

const (
	reference = "22e12f66-000f-5000-8000-18db351245c7"
	ours      = `"metadata":{"payledger_payment":"` + paymentID + `"}`
)

func TestNotices(t *testing.T) {
	t.Parallel()
	shop := yookassatest.Start(t, yookassatest.Options{}).Connector()
	id, _ := domain.ParseID(paymentID)
	aPayment := []connector.Notice{{Payment: id, Reference: reference}}
	for body, want := range map[string][]connector.Notice{
		about("payment.waiting_for_capture", `"id":"`+reference+`",`+ours):                      aPayment,
		about("payment.succeeded", `"id":"`+reference+`","status":"canceled",`+ours):            aPayment,
		about("payment.canceled", `"id":"`+reference+`","amount":{"value":12},`+ours):           aPayment,
		about("payment.succeeded", `"id":"`+reference+`"`):                                      nil,
		about("payment.succeeded", `"id":"`+reference+`","metadata":{"payledger_payment":7}`):   nil,
		about("refund.succeeded", `"id":"216749f7","payment_id":"`+reference+`"`):               {{Reference: reference, Refunds: true}},
		about("refund.succeeded", `"id":"216749f7","payment_id":"`+reference+`","metadata":{}`): {{Reference: reference, Refunds: true}},
		about("payment_method.active", `"id":"`+reference+`",`+ours):                            nil,
		about("payout.succeeded", `"id":"po-285ec15d-0003-5000-a000-08d1bec7dade"`):             nil,
	} {
		got, err := shop.Notices(t.Context(), nil, []byte(body))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", body, err, diff)
		}
	}
	for _, body := range []string{
		about("payment.succeeded", ours), about("payment.succeeded", `"id":"../refunds",`+ours), about("refund.succeeded", `"id":"`+reference+`"`),
		about("", ""), `{"type":"error","event":"payment.succeeded","object":{"id":"` + reference + `",` + ours + `}}`,
		about("payment.succeeded", `"id":7,`+ours), about("payment.succeeded", `"id":"`+reference+`","id":"`+reference+`",`+ours),
	} {
		got, err := shop.Notices(t.Context(), nil, []byte(body))
		if _, refused := errors.AsType[*connector.RefusedError](err); !refused || got != nil {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

func about(event, object string) string {
	return `{"type":"notification","event":"` + event + `","object":{` + object + `}}`
}

func FuzzNotices(f *testing.F) {
	f.Add([]byte(about("payment.succeeded", `"id":"`+reference+`",`+ours)))
	f.Add([]byte(about("refund.succeeded", `"id":"216749f7","payment_id":"`+reference+`"`)))
	f.Add([]byte(about("payment.succeeded", `"id":"..",`+ours)))
	f.Add([]byte(`{"type":"notification"`))
	shop, err := yookassa.Type().Open(connector.Env{
		Secret: func(string, string, string) (string, error) { return "secret", nil },
	}, "yookassa", []byte(yookassa.Type().Sample))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		notices, err := shop.Notices(t.Context(), nil, body)
		if _, refused := errors.AsType[*connector.RefusedError](err); err != nil && (!refused || len(notices) > 0) || len(notices) > 1 {
			t.Fatalf("%+v, %v", notices, err)
		}
		for _, n := range notices {
			if n.Reference == "" || len(n.Reference) > domain.MaxReference || strings.ContainsAny(n.Reference, "/.?#% \n") || n.Payment.IsZero() != n.Refunds {
				t.Fatalf("%+v", n)
			}
		}
	})
}

// TestCustomersPage: the page of the fake takes the customer through a payment
// and back.
func TestCustomersPage(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]connector.Phase{"pay": connector.Paid, "decline": connector.Closed} {
		f := yookassatest.Start(t, yookassatest.Options{Pages: "https://pages.example"})
		shop := f.Connector()
		a := attempt()
		st, err := shop.Begin(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		a.Reference = st.Reference
		page, ok := strings.CutPrefix(st.HandOff.URL, "https://pages.example")
		if !ok {
			t.Fatal(st.HandOff.URL)
		}
		if res := visit(t, http.MethodGet, f.URL()+page, ""); res.StatusCode != http.StatusOK {
			t.Errorf("the page: %s", res.Status)
		}
		if res := visit(t, http.MethodPost, f.URL()+page, "action="+action); res.Header.Get("Location") != returnURL {
			t.Errorf("the way back: %s %q", res.Status, res.Header.Get("Location"))
		}
		if st, err = shop.Read(t.Context(), a); err != nil || st.Phase != want {
			t.Errorf("%s: %+v, %v", action, st, err)
		}
		if res := visit(t, http.MethodGet, f.URL()+page, ""); res.StatusCode != http.StatusOK {
			t.Errorf("the page afterwards: %s", res.Status)
		}
	}
}

func visit(t *testing.T, method, url, form string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}
