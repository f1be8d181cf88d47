package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// values are the parameters of a query.
func values(query string) url.Values {
	return must(url.ParseQuery(query))
}

func TestOverview(t *testing.T) {
	t.Parallel()
	s := start(t) // it is 2026-11-20
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	in := m.session()
	overview := func(query string) wire.Overview {
		t.Helper()
		return must(in.api.Overview(t.Context(), in.caller(), values(query)))
	}
	empty := overview("")
	if empty.From != "2026-10-22" || empty.To != "2026-11-20" || empty.TimeZone != "UTC" || empty.Payments != 0 ||
		len(empty.Currencies) != 1 || empty.Currencies[0].Currency != "RUB" || len(empty.Currencies[0].Days) != 30 {
		t.Errorf("%+v", empty)
	}
	first := m.paid() // 1500.00
	m.pay(`{"amount":"0.01"}`).want(201, "")
	s.clock.advance(24 * time.Hour)
	m.pay(`{"amount":"7","currency":"USD"}`).want(201, "")
	failed := m.pay(`{"amount":"2"}`).want(201, "").object().ID
	m.route(failed)
	m.post("/v1/sandbox/payments/"+failed, `{"outcome":"failed"}`).want(200, "")
	r := m.refund(first).want(201, "").object().ID
	m.post("/v1/sandbox/refunds/"+r, `{"outcome":"succeeded"}`).want(200, "")

	v := overview("from=2026-11-20&to=2026-11-22")
	if len(v.Currencies) != 2 || v.Payments != 4 {
		t.Fatalf("%+v", v)
	}
	var got []string
	tell := func(t wire.Tally) string { return fmt.Sprint(t.Count, " ", t.Sum) }
	for _, c := range v.Currencies {
		for _, d := range c.Days {
			got = append(got, fmt.Sprintf("%s %s: %s, %s, %s", c.Currency, d.Date, tell(d.Created), tell(d.Paid), tell(d.Refunded)))
		}
		got = append(got, fmt.Sprintf("%s: %s, %s, %s", c.Currency, tell(c.Created), tell(c.Paid), tell(c.Refunded)))
		for _, o := range c.Outcomes {
			got = append(got, fmt.Sprintf("%s %s", o.Status, tell(o.Tally)))
		}
	}
	want := `RUB 2026-11-20: 2 1500.01, 1 1500.00, 0 0.00
RUB 2026-11-21: 1 2.00, 0 0.00, 1 1500.00
RUB 2026-11-22: 0 0.00, 0 0.00, 0 0.00
RUB: 3 1502.01, 1 1500.00, 1 1500.00
created 1 0.01
awaiting_payment 0 0.00
paid 1 1500.00
expired 0 0.00
failed 1 2.00
USD 2026-11-20: 0 0.00, 0 0.00, 0 0.00
USD 2026-11-21: 1 7.00, 0 0.00, 0 0.00
USD 2026-11-22: 0 0.00, 0 0.00, 0 0.00
USD: 1 7.00, 0 0.00, 0 0.00
created 1 7.00
awaiting_payment 0 0.00
paid 0 0.00
expired 0 0.00
failed 0 0.00`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if v := overview("from=2025-11-21&to=2026-11-21"); len(v.Currencies[0].Days) != 366 {
		t.Error(len(v.Currencies[0].Days))
	}
	if v := overview("to=1970-01-03"); v.From != "1970-01-01" {
		t.Error(v.From)
	}
	for _, query := range []string{
		"from=2026-11-22", "from=2025-11-20&to=2026-11-21", "from=2026-11-31", "to=1969-12-31", "from=", "from=2026-1-1", "day=2026-11-20",
	} {
		if _, err := in.api.Overview(t.Context(), in.caller(), values(query)); codeOf(err) != domain.InvalidParameter {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestTotalsOfAFilteredList(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	in := m.session()
	m.paid()
	m.pay(`{"amount":"10","description":"order-1"}`).want(201, "")
	m.pay(`{"amount":"20","description":"order-12"}`).want(201, "")
	m.pay(`{"amount":"30","description":"order-2","currency":"USD"}`).want(201, "")
	for query, want := range map[string]string{
		"":                             "4: RUB created 2 30.00, RUB paid 1 1500.00, USD created 1 30.00",
		"status=created":               "3: RUB created 2 30.00, USD created 1 30.00",
		"currency=USD":                 "1: USD created 1 30.00",
		"amount_min=20&amount_max=100": "2: RUB created 1 20.00, USD created 1 30.00",
		"description_words=1%20order":  "2: RUB created 2 30.00",
		"description_prefix=order-2":   "1: USD created 1 30.00",
		"created_from=2026-11-20T00:00:00Z&created_to=2026-11-21T00:00:00Z&status=paid": "1: RUB paid 1 1500.00",
		"created_from=2026-11-20T10:15:31Z":                                             "0: ",
		"created_to=2026-11-20T00:00:00Z":                                               "0: ",
	} {
		v := must(in.api.Totals(t.Context(), in.caller(), values(query)))
		var got []string
		for _, r := range v.Data {
			got = append(got, fmt.Sprint(r.Currency, " ", r.Status, " ", r.Count, " ", r.Sum))
		}
		if text := fmt.Sprint(v.Count, ": ", strings.Join(got, ", ")); text != want || !v.Complete {
			t.Errorf("%s: %s", query, text)
		}
	}
	for _, query := range []string{"status=x", "limit=10"} {
		if _, err := in.api.Totals(t.Context(), in.caller(), values(query)); codeOf(err) != domain.InvalidParameter {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	in := m.session()
	alerts := func() string {
		t.Helper()
		var all []string
		for _, a := range must(in.api.Alerts(t.Context(), in.caller())) {
			all = append(all, string(a.Kind))
		}
		return strings.Join(all, " ")
	}
	if got := alerts(); got != "" {
		t.Error(got)
	}
	waiting := m.pay(`{"amount":"3"}`).want(201, "").object().ID
	if got := alerts(); got != "" { // the router may still come to it
		t.Error(got)
	}
	s.clock.advance(61 * time.Second)
	failing, off := m.newEndpoint(), m.newEndpoint()
	m.post(endpointsPath+"/"+failing+"/rotate-secret", `{"overlap_seconds":3600}`).want(200, "")
	m.post(endpointsPath+"/"+off+"/disable", "{}").want(200, "")
	s.hooks.mu.Lock()
	s.hooks.failing = map[string]domain.Instant{failing: 1, off: 1}
	s.hooks.mu.Unlock()
	s.hooks.add(domain.DeliveryObject{EndpointID: failing, State: domain.DeliveryGivenUp})
	m.late()
	if got := alerts(); got != "late_funds endpoint_disabled endpoint_failing undelivered payments_not_routed secret_overlap_ends" {
		t.Error(got)
	}
	v := must(in.api.Alerts(t.Context(), in.caller()))
	if a := v[0]; a.Currency != "RUB" || a.Amount.String() != "10.00" {
		t.Errorf("%+v", a)
	}
	if a := v[1]; a.EndpointID != off || a.URL != hookURL || a.Reason != projects.DisabledByRequest || a.Since == nil {
		t.Errorf("%+v", a)
	}
	if a := v[2]; a.EndpointID != failing || *a.Since != 1 {
		t.Errorf("%+v", a)
	}
	if a := v[3]; a.EndpointID != failing || a.Count != 1 {
		t.Errorf("%+v", a)
	}
	if a := v[4]; a.PaymentID.String() != waiting {
		t.Errorf("%+v", a)
	}
	if a := v[5]; a.EndpointID != failing || *a.Until != domain.InstantOf(s.clock.Now().Add(time.Hour)) {
		t.Errorf("%+v", a)
	}
	s.browser().signIn(m).open("/account?lang=en").has("Notifications were not delivered:", "cannot be sent any more, and is counted for 30 days")
	s.clock.advance(2 * time.Hour)
	if got := alerts(); strings.Contains(got, "secret_overlap_ends") {
		t.Error(got)
	}
}
