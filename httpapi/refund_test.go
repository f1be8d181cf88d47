package httpapi

import (
	"strings"
	"testing"

	"payledger/domain"
)

func TestRefund(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	a := m.refund(id).want(201, "")
	refund := a.object().ID
	want := `{"id":"` + refund + `","payment_id":"` + id + `","status":"pending","amount":"1500.00","currency":"RUB","created_at":"2026-11-20T10:15:30.123Z"}`
	if string(a.Body) != want || a.Header.Get("Location") != "/v1/refunds/"+refund {
		t.Errorf("%s\nwant %s\nLocation %s", a.Body, want, a.Header.Get("Location"))
	}
	if got := string(m.get("/v1/refunds/"+refund).want(200, "").Body); got != want {
		t.Errorf("%s", got)
	}
	p := m.refund(id).want(409, domain.RefundExists).problem()
	if p.RefundID != refund || p.RefundStatus != "pending" {
		t.Errorf("%+v", p)
	}
	m.post("/v1/sandbox/refunds/"+refund, `{"outcome":"failed"}`).want(200, "")
	second := m.refund(id).want(201, "").object().ID
	m.post("/v1/sandbox/refunds/"+second, `{"outcome":"succeeded"}`).want(200, "")
	p = m.refund(id).want(409, domain.RefundExists).problem()
	if p.RefundID != second || p.RefundStatus != "succeeded" {
		t.Errorf("%+v", p)
	}
	if got := m.get("/v1/payments/" + id).object().Status; got != "paid" {
		t.Errorf("the refund made the payment %s", got)
	}
}

func TestOnlyPaidPaymentsAreRefunded(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, outcome := range []string{"", "awaiting_payment", "failed", "expired"} {
		id := m.pay(`{"amount":1}`).object().ID
		if outcome != "" {
			m.route(id)
		}
		if outcome == "failed" || outcome == "expired" {
			m.post("/v1/sandbox/payments/"+id, `{"outcome":"`+outcome+`"}`).want(200, "")
		}
		want := m.get("/v1/payments/" + id).object().Status
		p := m.refund(id).want(409, domain.PaymentNotPaid).problem()
		if string(p.PaymentStatus) != want || !strings.Contains(p.Detail, want) {
			t.Errorf("%+v", p)
		}
	}
}

func TestRefundBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	for sent, want := range map[string]string{
		`{}`:                            "#/payment_id required",
		`{"payment_id":null}`:           "#/payment_id required",
		`{"payment_id":1}`:              "#/payment_id wrong_type",
		`{"payment_id":{}}`:             "#/payment_id wrong_type",
		`{"payment_id":["` + id + `"]}`: "#/payment_id wrong_type",
		`{"payment_id":"` + id + `","amount":"1500.00"}`: "#/amount refund_amount_not_accepted",
		`{"payment_id":"` + id + `","amount":null}`:      "#/amount refund_amount_not_accepted",
		`{"payment_id":"` + id + `","amount":{"a":1}}`:   "#/amount refund_amount_not_accepted",
		`{"amount":1}`: "#/amount refund_amount_not_accepted, #/payment_id required",
		`{"payment_id":"` + id + `","currency":"RUB"}`:          "#/currency unknown_field",
		`{"Payment_id":"` + id + `"}`:                           "#/payment_id required, #/Payment_id unknown_field",
		`{"payment_id":"` + id + `","reason":"x","amount":"1"}`: "#/amount refund_amount_not_accepted, #/reason unknown_field",
	} {
		if got := m.post("/v1/refunds", sent).fields(); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
	m.post("/v1/refunds", `{"payment_id":"\u0030`+id[1:]+`"}`).want(201, "")
}
