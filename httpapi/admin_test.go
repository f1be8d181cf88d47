package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
)

func TestAdminProjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.adminDo("POST", "/admin/projects", `{"name":"Чайная лавка"}`).want(201, "")
	var p wire.Project
	a.decode(&p)
	if !strings.HasPrefix(p.ProjectID, "prj_") || len(p.ProjectID) != 30 || !strings.HasPrefix(p.KeyID, "key_") || len(p.KeyID) != 30 ||
		!strings.HasPrefix(p.APIKey, "sk_") || len(p.APIKey) != 55 || strings.Contains(p.APIKey, ":") {
		t.Errorf("%+v", p)
	}
	if a.Header.Get("Location") != "/admin/projects/"+p.ProjectID {
		t.Errorf("Location %s", a.Header.Get("Location"))
	}
	got := s.adminDo("GET", "/admin/projects/"+p.ProjectID, "").want(200, "")
	want := `{"project_id":"` + p.ProjectID + `","name":"Чайная лавка","disabled":false,"settings":{"currencies":["RUB"],"max_amount":"999999999.99",` +
		`"lifetime_seconds":3600,"require_idempotency_key":false},"keys":[{"key_id":"` + p.KeyID + `","scopes":["payments:write","refunds:write","webhooks:write","read","audit"],"revoked":false}]}`
	if string(got.Body) != want {
		t.Errorf("%s\nwant %s", got.Body, want)
	}
	if list := s.adminDo("GET", "/admin/projects", "").want(200, ""); string(list.Body) != `{"data":[`+want+`]}` {
		t.Errorf("%s", list.Body)
	}
	// Only the members that are sent change.
	changed := s.adminDo("POST", "/admin/projects/"+p.ProjectID, `{"settings":{"max_amount":100,"lifetime_seconds":300}}`).want(200, "")
	var after wire.Project
	changed.decode(&after)
	if after.Name != "Чайная лавка" || after.Settings.MaxAmount != 10000 || after.Settings.LifetimeSeconds != 300 || after.Settings.Currencies[0] != "RUB" {
		t.Errorf("%+v", after)
	}
	s.adminDo("POST", "/admin/projects/"+p.ProjectID, `{"name":"Tea"}`).want(200, "").decode(&after)
	if after.Name != "Tea" || after.Settings.MaxAmount != 10000 {
		t.Errorf("%+v", after)
	}
	for range 2 {
		if d := s.adminDo("POST", "/admin/projects/"+p.ProjectID+"/disable", "{}").want(200, ""); !strings.Contains(string(d.Body), `"disabled":true`) {
			t.Errorf("%s", d.Body)
		}
	}
	m := shop{s: s, project: p.ProjectID, secret: p.APIKey}
	m.get("/v1/payments").want(403, domain.ProjectDisabledCode)
}

// TestOperatorsChangeAProjectAtOnce: concurrent changes of different members are all
// kept.
func TestOperatorsChangeAProjectAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	path := "/admin/projects/" + m.project
	for round := range 10 {
		wishes := []string{
			fmt.Sprintf(`{"name":"Tea %d"}`, round),
			fmt.Sprintf(`{"settings":{"lifetime_seconds":%d}}`, 300+round),
			fmt.Sprintf(`{"settings":{"max_amount":"%d.00"}}`, 100+round),
			fmt.Sprintf(`{"settings":{"rate_reads":%d}}`, 10+round),
		}
		var all sync.WaitGroup
		for _, wish := range wishes {
			all.Go(func() { s.adminDo("POST", path, wish).want(200, "") })
		}
		all.Wait()
		var p wire.Project
		s.adminDo("GET", path, "").want(200, "").decode(&p)
		if reads := p.Settings.RateReads; p.Name != fmt.Sprint("Tea ", round) || p.Settings.LifetimeSeconds != 300+round ||
			p.Settings.MaxAmount != domain.Amount(100+round)*100 || reads == nil || *reads != 10+round {
			t.Fatalf("round %d: %+v", round, p)
		}
	}
}

func TestAdminKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	keys := "/admin/projects/" + m.project + "/keys"
	var k wire.Key
	s.adminDo("POST", keys, `{"scopes":["read"],"name":"Склад"}`).want(201, "").decode(&k)
	list := s.adminDo("GET", keys, "").want(200, "")
	if k.Name != "Склад" || !strings.Contains(string(list.Body), `"name":"Склад"`) {
		t.Errorf("%+v; %s", k, list.Body)
	}
	for _, secret := range []string{k.APIKey, m.secret, projects.HashKey(k.APIKey).String()} {
		if strings.Contains(string(list.Body), secret) {
			t.Errorf("the list tells %s", secret)
		}
	}
	for range 2 {
		s.adminDo("DELETE", keys+"/"+k.KeyID, "").want(204, "")
	}
	if list = s.adminDo("GET", keys, "").want(200, ""); !strings.Contains(string(list.Body), `"scopes":["read"],"revoked":true`) {
		t.Errorf("%s", list.Body)
	}
	for r, err := range s.store.Scan(t.Context(), 0, filterOf("")) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(r.Body), k.APIKey) || strings.Contains(string(r.Body), m.secret) {
			t.Errorf("an event tells an API key: %s", r.Body)
		}
	}
}

func TestAdminRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	project := "/admin/projects/" + m.project
	for _, c := range []struct {
		path, body string
		want       string
	}{
		{"/admin/projects", `{}`, "#/name required"},
		{"/admin/projects", `{"name":""}`, "#/name required"},
		{"/admin/projects", `{"name":1}`, "#/name wrong_type"},
		{"/admin/projects", `{"name":"` + strings.Repeat("x", 129) + `"}`, "#/name too_long"},
		{"/admin/projects", `{"name":"a\nb"}`, "#/name control_character"},
		{"/admin/projects", `{"name":"x","nothing":1}`, "#/nothing unknown_field"},
		{"/admin/projects", `{"name":"x","scopes":[]}`, "#/scopes invalid_value"},
		{"/admin/projects", `{"name":"x","scopes":["root"]}`, "#/scopes invalid_value"},
		{"/admin/projects", `{"name":"x","scopes":"read"}`, "#/scopes wrong_type"},
		{"/admin/projects", `{"name":"x","scopes":[1]}`, "#/scopes wrong_type"},
		{"/admin/projects", `{"name":"x","settings":[]}`, "#/settings wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"max_amount":0}}`, "#/settings/max_amount amount_too_small"},
		{"/admin/projects", `{"name":"x","settings":{"max_amount":true}}`, "#/settings/max_amount wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"currencies":["JPY"]}}`, "#/settings/currencies currency_not_supported"},
		{"/admin/projects", `{"name":"x","settings":{"currencies":[]}}`, "#/settings/currencies required"},
		{"/admin/projects", `{"name":"x","settings":{"currencies":"RUB"}}`, "#/settings/currencies wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"currencies":null}}`, "#/settings/currencies wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"lifetime_seconds":null}}`, "#/settings/lifetime_seconds wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"require_idempotency_key":null}}`, "#/settings/require_idempotency_key wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"lifetime_seconds":299}}`, "#/settings/lifetime_seconds invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"lifetime_seconds":7776001}}`, "#/settings/lifetime_seconds invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"details_retention_days":-1}}`, "#/settings/details_retention_days invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"details_retention_days":3651}}`, "#/settings/details_retention_days invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"details_retention_days":1.5}}`, "#/settings/details_retention_days wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"details_retention_days":1,"lifetime_seconds":86401}}`, "#/settings/details_retention_days invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"lifetime_seconds":"300"}}`, "#/settings/lifetime_seconds wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"lifetime_seconds":3e2}}`, "#/settings/lifetime_seconds wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"require_idempotency_key":1}}`, "#/settings/require_idempotency_key wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"http://shop.example"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"javascript:alert(1)"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"https://"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"https://shop.example/\"><b>"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"https://shop.example/%"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"https://me:secret@shop.example/"}}`, "#/settings/shop_url invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":"https://shop.example/` + strings.Repeat("x", 492) + `"}}`, "#/settings/shop_url too_long"},
		{"/admin/projects", `{"name":"x","settings":{"time_zone":"Mars/Olympus"}}`, "#/settings/time_zone invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"time_zone":"Local"}}`, "#/settings/time_zone invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"time_zone":3}}`, "#/settings/time_zone wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"rate_writes":-1}}`, "#/settings/rate_writes invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"rate_reads":1000001}}`, "#/settings/rate_reads invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"rate_customers":1.5}}`, "#/settings/rate_customers wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"session_idle_seconds":299}}`, "#/settings/session_idle_seconds invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"session_max_seconds":2592001}}`, "#/settings/session_max_seconds invalid_value"},
		{"/admin/projects", `{"name":"x","settings":{"session_max_seconds":"1h"}}`, "#/settings/session_max_seconds wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"shop_url":1}}`, "#/settings/shop_url wrong_type"},
		{"/admin/projects", `{"name":"x","settings":{"nothing":1}}`, "#/nothing unknown_field"},
		{project, `{"name":""}`, "#/name required"},
		{project, `{"scopes":["read"]}`, "#/scopes unknown_field"},
		{project + "/keys", `{"settings":{}}`, "#/settings unknown_field"},
		{project + "/keys", `{"name":7}`, "#/name wrong_type"},
		{project + "/keys", `{"name":" "}`, "#/name required"},
		{project + "/keys", `{"name":"` + strings.Repeat("x", 65) + `"}`, "#/name too_long"},
		{project + "/keys", `{"name":"a\u0007"}`, "#/name control_character"},
	} {
		before, _ := s.store.Last(t.Context())
		if got := s.adminDo("POST", c.path, c.body).fields(); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
		if after, _ := s.store.Last(t.Context()); after != before {
			t.Errorf("%s: something was recorded", c.body)
		}
	}
	for _, path := range []string{"/admin/projects/x", "/admin/projects/prj_00000000000000000000000000"} {
		s.adminDo("GET", path, "").want(404, domain.ProjectNotFound)
		s.adminDo("POST", path, `{"name":"x"}`).want(404, domain.ProjectNotFound)
		s.adminDo("POST", path+"/sign-out", "{}").want(404, domain.ProjectNotFound)
		s.adminDo("POST", path+"/disable", "{}").want(404, domain.ProjectNotFound)
		s.adminDo("POST", path+"/keys", "{}").want(404, domain.ProjectNotFound)
		s.adminDo("GET", path+"/keys", "").want(404, domain.ProjectNotFound)
		s.adminDo("DELETE", path+"/keys/x", "").want(404, domain.ProjectNotFound)
	}
	s.adminDo("DELETE", project+"/keys/key_x", "").want(404, domain.KeyNotFound)
	s.adminDo("PUT", project, "{}").want(405, domain.MethodNotAllowed)
	s.adminDo("GET", "/v1/payments", "").want(404, domain.PathNotFound)
	s.adminDo("POST", "/admin/projects", "{").want(400, domain.MalformedJSON)
}

func TestAdminSandbox(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).object().ID
	m.route(id)
	if got := s.adminDo("POST", "/admin/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "").object().Status; got != "paid" {
		t.Error(got)
	}
	s.adminDo("POST", "/admin/sandbox/payments/"+id, `{"outcome":"failed"}`).want(409, domain.FinalStatus)
	refund := m.refund(id).object().ID
	if got := s.adminDo("POST", "/admin/sandbox/refunds/"+refund, `{"outcome":"failed"}`).want(200, "").object().Status; got != "failed" {
		t.Error(got)
	}
	s.adminDo("POST", "/admin/sandbox/payments/x", `{"outcome":"paid"}`).want(404, domain.PaymentNotFound)
	s.adminDo("POST", "/admin/sandbox/refunds/x", `{"outcome":"failed"}`).want(404, domain.RefundNotFound)
}

func TestAdminEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	id := m.paid()
	other.pay(`{"amount":1}`).want(201, "")
	var all, mine strings.Builder
	for r, err := range s.store.Scan(t.Context(), 0, filterOf("")) {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf(`{"position":%d,"event":%s}`+"\n", r.Position, r.Body)
		all.WriteString(line)
		if r.Stream.Project == m.project {
			mine.WriteString(line)
		}
	}
	if !strings.Contains(mine.String(), id) {
		t.Fatal("no event of the payment")
	}
	_, afterFirst, _ := strings.Cut(all.String(), "\n")
	for query, want := range map[string]string{
		"": all.String(), "?after=0": all.String(), "?project=" + m.project: mine.String(), "?after=1&follow=false": afterFirst,
	} {
		a := s.adminDo("GET", "/admin/events"+query, "")
		if a.Code != 200 || string(a.Body) != want || a.Header.Get("Content-Type") != "application/jsonl" {
			t.Errorf("%s: %d %s\nwant %s", query, a.Code, a.Body, want)
		}
	}
	s.adminDo("GET", "/admin/events?project=x", "").want(404, domain.ProjectNotFound)
	for _, query := range []string{"after=-1", "after=x", "after=", "follow=yes", "nothing=1", "after=1&after=2", "after=99999"} {
		s.adminDo("GET", "/admin/events?"+query, "").want(400, domain.InvalidParameter)
	}
}

func TestAdminEventsAreFollowed(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	listener := httptest.NewServer(s.admin)
	t.Cleanup(listener.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", listener.URL+"/admin/events?follow=true&after=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := listener.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		id := m.pay(`{"amount":1}`).want(201, "").object().ID
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		var got wire.EventLine
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil || int(got.Position) != 3+i || !strings.Contains(string(got.Event), id) {
			t.Errorf("%v %s", err, lines.Text())
		}
	}
	// The stream ends with the store.
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("%s", lines.Text())
	}
}

// A list of events that breaks off cannot be mistaken for a complete one.
func TestAdminEventsCutShort(t *testing.T) {
	t.Parallel()
	if res, body := cutShort(t, "GET", "/admin/events", ""); body != nil {
		t.Errorf("ended in order after %s: %s", res.Status, body)
	}
}

// cutShort requests something that reads all of a damaged log. It returns the body,
// or nil if the body broke off.
func cutShort(t *testing.T, method, path, content string) (res *http.Response, body []byte) {
	t.Helper()
	s := start(t)
	m := s.merchant("")
	m.pay(`{"amount":1}`).want(201, "")
	s.store.Damage(3)
	listener := httptest.NewServer(s.admin)
	t.Cleanup(listener.Close)
	req, err := http.NewRequestWithContext(t.Context(), method, listener.URL+path, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err = listener.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if !strings.Contains(s.log.String(), "damaged") {
		t.Error("the log does not tell why")
	}
	if err != nil {
		return res, nil
	}
	return res, append([]byte{}, body...)
}
