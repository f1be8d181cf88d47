package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/httpapi/edge"
	"payledger/httpapi/webhooks"
	"payledger/httpapi/wire"
)

const hookURL = "https://shop.example.com/hooks"

func (m shop) hook(body string) wire.Endpoint {
	m.s.t.Helper()
	var v wire.Endpoint
	m.post(endpointsPath, body).want(201, "").decode(&v)
	return v
}

func (m shop) endpoint(id string) wire.Endpoint {
	m.s.t.Helper()
	var v wire.Endpoint
	m.get(endpointsPath+"/"+id).want(200, "").decode(&v)
	return v
}

// audited checks all records against the rules of the audit.
func (s *server) audited() {
	s.t.Helper()
	report, err := audit.Check(s.t.Context(), audit.Of(s.t.Context(), s.store), audit.Options{Codec: s.cfg.Ledger.Codec})
	if err != nil {
		s.t.Fatal(err)
	}
	if !report.OK() {
		s.t.Errorf("the audit finds %+v", report.Findings)
	}
}

func TestEndpointFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	a := m.post(endpointsPath, `{"url":"`+hookURL+`"}`).want(201, "")
	var made wire.Endpoint
	a.decode(&made)
	secret, err := s.hooks.Secret(made.ID, projects.Secret{Generation: 1, KeyVersion: 2})
	if err != nil {
		t.Fatal(err)
	}
	rest := `"url":"` + hookURL + `","kinds":["payment.paid","payment.expired","payment.failed","payment.disputed","payment.dispute_won","payment.dispute_lost","refund.succeeded","refund.failed","refund.returned"],"description":null,` +
		`"status":"enabled","disabled_reason":null,"disabled_at":null,"created_at":"2026-11-20T10:15:30.123Z",`
	const calm = `"previous_secret_until":null,"health":{"pending":0,"undelivered":0,"failing_since":null,"paused_until":null,"last_failure":null}}`
	if want := `{"id":"` + made.ID + `",` + rest + `"secret":"` + secret + `",` + calm; string(a.Body) != want {
		t.Errorf("%s\nwant %s", a.Body, want)
	}
	path := endpointsPath + "/" + made.ID
	if a.Header.Get("Location") != path || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", a.Header)
	}
	plain := `{"id":"` + made.ID + `",` + rest + calm
	if got := m.get(path).want(200, ""); string(got.Body) != plain {
		t.Errorf("%s\nwant %s", got.Body, plain)
	}
	if got := m.get(endpointsPath).want(200, ""); string(got.Body) != `{"data":[`+plain+`],"next_cursor":null}` {
		t.Errorf("%s", got.Body)
	}

	s.clock.advance(time.Minute)
	var v wire.Endpoint
	m.post(path, `{"kinds":["refund.failed","payment.created","refund.failed"],"description":"ERP"}`).want(200, "").decode(&v)
	if v.URL != hookURL || fmt.Sprint(v.Kinds) != "[payment.created refund.failed]" || *v.Description != "ERP" || v.Secret != "" {
		t.Errorf("%+v", v)
	}
	m.post(path, `{"url":"`+hookURL+`/2","kinds":null}`).want(200, "").decode(&v)
	if v.URL != hookURL+"/2" || len(v.Kinds) != 2 || *v.Description != "ERP" {
		t.Errorf("%+v", v)
	}
	m.post(path, `{"description":""}`).want(200, "").decode(&v)
	if v.Description == nil || *v.Description != "" {
		t.Errorf("%+v", v)
	}
	before, _ := s.store.Last(t.Context())
	m.post(path, `{}`).want(200, "")
	m.post(path, `{"url":"`+hookURL+`/2"}`).want(200, "")
	m.post(path+"/enable", ``).want(200, "")
	if after, _ := s.store.Last(t.Context()); after != before {
		t.Errorf("%d events say nothing new", after-before)
	}

	for range 2 {
		m.send("POST", path+"/disable", nil).want(200, "").decode(&v)
		if v.Status != "disabled" || *v.Reason != "requested" || v.DisabledAt.String() != "2026-11-20T10:16:30.123Z" {
			t.Errorf("%+v", v)
		}
		s.clock.advance(time.Minute)
	}
	m.send("POST", path+"/enable", nil).want(200, "").decode(&v)
	if v.Status != "enabled" || v.Reason != nil || v.DisabledAt != nil {
		t.Errorf("%+v", v)
	}
	gone := m.send("DELETE", path, nil)
	if gone.Code != 204 || len(gone.Body) != 0 {
		t.Errorf("%d %s", gone.Code, gone.Body)
	}
	m.send("DELETE", path, nil).want(404, domain.WebhookEndpointNotFound)
	m.get(path).want(404, domain.WebhookEndpointNotFound)
	s.audited()
}

func TestRotatedSecrets(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	made := m.hook(`{"url":"` + hookURL + `"}`)
	path := endpointsPath + "/" + made.ID
	last := made.Secret
	for _, c := range []struct {
		body    string
		overlap time.Duration
	}{
		{``, 24 * time.Hour},
		{`{}`, 24 * time.Hour},
		{`{"overlap_seconds":null}`, 24 * time.Hour},
		{`{"overlap_seconds":1}`, time.Second},
		{`{"overlap_seconds":604800}`, 7 * 24 * time.Hour},
		{`{"overlap_seconds":6.048e5}`, 7 * 24 * time.Hour},
		{`{"overlap_seconds":60.0}`, time.Minute},
		{`{"overlap_seconds":0}`, 0},
		{`{"overlap_seconds":-0}`, 0},
	} {
		var v wire.Endpoint
		m.post(path+"/rotate-secret", c.body).want(200, "").decode(&v)
		if v.Secret == "" || v.Secret == last {
			t.Errorf("%s: secret %q after %q", c.body, v.Secret, last)
		}
		last = v.Secret
		if c.overlap == 0 {
			if v.Previous != nil {
				t.Errorf("%s: until %s", c.body, v.Previous)
			}
			continue
		}
		if want := domain.InstantOf(s.clock.Now()).Add(c.overlap); v.Previous == nil || *v.Previous != want {
			t.Errorf("%s: until %v, want %s", c.body, v.Previous, want)
		}
		s.clock.advance(c.overlap - time.Millisecond)
		if v = m.endpoint(made.ID); v.Previous == nil || v.Secret != "" {
			t.Errorf("%s: %+v", c.body, v)
		}
		s.clock.advance(time.Millisecond)
		if v = m.endpoint(made.ID); v.Previous != nil {
			t.Errorf("%s: the overlap does not end: %+v", c.body, v)
		}
	}
	s.audited()
}

// Each secret is in one answer and in no other output of the program.
func TestSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	made := m.hook(`{"url":"` + hookURL + `"}`)
	path := endpointsPath + "/" + made.ID
	var rotated wire.Endpoint
	m.send("POST", path+"/rotate-secret", nil).want(200, "").decode(&rotated)
	var told strings.Builder
	for _, a := range []*answer{
		m.get(path), m.get(endpointsPath), m.post(path, `{"description":"x"}`), m.send("POST", path+"/disable", nil), m.send("POST", path+"/enable", nil),
		m.send("POST", path+"/test", nil), m.get(path + "/deliveries"), s.adminDo("GET", "/admin/projects/"+m.project, ""),
	} {
		told.Write(a.Body)
	}
	for _, b := range s.bodies() {
		told.Write(b)
	}
	told.WriteString(s.log.String())
	for _, secret := range []string{made.Secret, rotated.Secret} {
		if strings.Contains(told.String(), strings.TrimPrefix(secret, "whsec_")) {
			t.Errorf("%s was shown again", secret)
		}
	}
}

// An endpoint of another project does not exist for the caller: the answer has the
// same bytes as for one that exists nowhere.
func TestForeignEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	theirs := other.hook(`{"url":"` + hookURL + `"}`).ID
	mine := m.hook(`{"url":"` + hookURL + `"}`).ID
	event := s.hooks.add(domain.DeliveryObject{EndpointID: theirs, Type: domain.KindPaymentPaid, PaymentID: &domain.ID{1}}).EventID.String()
	s.hooks.calls()
	before, _ := s.store.Last(t.Context())
	blank := func(a *answer) string { return strings.ReplaceAll(string(a.Body), a.Header.Get("X-Request-Id"), "") }
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"POST", "", `{"description":"x"}`},
		{"DELETE", "", ""},
		{"POST", "/rotate-secret", ""},
		{"POST", "/enable", ""},
		{"POST", "/disable", ""},
		{"POST", "/test", ""},
		{"POST", "/recover", `{"since":"2026-11-20T10:00:00Z"}`},
		{"GET", "/deliveries", ""},
		{"GET", "/deliveries/" + event, ""},
		{"POST", "/deliveries/" + event + "/resend", ""},
	} {
		ask := func(id string) *answer {
			return m.send(c.method, endpointsPath+"/"+id+c.path, strings.NewReader(c.body), header{"Content-Type", "application/json"})
		}
		foreign := ask(theirs).want(404, domain.WebhookEndpointNotFound)
		for _, id := range []string{
			"we_01M7W70000M8T4R7B5N0C1D2E3", strings.ToLower(mine), mine[3:], mine + "0", mine[:28], "x", "%20" + mine, mine + "%20", mine + "%00",
			"we_" + strings.Repeat("9", 5000), "null", "%FF",
		} {
			if a := ask(id).want(404, domain.WebhookEndpointNotFound); blank(a) != blank(foreign) {
				t.Errorf("%s %s: %s, another project's %s", c.method, id, a.Body, foreign.Body)
			}
		}
	}
	if after, _ := s.store.Last(t.Context()); after != before || len(s.hooks.calls()) > 0 {
		t.Error("something happened")
	}
	for _, path := range []string{endpointsPath + "/" + mine + "/deliveries/" + event, endpointsPath + "/" + mine + "/deliveries/x"} {
		m.get(path).want(404, domain.DeliveryNotFound)
		m.send("POST", path+"/resend", nil).want(404, domain.DeliveryNotFound)
	}
	if strings.Contains(string(m.get(endpointsPath).Body), theirs) {
		t.Error("the list shows another project's")
	}
}

func TestSixteenEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	var ids []string
	for range 15 {
		ids = append(ids, m.hook(`{"url":"`+hookURL+`"}`).ID)
		s.clock.advance(time.Millisecond)
	}
	// Of two concurrent requests for the last place, one is refused.
	codes, both := make([]int, 2), sync.WaitGroup{}
	for i := range codes {
		both.Go(func() { codes[i] = m.post(endpointsPath, `{"url":"`+hookURL+`"}`).Code })
	}
	both.Wait()
	if slices.Sort(codes); !slices.Equal(codes, []int{201, 409}) {
		t.Errorf("%v", codes)
	}
	if p := m.post(endpointsPath, `{"url":"`+hookURL+`"}`).want(409, domain.WebhookEndpointLimit).problem(); p.Limit != 16 {
		t.Errorf("%+v", p)
	}
	m.post(endpointsPath, `{"url":"http://x"}`).want(422, domain.ValidationFailed)
	m.send("DELETE", endpointsPath+"/"+ids[3], nil).want(204, "")
	ids = slices.Delete(ids, 3, 4)
	m.hook(`{"url":"` + hookURL + `"}`)

	// Pages are newest first and have each endpoint once, also when others are
	// deleted meanwhile.
	var got []string
	for target := endpointsPath + "?limit=5"; target != ""; {
		a := m.get(target).want(200, "")
		l := struct{ Data []wire.Endpoint }{}
		a.decode(&l)
		for _, e := range l.Data {
			got = append(got, e.ID)
		}
		if len(got) == 5 {
			m.send("DELETE", endpointsPath+"/"+got[4], nil).want(204, "")
		}
		target = strings.TrimSuffix(strings.TrimPrefix(a.Header.Get("Link"), "<"), `>; rel="next"`)
	}
	slices.Reverse(got)
	if len(got) != 16 || !slices.Equal(got[:14], ids) {
		t.Errorf("%v\nwant %v and two more", got, ids)
	}
	m.get(endpointsPath+"?limit=17").want(200, "")
	m.get(endpointsPath+"?status=enabled").want(400, domain.InvalidParameter)
	m.get(endpointsPath+"?limit=0").want(400, domain.InvalidParameter)
	m.get(endpointsPath+"?cursor=x").want(400, domain.InvalidCursor)
	s.audited()
}

// Concurrent changes: each counts, and none undoes another.
func TestEndpointChangesAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.hook(`{"url":"` + hookURL + `"}`).ID
	path := endpointsPath + "/" + id
	var all sync.WaitGroup
	secrets := make([]string, 8)
	for i := range secrets {
		all.Go(func() {
			var v wire.Endpoint
			a := m.send("POST", path+"/rotate-secret", nil)
			if a.Code == 200 {
				a.decode(&v)
			}
			secrets[i] = v.Secret
		})
	}
	for _, body := range []string{`{"url":"` + hookURL + `/2"}`, `{"kinds":["payment.paid"]}`, `{"description":"x"}`} {
		all.Go(func() { m.post(path, body) })
	}
	all.Wait()
	v := m.endpoint(id)
	if v.URL != hookURL+"/2" || len(v.Kinds) != 1 || v.Description == nil || *v.Description != "x" {
		t.Errorf("%+v", v)
	}
	slices.Sort(secrets)
	if secrets[0] == "" || len(slices.Compact(secrets)) != 8 {
		t.Errorf("%v", secrets)
	}
	s.audited()
}

func TestScopesOfEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.hook(`{"url":"` + hookURL + `"}`).ID
	payment := m.pay(`{"amount":1}`).object().ID
	with := func(scope string) shop {
		var k wire.Key
		s.adminDo("POST", "/admin/projects/"+m.project+"/keys", `{"scopes":["`+scope+`"]}`).want(201, "").decode(&k)
		return shop{s: s, project: m.project, secret: k.APIKey}
	}
	a, err := newAPI(s.cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	rows := webhooks.New(a.m).Routes("/v1")
	if len(rows) < 14 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if row.Scope == "" {
			continue // a page
		}
		want := projects.WebhooksWrite
		if row.Method == http.MethodGet {
			want = projects.Read
		}
		target := strings.NewReplacer("{endpoint_id}", id, "{event_id}", payment, "{id}", payment).Replace(row.Path)
		for _, scope := range projects.AllScopes() {
			got := with(string(scope)).send(row.Method, target, strings.NewReader("x"), header{"Content-Type", "text/plain"})
			if (got.Code == 403) != (scope != want) {
				t.Errorf("%s %s with %s: %d", row.Method, row.Path, scope, got.Code)
			}
			if got.Code == 403 && got.problem().RequiredScope != want {
				t.Errorf("%s", got.Body)
			}
			if row.Method == "DELETE" && got.Code == 204 {
				id = m.hook(`{"url":"` + hookURL + `"}`).ID
			}
		}
	}
}

// A key from before the scope webhooks:write still manages webhooks: payments:write
// was enough then.
func TestKeysOfBeforeKeepWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	weak := func(version string) shop {
		const secret = "sk_of_before_"
		stream := eventstore.ProjectStream(m.project)
		_, last, err := eventstore.Fold(t.Context(), s.cfg.Ledger, stream, projects.Project{ID: m.project})
		if err != nil {
			t.Fatal(err)
		}
		id := s.cfg.IDs.Next()
		e := projects.KeyIssued{KeyID: "key_" + id.String(), Hash: projects.HashKey(secret + version), Scopes: []projects.Scope{projects.PaymentsWrite}}
		body, err := s.cfg.Ledger.Codec.Encode(stream, last.Sequence+1, id, eventstore.Cause{}, e)
		if err != nil {
			t.Fatal(err)
		}
		body = []byte(strings.Replace(string(body), `"version":3`, `"version":`+version, 1))
		if _, err := eventstore.AppendOne(t.Context(), s.store, eventstore.Commit{ID: id, Record: eventstore.Record{Stream: stream, Expect: last.Position, Body: body}}); err != nil {
			t.Fatal(err)
		}
		return shop{s: s, project: m.project, secret: secret + version}
	}
	add := func(m shop) *answer {
		return m.send("POST", endpointsPath, strings.NewReader(`{"url":"`+hookURL+`"}`), header{"Content-Type", "application/json"})
	}
	add(weak("1")).want(201, "")
	if p := add(weak("2")).want(403, domain.ScopeMissing).problem(); p.RequiredScope != projects.WebhooksWrite {
		t.Errorf("%+v", p)
	}
	s.audited()
}

// When the sender fails after an endpoint was found, nothing is recorded and no
// secret is lost.
func TestSenderThatFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.hook(`{"url":"` + hookURL + `"}`).ID
	s.hooks.mu.Lock()
	s.hooks.fail = errors.New("projections.db: input/output error")
	s.hooks.mu.Unlock()
	before, _ := s.store.Last(t.Context())
	m.send("POST", endpointsPath+"/"+id+"/rotate-secret", nil).want(500, domain.InternalError)
	if after, _ := s.store.Last(t.Context()); after != before {
		t.Error("a secret was made that was in no answer")
	}
	a := m.get(endpointsPath+"/"+id).want(500, domain.InternalError)
	if strings.Contains(string(a.Body), "projections.db") || !strings.Contains(s.log.String(), "projections.db") {
		t.Errorf("%s", a.Body)
	}
	m.hook(`{"url":"` + hookURL + `"}`)
}

// While the health of an endpoint is not available, changes are answered and
// endpoints are listed.
func TestHealthThatIsUnavailable(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.hook(`{"url":"` + hookURL + `"}`).ID
	s.hooks.add(domain.DeliveryObject{EndpointID: id, State: domain.DeliveryGivenUp})
	s.hooks.mu.Lock()
	s.hooks.failing = map[string]domain.Instant{id: 1}
	s.hooks.fail = edge.Unavailable("1", "The server that sends the webhooks cannot be reached just now.")
	s.hooks.mu.Unlock()
	m.post(endpointsPath+"/"+id+"/disable", "{}").want(200, "")
	var page wire.Page[wire.Endpoint]
	m.get(endpointsPath).want(200, "").decode(&page)
	if len(page.Data) != 1 || page.Data[0].Enabled() || page.Data[0].Health != (domain.EndpointHealth{}) {
		t.Errorf("%+v", page.Data)
	}
	m.get(endpointsPath+"/"+id).want(503, domain.Unavailable)
	in := m.session()
	if all := must(in.api.Alerts(t.Context(), in.caller())); len(all) != 1 || all[0].Kind != wire.AlertDisabled {
		t.Errorf("%+v", all)
	}
}
