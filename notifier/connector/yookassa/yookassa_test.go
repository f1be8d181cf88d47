package yookassa_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/yookassa"
	"payledger/notifier/connector/yookassa/yookassatest"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

func TestConnector(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]yookassatest.Options{
		"held":    {},
		"at_once": {Method: "sbp"},
		"qr":      {Method: "sbp", QR: true, Pages: "https://qr.test.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connectortest.Run(t, func(t *testing.T) connectortest.Provider { return yookassatest.Start(t, o) })
		})
	}
}

const (
	returnURL = "https://pay.example.com/p/AAAAAAAAAAAAAAAAAAAAAA?returned=1"
	paymentID = "01M7W78FJBM8T4R7B5N0C1D2E3"
	refundID  = "01M7W9XM20C2S9D4W6Y8Z1M3P5"
)

func attempt() connector.Attempt {
	id, _ := domain.ParseID(paymentID)
	return connector.Attempt{
		Project: "prj_tea", Payment: id, Number: 1, Key: paymentID + "-1", Amount: 1500_00, Currency: "RUB",
		BegunAt: domain.InstantOf(time.Now()), ExpiresAt: domain.InstantOf(time.Now().Add(time.Hour)), ReturnURL: returnURL, Language: "ru", Merchant: "Чай",
	}
}

func begun(t *testing.T, c connector.Connector) connector.Attempt {
	t.Helper()
	a := attempt()
	st, err := c.Begin(t.Context(), a)
	if err != nil || st.Phase != connector.Open || st.HandOff == nil {
		t.Fatalf("%+v, %v", st, err)
	}
	a.Reference = st.Reference
	return a
}

func paid(t *testing.T, f *yookassatest.Fake, c connector.Connector) connector.Attempt {
	t.Helper()
	a := begun(t, c)
	if st, err := c.Read(t.Context(), a); !f.Pay(a.Reference) || err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	if st, err := c.Read(t.Context(), a); st.Phase != connector.Paid || err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	return a
}

func refundOf(a connector.Attempt) connector.Refund {
	id, _ := domain.ParseID(refundID)
	return connector.Refund{ID: id, Attempt: a, AskedAt: domain.InstantOf(time.Now()), Amount: a.Amount, Currency: a.Currency}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	const shop = `"shop_id":"123456","secret_key_env":"K"`
	for settings, want := range map[string]string{
		`{` + shop + `}`: "",
		`{` + shop + `,"method":"sbp","qr":true}`:            "",
		`{` + shop + `,"method":"bank_card","test":true}`:    "",
		`{` + shop + `,"api_base":"http://127.0.0.1:80/v3"}`: "",
		`{` + shop + `,"api_base":"http://[::1]:80/v3"}`:     "",
		`{}`:                                  "shop_id",
		`{"shop_id":"","secret_key_env":"K"}`: "shop_id",
		`{"shop_id":123456,"secret_key_env":"K"}`:                             "shop_id",
		`{"shop_id":"12:34","secret_key_env":"K"}`:                            "shop_id",
		`{"shop_id":"123456"}`:                                                "secret_key_file",
		`{` + shop + `,"method":"cash"}`:                                      "method",
		`{` + shop + `,"method":true}`:                                        "method",
		`{` + shop + `,"qr":true}`:                                            "qr",
		`{` + shop + `,"qr":true,"method":"tinkoff_bank"}`:                    "qr",
		`{` + shop + `,"secret_key":"live_abc"}`:                              "secret_key",
		`{` + shop + `,"api_base":""}`:                                        "api_base",
		`{` + shop + `,"api_base":"https://api.yookassa.ru.evil.example/v3"}`: "api_base",
		`{` + shop + `,"api_base":"http://localhost:80/v3"}`:                  "api_base",
		`{` + shop + `,"api_base":"http://127.0.0.1.evil.example/v3"}`:        "api_base",
		`{` + shop + `,"api_base":"http://key@127.0.0.1/v3"}`:                 "api_base",
		`[]`: "",
	} {
		err := open(settings, "secret")
		wrong, ok := errors.AsType[*connector.SettingError](err)
		switch {
		case settings == "[]":
			if !ok {
				t.Errorf("%s: %v", settings, err)
			}
		case want == "" && err != nil, want != "" && (!ok || wrong.Field != want):
			t.Errorf("%s: %v, want %q", settings, err, want)
		case err != nil && strings.Contains(err.Error(), "live_abc"):
			t.Errorf("the key is in the error: %v", err)
		}
	}
	if err := open(`{`+shop+`}`, "test_abc"); err == nil || strings.Contains(err.Error(), "test_abc") {
		t.Errorf("a test shop's key in live mode: %v", err)
	}
	if err := open(`{`+shop+`,"test":true}`, "live_abc"); err == nil || strings.Contains(err.Error(), "live_abc") {
		t.Errorf("a live key in test mode: %v", err)
	}
	if err := open(yookassa.Type().Sample, "live_abc"); err != nil {
		t.Error(err)
	}
}

func open(settings, key string) error {
	_, err := yookassa.Type().Open(connector.Env{Secret: func(name, file, env string) (string, error) {
		if name != "secret_key" || file == "" && env == "" {
			return "", &connector.SettingError{Field: name + "_file", Detail: "missing"}
		}
		return key, nil
	}}, "yookassa", []byte(settings))
	return err
}

// TestRequests: what goes to YooKassa, and under which keys.
func TestRequests(t *testing.T) {
	t.Parallel()
	const metadata = `"metadata":{"payledger_attempt":"` + paymentID + `-1","payledger_payment":"` + paymentID + `","payledger_project":"prj_tea"}`
	for name, c := range map[string]struct {
		options yookassatest.Options
		change  func(*connector.Attempt)
		want    string // the body that begins the attempt
		kind    domain.HandOffKind
	}{
		"the customer chooses": {
			want: `{"amount":{"value":"1500.00","currency":"RUB"},"capture":false,` +
				`"confirmation":{"type":"redirect","locale":"ru_RU","return_url":"` + returnURL + `"},"description":"Чай",` + metadata + `}`,
			kind: domain.HandOffRedirect,
		},
		"in English, with a receipt": {
			options: yookassatest.Options{Method: "bank_card"},
			change: func(a *connector.Attempt) {
				a.Language, a.Merchant = "en", strings.Repeat("я", 200)
				a.Receipt = []byte(`{"items":[1],"customer":{"phone":"+79990000000"}}`)
			},
			want: `{"amount":{"value":"1500.00","currency":"RUB"},"capture":false,"payment_method_data":{"type":"bank_card"},` +
				`"confirmation":{"type":"redirect","locale":"en_US","return_url":"` + returnURL + `"},"description":"` + strings.Repeat("я", 128) + `",` +
				metadata + `,"receipt":{"items":[1],"customer":{"phone":"+79990000000"}}}`,
			kind: domain.HandOffRedirect,
		},
		"SBP as a QR code": {
			options: yookassatest.Options{Method: "sbp", QR: true},
			change:  func(a *connector.Attempt) { a.Merchant = "" },
			want: `{"amount":{"value":"1500.00","currency":"RUB"},"capture":true,"payment_method_data":{"type":"sbp"},` +
				`"confirmation":{"type":"qr","locale":"ru_RU","return_url":"` + returnURL + `"},` + metadata + `}`,
			kind: domain.HandOffQR,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := yookassatest.Start(t, c.options)
			shop, a := f.Connector(), attempt()
			if c.change != nil {
				c.change(&a)
			}
			st, err := shop.Begin(t.Context(), a)
			if err != nil || st.HandOff == nil || st.HandOff.Kind != c.kind {
				t.Fatalf("%+v, %v", st, err)
			}
			a.Reference = st.Reference
			f.Pay(a.Reference)
			if st, err := shop.Read(t.Context(), a); err != nil || st.Phase != connector.Paid {
				t.Fatalf("%+v, %v", st, err)
			}
			if st, err := shop.Refund(t.Context(), refundOf(a)); err != nil || st.Phase != connector.Open {
				t.Fatalf("%+v, %v", st, err)
			}
			var posted []string
			for _, r := range f.Requests() {
				if strings.HasPrefix(r, "POST") {
					posted = append(posted, r)
				}
			}
			want := []string{"POST /v3/payments " + paymentID + "-1 " + c.want}
			if c.kind == domain.HandOffRedirect {
				want = append(want, "POST /v3/payments/"+a.Reference+"/capture "+paymentID+"-1-capture {}")
			}
			refund := "POST /v3/refunds " + refundID + ` {"payment_id":"` + a.Reference + `","amount":{"value":"1500.00","currency":"RUB"},` +
				`"description":"payledger ` + refundID + `","metadata":{"payledger_refund":"` + refundID + `"}`
			if a.Receipt != nil {
				refund += `,"receipt":` + string(a.Receipt)
			}
			if diff := cmp.Diff(append(want, refund+"}"), posted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHolds: money that is held is collected by Read and let go by Cancel, also
// when the answer to that is lost.
func TestHolds(t *testing.T) {
	t.Parallel()
	for _, fault := range []connectortest.Fault{0, connectortest.ErrorAfter, connectortest.ErrorBefore, yookassatest.Processing} {
		f := yookassatest.Start(t, yookassatest.Options{})
		shop := f.Connector()
		for _, captured := range []bool{true, false} {
			call, want := shop.Cancel, connector.Closed
			if captured {
				call, want = shop.Read, connector.Paid
			}
			a := begun(t, shop)
			f.ForgetKeys() // the next payment has the same id
			if !f.Pay(a.Reference) || len(f.Collected()) > 0 && captured {
				t.Fatal("the money is not held")
			}
			if fault != 0 {
				f.Fault(fault, 1, 1) // the second request ends the hold
				if st, err := call(t.Context(), a); err == nil {
					t.Fatalf("%+v in spite of fault %d", st, fault)
				}
			}
			st, err := call(t.Context(), a)
			if err != nil || st.Phase != want || !captured && st.Reason != "canceled_by_merchant" {
				t.Errorf("after fault %d: %+v, %v; want %s", fault, st, err, want)
			}
		}
		if got := f.Collected(); len(got) != 1 || got[0].Amount != 1500_00 {
			t.Errorf("collected after fault %d: %+v", fault, got)
		}
	}
}

// TestHoldsEnd: a hold that nobody captures in time is closed.
func TestHoldsEnd(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	shop := f.Connector()
	a := begun(t, shop)
	f.Pay(a.Reference)
	f.Expire(a.Reference)
	if st, err := shop.Read(t.Context(), a); err != nil || st.Phase != connector.Closed || st.Reason != "expired_on_capture" {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestSBPPaysLate: a QR code cannot be taken back, so a payment that was to be
// cancelled can still be paid.
func TestSBPPaysLate(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{Method: "sbp", QR: true})
	shop := f.Connector()
	a := begun(t, shop)
	if st, err := shop.Cancel(t.Context(), a); err != nil || st.Phase != connector.Open {
		t.Fatalf("%+v, %v", st, err)
	}
	f.Pay(a.Reference)
	if st, err := shop.Cancel(t.Context(), a); err != nil || st.Phase != connector.Paid {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestStillProcessing: an answer that says so is asked for again, with the same
// key.
func TestStillProcessing(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	shop, a := f.Connector(), attempt()
	f.Fault(yookassatest.Processing, 0, 1)
	if st, err := shop.Begin(t.Context(), a); err == nil {
		t.Fatalf("%+v", st)
	}
	begun(t, shop)
	if got := f.Attempts(a.Payment); len(got) != 1 {
		t.Errorf("begun: %q", got)
	}
}

// TestModes: a payment of a test shop is none where the settings do not say so,
// and the other way round.
func TestModes(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	live := f.Open(`{"shop_id":"`+yookassatest.ShopID+`","secret_key_env":"K","api_base":"`+f.URL()+`/v3"}`, yookassatest.SecretKey)
	fails := func(c connector.Connector, a connector.Attempt) {
		t.Helper()
		for name, call := range map[string]func() (connector.State, error){
			"Begin":  func() (connector.State, error) { return c.Begin(t.Context(), a) },
			"Read":   func() (connector.State, error) { return c.Read(t.Context(), a) },
			"Cancel": func() (connector.State, error) { return c.Cancel(t.Context(), a) },
		} {
			if st, err := call(); err == nil || !strings.Contains(err.Error(), `"test": true`) {
				t.Errorf("%s: %+v, %v", name, st, err)
			}
		}
	}
	a := begun(t, f.Connector())
	f.Pay(a.Reference)
	fails(live, a)
	if got := f.Collected(); len(got) > 0 {
		t.Errorf("collected in the wrong mode: %+v", got)
	}
	f.Live()
	f.ForgetKeys()
	a = begun(t, live)
	fails(f.Connector(), a)
}

// TestRefusals: what YooKassa says is wrong is a code, and nothing of what was
// sent.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	shop := f.Connector()
	for reason, change := range map[string]func(*connector.Attempt){
		"amount_not_accepted":                     func(a *connector.Attempt) { a.Amount = 99 },
		"currency_not_accepted":                   func(a *connector.Attempt) { a.Currency = "GBP" },
		"receipt_not_accepted":                    func(a *connector.Attempt) { a.Receipt = []byte(`{"customer":{"phone":"+79990000000"}}`) },
		"invalid_request_confirmation_return_url": func(a *connector.Attempt) { a.ReturnURL = "" },
	} {
		a := attempt()
		change(&a)
		_, err := shop.Begin(t.Context(), a)
		refused, ok := errors.AsType[*connector.RefusedError](err)
		if !ok || refused.Reason != reason || strings.Contains(err.Error(), "7999") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if len(f.Attempts(attempt().Payment)) > 0 {
		t.Error("a refused attempt was made")
	}

	// A key that was used with another request, here in another language.
	begun(t, shop)
	a := attempt()
	a.Language = "en"
	_, err := shop.Begin(t.Context(), a)
	if _, spent := errors.AsType[*connector.SpentKeyError](err); !spent {
		t.Errorf("a used key: %v", err)
	}
}

// TestAnswers: what the connector makes of answers that the fake does not give.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const (
		reference = "22e12f66-000f-5000-8000-000000000001"
		ours      = `"metadata":{"payledger_payment":"` + paymentID + `"}`
	)
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		busy   time.Duration // -1: not busy
		want   string        // of the error
	}{
		"wrong key": {401, nil, `{"type":"error","id":"ab-1","code":"invalid_credentials","description":"Login has illegal format"}`, -1, "YooKassa answered 401 invalid_credentials, error id ab-1"},
		"no right":  {403, nil, `{"type":"error","code":"forbidden"}`, -1, "YooKassa answered 403 forbidden"},
		"busy, by the header": {
			429,
			http.Header{"Retry-After": {"7"}},
			`{"code":"too_many_requests"}`, 7 * time.Second,
			"the provider is busy: YooKassa answered 429 too_many_requests",
		},
		"busy, by the body":      {429, nil, `{"code":"too_many_requests","retry_after":1500}`, 1500 * time.Millisecond, "429"},
		"busy, for a century":    {429, http.Header{"Retry-After": {"3153600000"}}, ``, time.Hour, "429"},
		"busy, not saying":       {429, nil, `<html>`, 0, "429"},
		"a pause":                {503, http.Header{"Retry-After": {"2"}}, ``, 2 * time.Second, "503"},
		"away":                   {503, nil, ``, -1, "503"},
		"an error with secrets":  {500, nil, `{"code":"a b\nc` + strings.Repeat("x", 99) + `","parameter":"ключ"}`, -1, "500 abcx"},
		"a redirect":             {302, http.Header{"Location": {"https://evil.example/"}}, ``, -1, "302"},
		"another payment":        {200, nil, `{"id":"22e12f66","status":"succeeded","test":true,"amount":{"value":"1.00","currency":"RUB"}}`, -1, "another payment"},
		"an unknown status":      {200, nil, `{"id":"` + reference + `","status":"waiting","test":true,` + ours + `}`, -1, "unknown status"},
		"no amount":              {200, nil, `{"id":"` + reference + `","status":"succeeded","test":true,` + ours + `,"amount":{"value":"1e3","currency":"RUB"}}`, -1, "amount"},
		"members twice":          {200, nil, `{"id":"` + reference + `","status":"pending","status":"succeeded","test":true}`, -1, "cannot be read"},
		"an answer far too long": {200, nil, `{"id":"` + strings.Repeat("x", connector.MaxAnswer) + `"}`, -1, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := yookassatest.Start(t, yookassatest.Options{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), c.header)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(s.Close)
			shop := f.Open(`{"shop_id":"1","secret_key_env":"K","test":true,"api_base":"`+s.URL+`/v3"}`, "secret")
			a := attempt()
			a.Reference = reference
			st, err := shop.Read(t.Context(), a)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\nк") || len(err.Error()) > 200 {
				t.Fatalf("%+v, %v", st, err)
			}
			busy, isBusy := errors.AsType[*connector.BusyError](err)
			if isBusy != (c.busy >= 0) || isBusy && busy.After != c.busy {
				t.Errorf("%v, for %s", err, c.busy)
			}
			if _, err := shop.Begin(t.Context(), a); c.status != 200 {
				if _, refused := errors.AsType[*connector.RefusedError](err); refused {
					t.Errorf("refused for good: %v", err)
				}
			}
		})
	}
}

// TestReferencesAreNoPaths: a reference of another form is never sent.
func TestReferencesAreNoPaths(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	shop, a := f.Connector(), attempt()
	for _, reference := range []string{"", ".", "..", "../refunds", "a/b", "a?b", "a%2fb", "a b", "й", strings.Repeat("a", 200)} {
		a.Reference = reference
		if _, err := shop.Read(t.Context(), a); !errors.Is(err, connector.ErrNotFound) {
			t.Errorf("%q: %v", reference, err)
		}
		if _, err := shop.Refunds(t.Context(), a); !errors.Is(err, connector.ErrNotFound) {
			t.Errorf("%q: %v", reference, err)
		}
	}
	if got := f.Requests(); len(got) > 0 {
		t.Errorf("sent: %q", got)
	}
}
