package httpapi

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// session is a merchant's session in the account: the operations that pages call,
// and its key.
type session struct {
	s       *server
	api     *merchant.API
	project string
	key     string
}

func (m shop) session() session {
	m.s.t.Helper()
	a, err := newAPI(m.s.cfg.Config)
	if err != nil {
		m.s.t.Fatal(err)
	}
	return session{m.s, a.m, m.project, m.keyID}
}

// caller is the session's caller, as a new request reads it.
func (in session) caller() merchant.Caller {
	in.s.t.Helper()
	c, err := in.api.Resume(in.s.t.Context(), merchant.Session{Project: in.project, KeyID: in.key, Since: 1})
	if err != nil {
		in.s.t.Fatal(err)
	}
	return c
}

// issue makes another key and returns a session of it.
func (in session) issue(scopes ...projects.Scope) session {
	in.s.t.Helper()
	_, key, err := in.api.NewKey(in.s.t.Context(), in.project, eventstore.Cause{}, "", scopes)
	if err != nil {
		in.s.t.Fatal(err)
	}
	in.key = key.KeyID
	return in
}

// keyTimes are times of use of keys.
type keyTimes struct{ sync.Map }

func (k *keyTimes) Use(key string, at time.Time) { k.Store(key, domain.InstantOf(at)) }

func (k *keyTimes) LastUse(key string) (domain.Instant, bool) {
	at, ok := k.Load(key)
	if !ok {
		return 0, false
	}
	return at.(domain.Instant), true
}

// newBits are random bits of a new key.
func newBits() (bits [32]byte) {
	_, _ = rand.Read(bits[:]) // never fails
	return bits
}

// codeOf is the code of the problem that an error is, "" for no error.
func codeOf(err error) domain.Code {
	var p wire.Problem
	var r *domain.Refusal
	var fields domain.FieldErrors
	switch {
	case errors.As(err, &p):
		return p.Code
	case errors.As(err, &r):
		return r.Code
	case errors.As(err, &fields):
		return domain.ValidationFailed
	case err != nil:
		return domain.InternalError
	}
	return ""
}

// must returns the result of an operation that may not fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, closed := s.merchant(""), s.merchant("")
	in := m.session()
	in.caller()
	s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+m.keyID, "").want(204, "")
	s.adminDo("POST", "/admin/projects/"+closed.project+"/disable", "{}").want(200, "")
	for _, c := range []struct {
		project, key string
		want         domain.Code
	}{
		{m.project, m.keyID, domain.Unauthorized},
		{closed.project, closed.keyID, domain.ProjectDisabledCode},
		{"prj_none", m.keyID, domain.Unauthorized},
		{s.merchant("").project, m.keyID, domain.Unauthorized},
	} {
		if _, err := in.api.Resume(t.Context(), merchant.Session{Project: c.project, KeyID: c.key, Since: 1}); codeOf(err) != c.want {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestOperationsOfPagesNeedTheirScope tests the operations that only pages call.
// TestEveryRequestCostsOnce tests those of routes.
func TestOperationsOfPagesNeedTheirScope(t *testing.T) {
	t.Parallel()
	s := start(t)
	in := s.merchant("").session()
	for _, scope := range []projects.Scope{projects.Read, projects.PaymentsWrite} {
		others := slices.DeleteFunc(projects.AllScopes(), func(o projects.Scope) bool { return o == scope })
		c, ctx := in.issue(others...).caller(), t.Context()
		operations := map[string]func() error{
			"Overview":     func() error { _, err := in.api.Overview(ctx, c, nil); return err },
			"Totals":       func() error { _, err := in.api.Totals(ctx, c, nil); return err },
			"Alerts":       func() error { _, err := in.api.Alerts(ctx, c); return err },
			"Lookup":       func() error { _, err := in.api.Lookup(ctx, c, "x"); return err },
			"PaymentFacts": func() error { _, err := in.api.PaymentFacts(ctx, c, "x"); return err },
			"Keys":         func() error { _, err := in.api.Keys(c); return err },
		}
		if scope == projects.PaymentsWrite {
			operations = map[string]func() error{
				"IssueKey":  func() error { _, err := in.api.IssueKey(ctx, c, newBits(), "", []string{"read"}); return err },
				"RenameKey": func() error { return in.api.RenameKey(ctx, c, in.key, "x") },
				"RevokeKey": func() error { return in.api.RevokeKey(ctx, c, in.key) },
			}
		}
		for name, operation := range operations {
			var p wire.Problem
			if err := operation(); !errors.As(err, &p) || p.Code != domain.ScopeMissing || p.RequiredScope != scope {
				t.Errorf("%s without %s: %v", name, scope, err)
			}
		}
	}
}

// TestOthersAreNotToldOf asks for objects of another project.
func TestOthersAreNotToldOf(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	own, other := m.session(), s.merchant("").session()
	payment := m.paid()
	refund := m.refund(payment).want(201, "").object().ID
	event := m.events(payment)[0]
	endpoint := m.newEndpoint()
	if _, err := other.api.PaymentFacts(t.Context(), other.caller(), payment); codeOf(err) != domain.PaymentNotFound {
		t.Error(err)
	}
	if err := other.api.RevokeKey(t.Context(), other.caller(), m.keyID); codeOf(err) != domain.KeyNotFound {
		t.Error(err)
	}
	for _, id := range []string{payment, refund, event, endpoint, m.keyID, own.link(payment)} {
		if got := other.place(id); got != "" {
			t.Errorf("%s is said to be %s", id, got)
		}
		if own.place(id) == "" {
			t.Errorf("its own project does not see %s", id)
		}
	}
	for _, in := range []session{own, other} {
		overview := must(in.api.Overview(t.Context(), in.caller(), nil))
		totals := must(in.api.Totals(t.Context(), in.caller(), nil))
		if want := in == own; (overview.Payments > 0) != want || (totals.Count > 0) != want {
			t.Errorf("project %s: %+v, %+v", in.project, overview, totals)
		}
	}
	if alerts := must(other.api.Alerts(t.Context(), other.caller())); len(alerts) > 0 {
		t.Errorf("alerts of others: %v", alerts)
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

func (in session) facts(payment string) wire.PaymentFacts {
	in.s.t.Helper()
	return must(in.api.PaymentFacts(in.s.t.Context(), in.caller(), payment))
}

func (in session) link(payment string) string {
	in.s.t.Helper()
	return in.facts(payment).Link
}

// place is where a search for a text leads.
func (in session) place(text string) string {
	in.s.t.Helper()
	p := must(in.api.Lookup(in.s.t.Context(), in.caller(), text))
	all := []string{p.Endpoint, p.Key}
	for _, id := range []*domain.ID{p.Payment, p.Part} {
		if id != nil {
			all = append(all, id.String())
		}
	}
	return strings.TrimSpace(strings.Join(all, " "))
}

func TestLookup(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.session()
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
		payment:                        payment,
		" " + strings.ToLower(payment): payment,
		in.link(payment):               payment,
		in.link(payment) + "x":         "",
		in.link(payment) + "?lang=ru":  payment,
		in.link(payment) + "?a=/p/#b?": payment,
		in.link(payment) + "#main":     payment,
		refund:                         payment + " " + refund,
		events[0]:                      payment + " " + events[0],
		events[2]:                      payment + " " + events[2],
		events[3]:                      payment + " " + events[3],
		test:                           endpoint + "  " + test,
		endpoint:                       endpoint,
		m.keyID:                        m.keyID,
		"00000000000000000000000000":   "",
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ":   "",
		"order-1":                      "",
	} {
		if got := in.place(pasted); got != want {
			t.Errorf("%s is %q, want %q", pasted, got, want)
		}
	}
	for _, text := range []string{"", " ", "\xff", strings.Repeat("x", 3000)} {
		if _, err := in.api.Lookup(t.Context(), in.caller(), text); codeOf(err) != domain.InvalidParameter {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFactsOfAPayment(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.session()
	made := m.pay(`{"amount":"15.00","description":"<b>"}`).want(201, "").object()
	v := in.facts(made.ID)
	if v.Link != made.Instructions.URL || v.Route != nil || v.FailureReason != nil || v.ExpiresAt.String() != "2026-11-20T11:15:30.123Z" || v.Payment.ID.String() != made.ID {
		t.Errorf("%+v", v)
	}
	m.route(made.ID)
	m.post("/v1/sandbox/payments/"+made.ID, `{"outcome":"failed"}`).want(200, "")
	v = in.facts(made.ID)
	if v.Route == nil || *v.Route != "sandbox" || v.FailureReason == nil || *v.FailureReason != domain.ReasonProvider || v.Payment.Status != domain.Failed {
		t.Errorf("%+v", v)
	}
	paid := m.paid()
	refund := m.refund(paid).want(201, "").object().ID
	v = in.facts(paid)
	if len(v.Refunds) != 1 || v.Refunds[0].ID.String() != refund || v.Refunds[0].PaymentID.String() != paid {
		t.Errorf("%+v", v)
	}
	if _, err := in.api.PaymentFacts(t.Context(), in.caller(), "x"); codeOf(err) != domain.PaymentNotFound {
		t.Error(err)
	}
}

func TestKeysInTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	in := m.session()
	list := func() []wire.AccountKey { return must(in.api.Keys(in.caller())) }
	first := list()
	if len(first) != 1 || first[0].KeyID != m.keyID || !first[0].Current || first[0].CreatedAt.String() != "2026-11-20T10:15:30.123Z" || first[0].LastUsedAt == nil {
		t.Fatalf("%+v", first)
	}
	made := must(in.api.IssueKey(t.Context(), in.caller(), newBits(), "auditor", []string{"audit", "read", "audit"}))
	if made.Name != "auditor" || !slices.Equal(made.Scopes, []projects.Scope{projects.Read, projects.Audit}) || !strings.HasPrefix(made.APIKey, "sk_") {
		t.Errorf("%+v", made)
	}
	if all := list(); len(all) != 2 || all[0].KeyID != made.KeyID || all[0].Name != "auditor" || all[0].LastUsedAt != nil || all[0].Current || all[0].APIKey != "" {
		t.Errorf("%+v", all)
	}
	reader := m
	reader.secret = made.APIKey
	s.clock.advance(5e9)
	reader.get("/v1/payments").want(200, "")
	if all := list(); all[0].LastUsedAt == nil || all[0].LastUsedAt.String() != "2026-11-20T10:15:35.123Z" {
		t.Errorf("%+v", all)
	}

	for _, names := range [][]string{nil, {}, {"write"}, {"read", ""}} {
		if _, err := in.api.IssueKey(t.Context(), in.caller(), newBits(), "", names); codeOf(err) != domain.ValidationFailed {
			t.Errorf("scopes %q: %v", names, err)
		}
	}

	revoke := func(id string) error { return in.api.RevokeKey(t.Context(), in.caller(), id) }
	if err := revoke("key_x"); codeOf(err) != domain.KeyNotFound {
		t.Error(err)
	}
	for range 2 { // the second time nothing is left to do
		if err := revoke(made.KeyID); err != nil {
			t.Error(err)
		}
		reader.get("/v1/payments").want(401, domain.Unauthorized)
	}
	if err := revoke(m.keyID); err != nil {
		t.Error(err)
	}
	if _, err := in.api.Resume(t.Context(), merchant.Session{Project: m.project, KeyID: m.keyID, Since: 1}); codeOf(err) != domain.Unauthorized {
		t.Error(err)
	}
}

// TestNoKeyGivesWhatItHasNot: a key with payments:write can neither make a key with
// more scopes nor revoke one that has more.
func TestNoKeyGivesWhatItHasNot(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	weak := m.session().issue(projects.PaymentsWrite, projects.Read)
	for _, scope := range []projects.Scope{projects.RefundsWrite, projects.Audit} {
		var p wire.Problem
		_, err := weak.api.IssueKey(t.Context(), weak.caller(), newBits(), "", []string{"read", string(scope)})
		if !errors.As(err, &p) || p.Code != domain.ScopeMissing || p.RequiredScope != scope {
			t.Errorf("%s: %v", scope, err)
		}
	}
	must(weak.api.IssueKey(t.Context(), weak.caller(), newBits(), "", []string{"read", "payments:write"}))
	if err := weak.api.RenameKey(t.Context(), weak.caller(), m.keyID, "x"); codeOf(err) != domain.ScopeMissing {
		t.Error(err)
	}
	if err := weak.api.RevokeKey(t.Context(), weak.caller(), m.keyID); codeOf(err) != domain.ScopeMissing {
		t.Error(err)
	}
}
