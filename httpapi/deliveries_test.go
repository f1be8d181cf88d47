package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

type deliveryPage struct {
	Data       []domain.DeliveryObject
	NextCursor *string `json:"next_cursor"`
}

func (m shop) deliveries(target string) (p deliveryPage) {
	m.s.t.Helper()
	m.get(target).want(200, "").decode(&p)
	return p
}

func eventIDs(p deliveryPage) (all []string) {
	for _, d := range p.Data {
		all = append(all, d.EventID.String())
	}
	return all
}

func TestADeliveryIsShownWithItsAttempts(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	hook := m.hook(`{"url":"` + hookURL + `"}`).ID
	payment, _ := domain.ParseID(m.paid())
	now := domain.InstantOf(s.clock.Now())
	next := now.Add(5 * time.Second)
	d := s.hooks.add(domain.DeliveryObject{
		EndpointID: hook, Type: domain.KindPaymentPaid, PaymentID: &payment, Sequence: 3, Position: 5, State: domain.DeliveryPending, NextAttemptAt: &next,
		Attempts: []domain.AttemptObject{
			{At: now, Status: 503, Error: "status", DurationMS: 84, Answer: "</script>\n" + `"é"`},
			{At: now, Error: "timeout", DurationMS: 15000},
		},
	})
	want := `{"event_id":"` + d.EventID.String() + `","endpoint_id":"` + hook + `","type":"payment.paid","payment_id":"` + payment.String() +
		`","sequence":3,"position":5,"state":"pending","created_at":"2026-11-20T10:15:30.123Z","next_attempt_at":"2026-11-20T10:15:35.123Z","attempts":[` +
		`{"at":"2026-11-20T10:15:30.123Z","status":503,"error":"status","duration_ms":84,"answer":"</script>\n\"é\""},` +
		`{"at":"2026-11-20T10:15:30.123Z","error":"timeout","duration_ms":15000}]}`
	list := endpointsPath + "/" + hook + "/deliveries"
	if got := m.get(list+"/"+d.EventID.String()).want(200, ""); string(got.Body) != want {
		t.Errorf("%s\nwant %s", got.Body, want)
	}
	for _, target := range []string{list, merchant.PaymentsPath + "/" + payment.String() + "/deliveries"} {
		if got := m.get(target).want(200, ""); string(got.Body) != `{"data":[`+want+`],"next_cursor":null}` {
			t.Errorf("%s: %s", target, got.Body)
		}
	}
	if v := m.endpoint(hook); v.Health.Pending != 1 {
		t.Errorf("%+v", v.Health)
	}
	test := m.send("POST", endpointsPath+"/"+hook+"/test", nil).want(202, "")
	for _, part := range []string{`"type":"endpoint.test","payment_id":null,"sequence":0,"position":0,"state":"pending"`, `"attempts":[]`} {
		if !strings.Contains(string(test.Body), part) {
			t.Errorf("no %s in %s", part, test.Body)
		}
	}
	if calls := s.hooks.calls(); !slices.Equal(calls, []string{"test " + m.project + " " + hook}) {
		t.Errorf("%v", calls)
	}
}

func TestDeliveryFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	one, two := m.hook(`{"url":"`+hookURL+`"}`).ID, m.hook(`{"url":"`+hookURL+`"}`).ID
	first, _ := domain.ParseID(m.pay(`{"amount":1}`).object().ID)
	second, _ := domain.ParseID(m.pay(`{"amount":1}`).object().ID)
	var all []domain.DeliveryObject // to one
	for i := range 9 {
		d := domain.DeliveryObject{EndpointID: one, Type: domain.KindPaymentPaid, PaymentID: &first, Sequence: 3, Position: 5, State: domain.DeliveryDelivered}
		if i%3 == 0 {
			d.PaymentID, d.State = &second, domain.DeliveryGivenUp
		}
		d = s.hooks.add(d)
		all = append([]domain.DeliveryObject{d}, all...)
		d.EndpointID = two
		s.hooks.add(d)
	}
	ids := func(keep func(domain.DeliveryObject) bool) (got []string) {
		for _, d := range all {
			if keep(d) {
				got = append(got, d.EventID.String())
			}
		}
		return got
	}
	list := endpointsPath + "/" + one + "/deliveries"
	for query, keep := range map[string]func(domain.DeliveryObject) bool{
		"":                                     func(domain.DeliveryObject) bool { return true },
		"?state=given_up":                      func(d domain.DeliveryObject) bool { return d.State == domain.DeliveryGivenUp },
		"?state=held":                          func(domain.DeliveryObject) bool { return false },
		"?payment_id=" + second.String():       func(d domain.DeliveryObject) bool { return *d.PaymentID == second },
		"?event_id=" + all[4].EventID.String(): func(d domain.DeliveryObject) bool { return d.EventID == all[4].EventID },
		"?event_id=" + all[4].EventID.String() + "&payment_id=" + second.String(): func(domain.DeliveryObject) bool { return false },
		"?payment_id=x":                                   func(domain.DeliveryObject) bool { return false },
		"?event_id=":                                      func(domain.DeliveryObject) bool { return false },
		"?event_id=" + domain.ID{}.String():               func(domain.DeliveryObject) bool { return false },
		"?payment_id=" + domain.ID{}.String():             func(domain.DeliveryObject) bool { return false },
		"?payment_id=" + strings.ToLower(second.String()): func(domain.DeliveryObject) bool { return false },
		"?state=given_up&payment_id=" + first.String():    func(domain.DeliveryObject) bool { return false },
		"?event_id=" + all[4].EventID.String() + "&state=" + string(all[4].State): func(d domain.DeliveryObject) bool { return d.EventID == all[4].EventID },
	} {
		if got, want := eventIDs(m.deliveries(list+query)), ids(keep); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	ofPayment := merchant.PaymentsPath + "/" + second.String() + "/deliveries"
	if got := m.deliveries(ofPayment); len(got.Data) != 6 || got.Data[0].EndpointID != two || got.Data[1].EndpointID != one {
		t.Errorf("%+v", got)
	}
	if got := m.deliveries(ofPayment + "?event_id=" + all[8].EventID.String() + "&state=given_up"); len(got.Data) != 2 {
		t.Errorf("%+v", got)
	}
	if got := m.deliveries(ofPayment + "?event_id=" + domain.ID{}.String()); len(got.Data) != 0 {
		t.Errorf("%+v", got)
	}
	m.send("DELETE", endpointsPath+"/"+two, nil).want(204, "")
	if got := m.deliveries(ofPayment); len(got.Data) != 6 {
		t.Errorf("%d after an endpoint was deleted", len(got.Data))
	}
	for _, query := range []string{
		"?state=", "?state=Pending", "?state=pending&state=held", "?endpoint_id=" + one, "?limit=0", "?limit=101", "?limit=x", "?payment=x",
	} {
		m.get(list+query).want(400, domain.InvalidParameter)
		m.get(ofPayment+query).want(400, domain.InvalidParameter)
	}
	m.get(ofPayment+"?payment_id="+first.String()).want(400, domain.InvalidParameter)
	for _, path := range []string{ofPayment, merchant.PaymentsPath + "/x/deliveries", merchant.PaymentsPath + "/" + all[0].EventID.String() + "/deliveries"} {
		other.get(path).want(404, domain.PaymentNotFound)
	}
}

func TestPagesOfDeliveries(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	one, two := m.hook(`{"url":"`+hookURL+`"}`).ID, m.hook(`{"url":"`+hookURL+`"}`).ID
	payment, _ := domain.ParseID(m.pay(`{"amount":1}`).object().ID)
	var want []string
	for range 7 {
		d := s.hooks.add(domain.DeliveryObject{EndpointID: one, Type: domain.KindPaymentPaid, PaymentID: &payment, State: domain.DeliveryGivenUp})
		want = append(want, d.EventID.String())
		s.hooks.add(domain.DeliveryObject{EndpointID: two, Type: domain.KindPaymentPaid, PaymentID: &payment, State: domain.DeliveryHeld})
	}
	slices.Reverse(want)
	list := endpointsPath + "/" + one + "/deliveries"
	for _, first := range []string{list + "?state=given_up&limit=3", merchant.PaymentsPath + "/" + payment.String() + "/deliveries?state=given_up&limit=2"} {
		var got []string
		for target := first; target != ""; {
			a := m.get(target).want(200, "")
			var p deliveryPage
			a.decode(&p)
			got = append(got, eventIDs(p)...)
			target = strings.TrimSuffix(strings.TrimPrefix(a.Header.Get("Link"), "<"), `>; rel="next"`)
			if (target == "") != (p.NextCursor == nil) {
				t.Errorf("Link %q, next_cursor %v", target, p.NextCursor)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", first, got, want)
		}
	}
	cursor := url.QueryEscape(*m.deliveries(list + "?limit=3").NextCursor)
	m.get(list+"?cursor="+cursor).want(200, "")
	for _, path := range []string{
		endpointsPath + "/" + two + "/deliveries", merchant.PaymentsPath + "/" + payment.String() + "/deliveries", endpointsPath, merchant.PaymentsPath,
	} {
		m.get(path+"?cursor="+cursor).want(400, domain.InvalidCursor)
	}
	m.get(list+"?state=held&cursor="+cursor).want(400, domain.InvalidParameter)
	forged := cursorAfter(m, "listDeliveries", one+" elsewhere")
	m.get(list+"?cursor="+forged).want(400, domain.InvalidCursor)
}

func cursorAfter(m shop, operation, place string) string {
	return edge.Cursor{Operation: operation, After: place, Filters: edge.Query{}}.Encode(m.project)
}

func TestResend(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	hook := m.hook(`{"url":"` + hookURL + `"}`).ID
	payment, _ := domain.ParseID(m.pay(`{"amount":1}`).object().ID)
	path := endpointsPath + "/" + hook
	deliver := func(k domain.Kind) string {
		d := s.hooks.add(domain.DeliveryObject{EndpointID: hook, Type: k, PaymentID: &payment, State: domain.DeliveryDelivered})
		s.hooks.newest[payment] = d.EventID
		return d.EventID.String()
	}
	earlier, newest := deliver(domain.KindPaymentCreated), deliver(domain.KindPaymentPaid)
	if a := m.send("POST", path+"/deliveries/"+newest+"/resend", nil).want(202, ""); !strings.Contains(string(a.Body), `"state":"pending"`) {
		t.Errorf("%s", a.Body)
	}
	if calls := s.hooks.calls(); !slices.Equal(calls, []string{fmt.Sprintf("resend %s %s %s", m.project, hook, newest)}) {
		t.Errorf("%v", calls)
	}
	a := m.send("POST", path+"/deliveries/"+earlier+"/resend", nil).want(409, domain.DeliverySupersededCode)
	if p := a.problem(); p.EventID != newest {
		t.Errorf("%s", a.Body)
	}
	for _, id := range []string{payment.String(), strings.ToLower(newest), newest + "0", "x", "%20" + newest, domain.ID{}.String()} {
		m.send("POST", path+"/deliveries/"+id+"/resend", nil).want(404, domain.DeliveryNotFound)
		m.get(path+"/deliveries/"+id).want(404, domain.DeliveryNotFound)
	}
	m.send("POST", path+"/disable", nil).want(200, "")
	s.hooks.calls()
	m.send("POST", path+"/deliveries/"+newest+"/resend", nil).want(409, domain.WebhookEndpointDisabledCode)
	m.send("POST", path+"/deliveries/"+payment.String()+"/resend", nil).want(404, domain.DeliveryNotFound)
	m.send("POST", path+"/test", nil).want(409, domain.WebhookEndpointDisabledCode)
	m.post(path+"/recover", `{"since":"2026-11-20T10:00:00Z"}`).want(409, domain.WebhookEndpointDisabledCode)
	m.post(path+"/recover", `{"since":1}`).want(422, domain.ValidationFailed)
	if calls := s.hooks.calls(); len(calls) > 0 {
		t.Errorf("a disabled endpoint: %v", calls)
	}
	m.get(path+"/deliveries/"+newest).want(200, "")
}

// The operator's endpoints do the same for any project.
func TestAdminWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	base := "/admin/projects/" + m.project + "/webhook-endpoints"
	a := s.adminDo("POST", base, `{"url":"`+hookURL+`"}`).want(201, "")
	var made wire.Endpoint
	a.decode(&made)
	path := base + "/" + made.ID
	if !strings.HasPrefix(made.Secret, "whsec_") || a.Header.Get("Location") != path {
		t.Errorf("%s %v", a.Body, a.Header)
	}
	if got, want := s.adminDo("GET", path, "").want(200, ""), m.get(endpointsPath+"/"+made.ID); string(got.Body) != string(want.Body) {
		t.Errorf("%s, by the API %s", got.Body, want.Body)
	}
	payment, _ := domain.ParseID(m.pay(`{"amount":1}`).object().ID)
	d := s.hooks.add(domain.DeliveryObject{EndpointID: made.ID, Type: domain.KindPaymentPaid, PaymentID: &payment, State: domain.DeliveryGivenUp})
	s.hooks.newest[payment] = d.EventID
	for _, c := range []struct {
		method, path, body string
		status             int
		part               string
	}{
		{"GET", base, "", 200, `"id":"` + made.ID},
		{"GET", base + "?limit=1", "", 200, `"next_cursor":null`},
		{"POST", path, `{"description":"ERP"}`, 200, `"description":"ERP"`},
		{"POST", path + "/rotate-secret", "", 200, `"secret":"whsec_`},
		{"POST", path + "/disable", "", 200, `"disabled_reason":"requested"`},
		{"POST", path + "/enable", "{}", 200, `"status":"enabled"`},
		{"POST", path + "/test", "", 202, `"endpoint.test"`},
		{"POST", path + "/recover", `{"since":"2026-11-20T10:00:00Z"}`, 202, `{"enqueued":7}`},
		{"GET", path + "/deliveries?state=given_up&limit=1", "", 200, d.EventID.String()},
		{"GET", path + "/deliveries/" + d.EventID.String(), "", 200, `"given_up"`},
		{"GET", "/admin/projects/" + m.project + "/payments/" + payment.String() + "/deliveries", "", 200, d.EventID.String()},
		{"POST", path + "/deliveries/" + d.EventID.String() + "/resend", "", 202, `"pending"`},
		{"DELETE", path, "", 204, ""},
	} {
		// Under another project's path it is not found.
		foreign := strings.Replace(c.path, m.project, other.project, 1)
		if got := s.adminDo(c.method, foreign, c.body); c.path != base && c.path != base+"?limit=1" && got.Code != 404 {
			t.Errorf("%s %s: %d %s", c.method, foreign, got.Code, got.Body)
		}
		unknown := strings.Replace(c.path, m.project, "prj_x", 1)
		s.adminDo(c.method, unknown, c.body).want(404, domain.ProjectNotFound)
		if got := s.adminDo(c.method, c.path, c.body); got.Code != c.status || !strings.Contains(string(got.Body), c.part) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Code, got.Body)
		}
	}
	if got := s.adminDo("POST", base, `{"url":"http://x","kinds":1}`).fields(); got != "#/url target_not_allowed, #/kinds wrong_type" {
		t.Error(got)
	}
}
