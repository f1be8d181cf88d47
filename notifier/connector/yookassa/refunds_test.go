package yookassa_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/yookassa/yookassatest"
)

// TestRefundsMadeElsewhere: money that went back by another way than a refund of
// YooKassa's, or in parts.
func TestRefundsMadeElsewhere(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]func(*yookassatest.Fake, string){
		"by a bank's order": func(f *yookassatest.Fake, reference string) { f.RefundWithoutTrace(reference) },
		"in part":           func(f *yookassatest.Fake, reference string) { f.RefundPart(reference, 1) },
	} {
		f := yookassatest.Start(t, yookassatest.Options{})
		shop := f.Connector()
		a := paid(t, f, shop)
		elsewhere(f, a.Reference)
		st, err := shop.Refund(t.Context(), refundOf(a))
		if err != nil || st.Phase != connector.Closed || st.Reason != connector.ReasonRefundedAtProvider {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
}

// TestRefundsOnManyPages: all pages of the list are read.
func TestRefundsOnManyPages(t *testing.T) {
	t.Parallel()
	const parts = 23
	f := yookassatest.Start(t, yookassatest.Options{})
	shop := f.Connector()
	a := paid(t, f, shop)
	for range parts {
		f.RefundPart(a.Reference, 1_00)
	}
	all, err := shop.Refunds(t.Context(), a)
	if err != nil || len(all) != parts {
		t.Fatalf("%d refunds, %v", len(all), err)
	}
	seen := make(map[string]bool)
	for _, st := range all {
		seen[st.Reference] = true
		if st.ID != (domain.ID{}) || st.Phase != connector.Paid || st.Amount != 1_00 {
			t.Errorf("%+v", st)
		}
	}
	if len(seen) != parts {
		t.Errorf("%d different refunds", len(seen))
	}
}

// TestRefundsWithoutMetadata: ours are known by their description too.
func TestRefundsWithoutMetadata(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	f.WithoutMetadata()
	shop := f.Connector()
	a := paid(t, f, shop)
	r := refundOf(a)
	if st, err := shop.Refund(t.Context(), r); err != nil || st.ID != r.ID {
		t.Fatalf("%+v, %v", st, err)
	}
	f.ForgetKeys()
	f.SettleRefund(r.ID, false)
	if all, err := shop.Refunds(t.Context(), a); err != nil || len(all) != 1 || all[0].ID != r.ID || all[0].Reason != "insufficient_funds" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestRefundsOfNothing: a payment that YooKassa does not know cannot be refunded.
func TestRefundsOfNothing(t *testing.T) {
	t.Parallel()
	f := yookassatest.Start(t, yookassatest.Options{})
	shop, a := f.Connector(), attempt()
	a.Reference = "22e12f66-000f-5000-8000-18db351245c7"
	if st, err := shop.Refund(t.Context(), refundOf(a)); err != nil || st.Phase != connector.Closed || st.Reason != "not_found_payment_id" {
		t.Errorf("%+v, %v", st, err)
	}
	if all, err := shop.Refunds(t.Context(), a); !errors.Is(err, connector.ErrNotFound) {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestRefundsKeyIsUsed: a refund whose key was used with another request, and
// which is not found, may exist: it is not said to have failed.
func TestRefundsKeyIsUsed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"type":"error","code":"invalid_request","parameter":"Idempotence-Key"}`)
		case r.URL.Path == "/v3/refunds":
			_, _ = io.WriteString(w, `{"type":"list","items":[]}`)
		default:
			_, _ = io.WriteString(w, `{"id":"`+reference+`","status":"succeeded","test":true,"metadata":{"payledger_payment":"`+paymentID+`"},"amount":{"value":"1500.00","currency":"RUB"}}`)
		}
	}))
	t.Cleanup(s.Close)
	f := yookassatest.Start(t, yookassatest.Options{})
	shop := f.Open(`{"shop_id":"1","secret_key_env":"K","test":true,"api_base":"`+s.URL+`/v3"}`, "secret")
	a := attempt()
	a.Reference = reference
	if st, err := shop.Refund(t.Context(), refundOf(a)); err == nil {
		t.Errorf("%+v", st)
	}
}
