package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
)

func (m shop) erase(payment, body string) *answer {
	m.s.t.Helper()
	return m.post("/v1/payments/"+payment+"/erase", body)
}

// TestEraseDetails: after the erasure no answer has the description or payload, and no search finds
// the payment by them; all other payments are as before.
func TestEraseDetails(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	body := `{"amount":"10.00","description":"Ivan Petrov, Tverskaya 1","payload":{"mail":"ivan@example.com"}}`
	first := m.pay(body, key(1)).want(201, "")
	id, other := first.object().ID, m.pay(body, key(2)).want(201, "").object().ID
	m.get("/v1/payments/"+id+"/events").want(200, "") // so that it is in memory
	reason := `{"reason":"asked by the customer"}`

	m.erase(id, `{}`).want(422, domain.ValidationFailed)
	m.erase(id, `{"reason":""}`).want(422, domain.ValidationFailed)
	m.erase(id, `{"reason":"`+strings.Repeat("я", 501)+`"}`).want(422, domain.ValidationFailed)
	var unknown, want strings.Builder
	for i := range 17 {
		fmt.Fprintf(&unknown, `,"x%02d":1`, i)
		if i < edge.MaxUnknown {
			fmt.Fprintf(&want, ", #/x%02d unknown_field", i)
		}
	}
	if got := m.erase(id, "{"+unknown.String()[1:]+"}").fields(); got != "#/reason required"+want.String() {
		t.Error(got)
	}
	m.erase("00"+id[2:], reason).want(404, domain.PaymentNotFound)
	s.merchant("").erase(id, reason).want(404, domain.PaymentNotFound)

	for range 2 {
		erased := m.erase(id, reason).want(200, "").object()
		if erased.Description != nil || string(erased.Payload) != "{}" || erased.ID != id || erased.Amount != "10.00" {
			t.Errorf("%+v", erased)
		}
	}
	has := func(what string, a *answer, times int) {
		t.Helper()
		for _, word := range []string{"Petrov", "ivan@example.com"} {
			if n := strings.Count(string(a.want(200, "").Body), word); n != times {
				t.Errorf("%s says %q %d times, want %d: %s", what, word, n, times, a.Body)
			}
		}
	}
	has("the payment", m.get("/v1/payments/"+id), 0)
	has("another payment", m.get("/v1/payments/"+other), 1)
	has("the list", m.get("/v1/payments"), 1)
	has("its events", m.get("/v1/payments/"+id+"/events"), 0)
	has("another's events", m.get("/v1/payments/"+other+"/events"), 1)
	has("the feed", m.get("/v1/events?after=0"), 1)
	has("the file", m.send("GET", "/v1/payments", nil, header{"Accept", "text/csv"}), 1)
	for _, search := range []string{"description=Ivan+Petrov,+Tverskaya+1", "description_prefix=Ivan", "description_words=petrov"} {
		if found := m.get("/v1/payments?"+search).want(200, "").Body; strings.Contains(string(found), id) || !strings.Contains(string(found), other) {
			t.Errorf("%s finds %s", search, found)
		}
	}
	if events := string(m.get("/v1/payments/" + id + "/events").Body); strings.Count(events, `"payment.details_erased"`) != 1 || !strings.Contains(events, "asked by the customer") {
		t.Errorf("events: %s", events)
	}
	for lang, word := range map[string]string{"en": "Description and payload were erased:", "ru": "Описание и данные стёрты:"} {
		if page := s.browser().signIn(m).open("/account/payments/" + id + "?lang=" + lang).Text; !strings.Contains(page, word) || strings.Contains(page, "Petrov") {
			t.Errorf("the account in %s does not say that it is erased: %s", lang, page)
		}
	}
	m.pay(body, key(1)).want(409, domain.DetailsErased)
	m.pay(`{"amount":"11.00"}`, key(1)).want(409, domain.DetailsErased)
	if p := m.refund(other, key(1)).want(422, domain.IdempotencyKeyReused).problem(); !slices.Equal(p.Members, []string{"endpoint"}) {
		t.Errorf("a refund under the key of the erased payment: %+v", p)
	}
	m.pay(body, key(2)).want(201, "")

	// A payment without details has nothing to erase.
	bare := m.pay(`{"amount":1}`, key(3)).want(201, "")
	m.erase(bare.object().ID, reason).want(200, "")
	if again := m.pay(`{"amount":1}`, key(3)).want(201, ""); string(again.Body) != string(bare.Body) {
		t.Errorf("%s", again.Body)
	}
	m.get("/v1/payments/"+bare.object().ID+"/events").want(200, "")
}
