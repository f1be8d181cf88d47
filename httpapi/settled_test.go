package httpapi

import (
	"strings"
	"testing"

	"payledger/domain/settlement"
	"payledger/httpapi/wire"
)

// TestPaymentSaysHowItWasSettled: a payment's page and the operator's view of it name the lines that
// have settled it, wherever they were recorded, and the public object does not change.
func TestPaymentSaysHowItWasSettled(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	id, other := m.paid(), m.paid()
	before := string(m.get("/v1/payments/"+id).want(200, "").Body)
	b.open("/account/payments/" + id).want(200).lacks(`data-hook="settled"`)

	fee := strings.NewReplacer(`"fee":"0.00","net":"1500.00"`, `"fee":"45.00","net":"1455.00"`)
	s.adminDo("POST", "/admin/settlements", fee.Replace(opened("r", "01", 1))).want(201, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines", batchOf(fee.Replace(lineOf(1, id)))).want(200, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/close", "").want(200, "")
	path := "/account/payments/" + id
	b.open(path).want(200).has("Settled by the provider", "1,500.00", " on 2026-11-20, fee ", "45.00")
	b.open(path+"?lang=ru").want(200).has("Расчёт провайдера", " от 2026-11-20, комиссия 45,00")
	if got := string(m.get("/v1/payments/"+id).want(200, "").Body); got != before {
		t.Errorf("the public object changed: %s", got)
	}

	// A line that named nothing, in the operator's books, turns out to be for the other payment.
	s.adminDo("POST", "/admin/settlements", opened("s", "02", 1)).want(201, "")
	s.adminDo("POST", "/admin/settlements/sandbox:s/lines", batchOf(lineOf(1, ""))).want(200, "")
	s.adminDo("POST", "/admin/settlements/sandbox:s/lines/1/resolve", `{"to":"payment","payment_id":"`+other+`","reason":"r"}`).want(200, "")
	var page wire.SettlementPage
	m.get("/v1/settlements/sandbox:s").want(200, "").decode(&page)
	if len(page.Data) != 1 || page.Lines != 1 || page.Waiting != 0 || page.Data[0].PaymentID != other || page.Data[0].Result != settlement.UnknownReference || !page.Data[0].Resolved {
		t.Errorf("%+v", page)
	}
	m.get("/v1/settlements/sandbox:s?waiting=true").want(200, "").decode(&page)
	if len(page.Data) != 0 {
		t.Errorf("%+v", page)
	}
	b.open("/account/payments/" + other + "?lang=en").want(200).has(" on 2026-11-20, fee ")
	var v wire.OperatorsPayment
	s.adminDo("GET", "/admin/payments/"+other, "").want(200, "").decode(&v)
	if len(v.SettledBy) != 1 || v.SettledBy[0].Reference != "r1" {
		t.Errorf("%+v", v.SettledBy)
	}
}
