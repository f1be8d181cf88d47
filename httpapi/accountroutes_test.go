package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/account"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// key issues one more key of the merchant and answers a session of it.
func (m shop) key(scopes ...domain.Scope) inside {
	m.s.t.Helper()
	var v wire.Key
	m.s.adminDo("POST", "/admin/projects/"+m.project+"/keys", `{"scopes":["`+strings.Join(edge.Texts(scopes), `","`)+`"]}`).want(201, "").decode(&v)
	in := m.inside()
	in.as = account.Session{Project: m.project, KeyID: v.KeyID}
	return in
}

// TestEveryInnerRouteAsksWhoComes goes through the whole table that sessions
// reach.
func TestEveryInnerRouteAsksWhoComes(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, closed := s.merchant(""), s.merchant("")
	full, revoked := m.inside(), m.key(domain.AllScopes()...)
	s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+revoked.as.KeyID, "").want(204, "")
	s.adminDo("POST", "/admin/projects/"+closed.project+"/disable", "{}").want(200, "")
	disabled, stranger := closed.inside(), full
	stranger.as.KeyID = closed.keyID
	without := make(map[domain.Scope]inside)
	for _, scope := range domain.AllScopes() {
		others := slices.DeleteFunc(domain.AllScopes(), func(o domain.Scope) bool { return o == scope })
		without[scope] = m.key(others...)
	}
	payment := m.paid()
	guarded := 0
	for _, rt := range slices.Concat(full.api.accountRoutes(), full.api.routes()) {
		if rt.Scope == "" && !strings.HasPrefix(rt.Path, accountPath) {
			continue // pages for everybody
		}
		path := strings.NewReplacer(
			"{key_id}", m.keyID, "{id}", payment, "{tile:.+}", "0/000", "{endpoint_id}", "we_x", "{event_id}", payment,
		).Replace(rt.Path)
		try := func(in inside, status int, code domain.Code) {
			t.Helper()
			a := in.do(rt.Method, path, "")
			var p wire.Problem
			if a.Code >= 400 {
				p = a.problem()
			}
			if a.Code != status || p.Code != code {
				t.Errorf("%s %s: %d %s, want %d %s", rt.Method, path, a.Code, p.Code, status, code)
			}
		}
		try(revoked, 401, domain.Unauthorized)
		try(stranger, 401, domain.Unauthorized)
		try(disabled, 403, domain.ProjectDisabledCode)
		if rt.Scope != "" {
			guarded++
			try(without[rt.Scope], 403, domain.ScopeMissing)
		}
	}
	if guarded < 20 {
		t.Errorf("%d routes ask for a scope", guarded)
	}
	full.get("/account-api/session").want(200, "")
}

// TestOthersAreNotToldOf asks for what belongs to another project.
func TestOthersAreNotToldOf(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	other := s.merchant("").inside()
	payment := m.paid()
	refund := m.refund(payment).want(201, "").object().ID
	event := m.events(payment)[0]
	endpoint := m.newEndpoint()
	other.get("/account-api/payments/"+payment).want(404, domain.PaymentNotFound)
	other.do("POST", "/account-api/keys/"+m.keyID+"/revoke", `{"confirm":true}`).want(404, domain.KeyNotFound)
	for _, id := range []string{payment, refund, event, endpoint, m.keyID, m.link(payment)} {
		if got := other.places(id); got != "" {
			t.Errorf("%s is told to be %s", id, got)
		}
		if m.inside().places(id) == "" {
			t.Errorf("%s is not told to its own", id)
		}
	}
	for _, path := range []string{"overview", "totals", "alerts"} {
		a := other.get("/account-api/"+path).want(200, "")
		if strings.Contains(string(a.Body), "1500") || strings.Contains(string(a.Body), m.project) {
			t.Errorf("%s tells of others: %s", path, a.Body)
		}
		if path != "alerts" && !strings.Contains(string(m.inside().get("/account-api/"+path).Body), "1500.00") {
			t.Errorf("%s does not tell of the project's own", path)
		}
	}
}

// events are the ids of a payment's events, oldest first.
func (m shop) events(payment string) (ids []string) {
	m.s.t.Helper()
	var page struct {
		Data []struct {
			Event struct{ ID string } `json:"event"`
		}
	}
	m.get("/v1/payments/"+payment+"/events").want(200, "").decode(&page)
	for _, e := range page.Data {
		ids = append(ids, e.Event.ID)
	}
	return ids
}

// newEndpoint makes a webhook endpoint.
func (m shop) newEndpoint() string {
	m.s.t.Helper()
	return m.hook(`{"url":"` + hookURL + `"}`).ID
}

func (m shop) link(payment string) string {
	m.s.t.Helper()
	var v wire.PaymentFacts
	m.inside().get("/account-api/payments/"+payment).want(200, "").decode(&v)
	return v.Link
}

// places is what a text is told to be.
func (in inside) places(id string) string {
	in.s.t.Helper()
	var v struct{ Data []wire.Place }
	in.do("GET", "/account-api/lookup?id="+strings.NewReplacer(" ", "%20").Replace(id), "").want(200, "").decode(&v)
	var all []string
	for _, p := range v.Data {
		text := p.Kind
		for _, id := range []*domain.ID{p.PaymentID, p.RefundID, p.EventID} {
			if id != nil {
				text += " " + id.String()
			}
		}
		all = append(all, strings.Join(strings.Fields(text+" "+p.EventType+" "+p.EndpointID+" "+p.KeyID), " "))
	}
	return strings.Join(all, ", ")
}

func TestLookup(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.inside()
	payment := m.paid()
	refund := m.refund(payment).want(201, "").object().ID
	for range 30 {
		m.pay(`{"amount":"1"}`).want(201, "")
	}
	events := m.events(payment)
	endpoint := m.newEndpoint()
	id := func(text string) domain.ID { id, _ := domain.ParseID(text); return id }
	of := id(payment)
	s.hooks.add(domain.DeliveryObject{EventID: id(events[2]), EndpointID: endpoint, PaymentID: &of})
	s.hooks.add(domain.DeliveryObject{EventID: id(events[3]), EndpointID: "we_removed", PaymentID: &of})
	test := s.hooks.add(domain.DeliveryObject{EndpointID: endpoint, Type: domain.KindEndpointTest}).EventID.String()
	for pasted, want := range map[string]string{
		payment:                        "payment " + payment,
		" " + strings.ToLower(payment): "payment " + payment,
		m.link(payment):                "payment " + payment,
		m.link(payment) + "x":          "",
		refund:                         "refund " + payment + " " + refund,
		events[0]:                      "event " + payment + " " + events[0] + " payment.created",
		events[2]:                      "event " + payment + " " + events[2] + " payment.paid, delivery " + payment + " " + events[2] + " " + endpoint,
		events[3]:                      "event " + payment + " " + events[3] + " refund.created",
		test:                           "delivery " + test + " " + endpoint,
		endpoint:                       "endpoint " + endpoint,
		m.keyID:                        "key " + m.keyID,
		"00000000000000000000000000":   "",
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ":   "",
		"order-1":                      "",
	} {
		if got := in.places(pasted); got != want {
			t.Errorf("%s is %q, want %q", pasted, got, want)
		}
	}
	for _, query := range []string{"", "?id=", "?id=%20", "?id=%FF", "?q=1", "?id=" + strings.Repeat("x", 3000)} {
		in.get("/account-api/lookup"+query).want(400, domain.InvalidParameter)
	}
}

func TestFactsOfAPayment(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.inside()
	made := m.pay(`{"amount":"15.00","description":"<b>"}`).want(201, "").object()
	var v wire.PaymentFacts
	in.get("/account-api/payments/"+made.ID).want(200, "").decode(&v)
	if v.Link != made.Instructions.URL || v.Route != nil || v.FailureReason != nil || v.ExpiresAt.String() != "2026-11-20T11:15:30.123Z" || v.Payment.ID.String() != made.ID {
		t.Errorf("%+v", v)
	}
	m.route(made.ID)
	m.post("/v1/sandbox/payments/"+made.ID, `{"outcome":"failed"}`).want(200, "")
	in.get("/account-api/payments/"+made.ID).want(200, "").decode(&v)
	if v.Route == nil || *v.Route != "sandbox" || v.FailureReason == nil || *v.FailureReason != domain.ReasonProvider || v.Payment.Status != domain.Failed {
		t.Errorf("%+v", v)
	}
	paid := m.paid()
	refund := m.refund(paid).want(201, "").object().ID
	in.get("/account-api/payments/"+paid).want(200, "").decode(&v)
	if len(v.Refunds) != 1 || v.Refunds[0].ID.String() != refund || v.Refunds[0].PaymentID.String() != paid {
		t.Errorf("%+v", v)
	}
	in.get("/account-api/payments/x").want(404, domain.PaymentNotFound)
}

func TestKeysInTheAccount(t *testing.T) {
	t.Parallel()
	file := sessions(t)
	s := start(t, func(c *settings) { c.Account = file })
	m := s.merchant("")
	in := m.inside()
	list := func() (all []wire.AccountKey) {
		var v struct{ Data []wire.AccountKey }
		in.get("/account-api/keys").want(200, "").decode(&v)
		return v.Data
	}
	first := list()
	if len(first) != 1 || first[0].KeyID != m.keyID || !first[0].Current || first[0].CreatedAt.String() != "2026-11-20T10:15:30.123Z" || first[0].LastUsedAt == nil {
		t.Fatalf("%+v", first)
	}
	var made wire.Key
	in.do("POST", "/account-api/keys", `{"scopes":["audit","read","audit"]}`).want(201, "").decode(&made)
	if !slices.Equal(made.Scopes, []domain.Scope{domain.Read, domain.Audit}) || !strings.HasPrefix(made.APIKey, "sk_") {
		t.Errorf("%+v", made)
	}
	if all := list(); len(all) != 2 || all[0].KeyID != made.KeyID || all[0].LastUsedAt != nil || all[0].Current || all[0].APIKey != "" {
		t.Errorf("%+v", all)
	}
	reader := m
	reader.secret = made.APIKey
	s.clock.advance(5e9)
	reader.get("/v1/payments").want(200, "")
	if all := list(); all[0].LastUsedAt == nil || all[0].LastUsedAt.String() != "2026-11-20T10:15:35.123Z" {
		t.Errorf("%+v", all)
	}

	for body, want := range map[string]string{
		`{}`:                               "#/scopes required",
		`{"scopes":[]}`:                    "#/scopes invalid_value",
		`{"scopes":["write"]}`:             "#/scopes invalid_value",
		`{"scopes":"read"}`:                "#/scopes wrong_type",
		`{"scopes":["read"],"name":"key"}`: "#/name unknown_field",
	} {
		if got := in.do("POST", "/account-api/keys", body).fields(); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}

	path := "/account-api/keys/"
	in.do("POST", path+made.KeyID+"/revoke", `{"confirm":"yes"}`).want(422, domain.ValidationFailed)
	in.do("POST", path+"key_x/revoke", "").want(404, domain.KeyNotFound)
	a := in.do("POST", path+m.keyID+"/revoke", "").want(409, domain.ConfirmationRequired)
	if d := a.problem().Detail; !strings.Contains(d, "signed in with") {
		t.Error(d)
	}
	var gone wire.AccountKey
	in.do("POST", path+made.KeyID+"/revoke", "").want(200, "").decode(&gone)
	if !gone.Revoked || gone.KeyID != made.KeyID {
		t.Errorf("%+v", gone)
	}
	reader.get("/v1/payments").want(401, domain.Unauthorized)
	in.do("POST", path+made.KeyID+"/revoke", "").want(200, "") // nothing is left to do
	a = in.do("POST", path+m.keyID+"/revoke", `{"confirm":false}`).want(409, domain.ConfirmationRequired)
	if d := a.problem().Detail; !strings.Contains(d, "last key") {
		t.Error(d)
	}
	in.do("POST", path+m.keyID+"/revoke", `{"confirm":true}`).want(200, "")
	in.get("/account-api/keys").want(401, domain.Unauthorized)
}

// TestNoKeyGivesWhatItHasNot: a key that can write payments cannot make one
// that can do more, nor revoke one that can.
func TestNoKeyGivesWhatItHasNot(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	weak := m.key(domain.PaymentsWrite, domain.Read)
	for _, scope := range []domain.Scope{domain.RefundsWrite, domain.Audit} {
		a := weak.do("POST", "/account-api/keys", fmt.Sprintf(`{"scopes":["read",%q]}`, scope)).want(403, domain.ScopeMissing)
		if got := a.problem().RequiredScope; got != scope {
			t.Errorf("%s, want %s", got, scope)
		}
	}
	weak.do("POST", "/account-api/keys", `{"scopes":["read","payments:write"]}`).want(201, "")
	weak.do("POST", "/account-api/keys/"+m.keyID+"/revoke", `{"confirm":true}`).want(403, domain.ScopeMissing)
}
