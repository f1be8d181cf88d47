package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// late makes a payment that failed and was paid afterwards.
func (m shop) late() string {
	m.s.t.Helper()
	id := m.pay(`{"amount":"10.00"}`).want(201, "").object().ID
	m.route(id)
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"failed"}`).want(200, "")
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(409, domain.FinalStatus)
	return id
}

// books are the balances of an answer, as "currency account balance; …".
func (a *answer) books() string {
	a.t.Helper()
	var v struct {
		Position uint64
		Balances []struct {
			Currency string
			Accounts []struct{ Account, Balance string }
			Total    string
		}
	}
	a.want(200, "").decode(&v)
	var all []string
	for _, c := range v.Balances {
		for _, b := range c.Accounts {
			all = append(all, c.Currency+" "+b.Account+" "+b.Balance)
		}
		if c.Total != "0.00" {
			a.t.Errorf("%s add up to %s", c.Currency, c.Total)
		}
	}
	return strings.Join(all, "; ")
}

type postings struct {
	Data []struct {
		Position  uint64
		Time      string
		EventID   string `json:"event_id"`
		EventType string `json:"event_type"`
		PaymentID string `json:"payment_id"`
		RefundID  string `json:"refund_id"`
		ProjectID string `json:"project_id"`
		Account   string
		Currency  string
		Amount    string
		Balance   string
		Reason    string
		Route     string
		Reference string
	}
	NextCursor *string `json:"next_cursor"`
}

// lines reads every page of a statement, each line as "type account amount balance".
func (s *server) lines(get func(string) *answer, target string) []string {
	s.t.Helper()
	var all []string
	for next := target; next != ""; {
		var p postings
		get(next).want(200, "").decode(&p)
		for _, l := range p.Data {
			all = append(all, l.EventType+" "+l.Account+" "+l.Amount+" "+l.Balance)
		}
		next = ""
		if p.NextCursor != nil {
			next = strings.SplitN(target, "?", 2)[0] + "?limit=1&cursor=" + *p.NextCursor
		}
	}
	return all
}

func TestBalance(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	if got := m.get("/v1/balance").books(); got != "" {
		t.Errorf("nothing was paid: %s", got)
	}
	if got := string(m.get("/v1/balance?as_of=0").want(200, "").Body); got != `{"position":0,"time":null,"balances":[]}` {
		t.Errorf("%s", got)
	}
	moments := []string{}
	mark := func(want string) {
		t.Helper()
		if got := m.get("/v1/balance").books(); got != want {
			t.Fatalf("balance %s, want %s", got, want)
		}
		var v wire.Books
		m.get("/v1/balance").decode(&v)
		moments = append(moments, merchant.PositionText(eventstore.Position(v.Position)), want, v.Time.String(), want)
		s.clock.advance(time.Minute)
	}
	mark("")
	p := m.paid()
	mark("RUB acquirer_receivable:sandbox 1500.00; RUB merchant_payable -1500.00")
	r := m.refund(p).want(201, "").object().ID
	mark("RUB acquirer_receivable:sandbox 1500.00; RUB merchant_payable 0.00; RUB refunds_in_flight -1500.00")
	m.post("/v1/sandbox/refunds/"+r, `{"outcome":"failed"}`).want(200, "")
	mark("RUB acquirer_receivable:sandbox 1500.00; RUB merchant_payable -1500.00; RUB refunds_in_flight 0.00")
	r = m.refund(p).want(201, "").object().ID
	m.post("/v1/sandbox/refunds/"+r, `{"outcome":"succeeded"}`).want(200, "")
	mark("RUB acquirer_receivable:sandbox 0.00; RUB merchant_payable 0.00; RUB refunds_in_flight 0.00")
	m.late()
	mark("RUB acquirer_receivable:sandbox 10.00; RUB merchant_payable 0.00; RUB refunds_in_flight 0.00; RUB suspense -10.00")
	for i := 0; i < len(moments); i += 2 {
		if got := m.get("/v1/balance?as_of=" + moments[i]).books(); got != moments[i+1] {
			t.Errorf("as of %s: %s, want %s", moments[i], got, moments[i+1])
		}
	}
	if got := m.get("/v1/balance?as_of=2099-01-01T03:00:00%2B03:00").books(); got != moments[len(moments)-1] {
		t.Errorf("in the future: %s", got)
	}
	if got := other.get("/v1/balance").books(); got != "" {
		t.Errorf("another's balance: %s", got)
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	other.paid()
	begin := s.clock.Now()
	s.clock.advance(time.Second)
	p := m.paid()
	s.clock.advance(time.Second)
	middle := s.clock.Now()
	r := m.refund(p).want(201, "").object().ID
	m.post("/v1/sandbox/refunds/"+r, `{"outcome":"succeeded"}`).want(200, "")
	s.clock.advance(time.Second)
	m.late()
	paid := []string{"payment.paid acquirer_receivable:sandbox 1500.00 1500.00", "payment.paid merchant_payable -1500.00 -1500.00"}
	refunded := []string{
		"refund.created merchant_payable 1500.00 0.00", "refund.created refunds_in_flight -1500.00 -1500.00",
		"refund.succeeded acquirer_receivable:sandbox -1500.00 0.00", "refund.succeeded refunds_in_flight 1500.00 0.00",
	}
	late := []string{"payment.late_funds acquirer_receivable:sandbox 10.00 10.00", "payment.late_funds suspense -10.00 -10.00"}
	at := func(t time.Time) string { return url.QueryEscape(domain.InstantOf(t).String()) }
	join := func(parts ...[]string) (all []string) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for query, want := range map[string][]string{
		"":                                       join(paid, refunded, late),
		"account=merchant_payable":               {paid[1], refunded[0]},
		"account=suspense":                       late[1:],
		"account=acquirer_receivable:none":       nil,
		"account=refunds_in_flight&currency=RUB": {refunded[1], refunded[3]},
		"currency=USD":                           nil,
		"to=" + at(middle):                       paid,
		"from=" + at(middle):                     join(refunded, late),
		"from=" + at(begin) + "&to=" + at(begin): nil,
		"account=suspense&to=" + at(middle):      nil,
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=3"} {
			got := s.lines(m.get, "/v1/balance/statement?"+query+limit)
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s%s:\n got %q\nwant %q", query, limit, got, want)
			}
			newest := slices.Clone(want)
			slices.Reverse(newest)
			if got := s.lines(m.get, "/v1/balance/statement?order=newest_first&"+query+limit); !slices.Equal(got, newest) {
				t.Errorf("%s%s, newest first:\n got %q\nwant %q", query, limit, got, newest)
			}
		}
	}
	var one postings
	m.get("/v1/balance/statement?account=refunds_in_flight&limit=1").want(200, "").decode(&one)
	if l := one.Data[0]; l.PaymentID != p || l.RefundID != r || l.Position == 0 || l.EventID == "" {
		t.Errorf("%+v", l)
	}
	m.get("/v1/balance/statement?account=suspense&cursor="+*one.NextCursor).want(400, domain.InvalidParameter)
	other.get("/v1/balance/statement?cursor="+*one.NextCursor).want(400, domain.InvalidCursor)
}

func TestBalanceRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.paid()
	for query, want := range map[string]string{
		"as_of=": "as_of", "as_of=-1": "as_of", "as_of=01": "as_of", "as_of=1.0": "as_of", "as_of=now": "as_of", "as_of=99999": "as_of",
		"as_of=99999999999999999999": "as_of", "as_of=2026-11-20": "as_of", "as_of=2026-11-20T10:00:00": "as_of", "as_of=1969-12-31T00:00:00Z": "as_of",
		"as_of=1&as_of=2": "as_of", "project=x": "project", "limit=1": "limit",
	} {
		if p := m.get("/v1/balance?"+query).want(400, domain.InvalidParameter).problem(); p.Parameter != want {
			t.Errorf("%s: parameter %q", query, p.Parameter)
		}
	}
	for from, want := range map[string]int{"1970-01-01T00:00:00Z": 2, "2030-01-01T00:00:00Z": 0} {
		var page struct{ Data []wire.Posting }
		if m.get("/v1/balance/statement?from="+from).want(200, "").decode(&page); len(page.Data) != want {
			t.Errorf("from %s: %+v", from, page.Data)
		}
	}
	if p := m.get("/v1/balance?as_of=99999").problem(); !strings.Contains(p.Detail, "The log ends at position ") {
		t.Errorf("%s", p.Detail)
	}
	for query, want := range map[string]string{
		"account=": "account", "account=cash": "account", "account=acquirer_receivable": "account", "account=acquirer_receivable:A": "account",
		"currency=": "currency", "from=x": "from", "to=x": "to", "project=x": "project", "limit=0": "limit", "as_of=1": "as_of",
		"order=": "order", "order=newest": "order",
	} {
		if p := m.get("/v1/balance/statement?"+query).want(400, domain.InvalidParameter).problem(); p.Parameter != want {
			t.Errorf("%s: parameter %q", query, p.Parameter)
		}
	}
	for _, place := range []string{"1", "x RUB suspense", "1 RUB", "-1 RUB suspense", "1 %zz suspense"} {
		forged := edge.Cursor{Operation: "listPostings", After: place, Filters: edge.Query{}}.Encode(m.project)
		m.get("/v1/balance/statement?cursor="+forged).want(400, domain.InvalidCursor)
	}
	writer := s.merchant("", "payments:write", "refunds:write", "audit")
	for _, target := range []string{"/v1/balance", "/v1/balance/statement"} {
		writer.get(target).want(403, domain.ScopeMissing)
		s.send("GET", target, nil).want(401, domain.Unauthorized)
	}
}

func TestAdminBalance(t *testing.T) {
	t.Parallel()
	s := start(t)
	get := func(target string) *answer { t.Helper(); return s.adminDo("GET", target, "") }
	a, b := s.merchant(""), s.merchant("")
	a.paid()
	b.paid()
	late := b.late()
	if got := get("/admin/balance").books(); got != "RUB acquirer_receivable:sandbox 3010.00; RUB merchant_payable -3000.00; RUB suspense -10.00" {
		t.Errorf("all: %s", got)
	}
	if got := get("/admin/balance?project=" + a.project).books(); got != "RUB acquirer_receivable:sandbox 1500.00; RUB merchant_payable -1500.00" {
		t.Errorf("one: %s", got)
	}
	if got := get("/admin/balance?as_of=0").books(); got != "" {
		t.Errorf("before everything: %s", got)
	}
	var v struct {
		Projects []struct {
			ProjectID string `json:"project_id"`
			Balances  []struct{ Total string }
		}
	}
	get("/admin/balance").decode(&v)
	if len(v.Projects) != 2 || v.Projects[0].ProjectID >= v.Projects[1].ProjectID || len(v.Projects[1].Balances) != 1 {
		t.Errorf("%+v", v)
	}
	if got := s.lines(get, "/admin/balance/statement?account=merchant_payable&limit=1"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := s.lines(get, "/admin/balance/statement?project="+b.project); len(got) != 4 {
		t.Errorf("%q", got)
	}
	var p postings
	get("/admin/balance/late-funds").want(200, "").decode(&p)
	if len(p.Data) != 1 {
		t.Fatalf("%+v", p)
	}
	if l := p.Data[0]; l.PaymentID != late || l.ProjectID != b.project || l.Reason != domain.ReasonAfterFailed ||
		l.Route != "sandbox" || l.Reference == "" || l.Amount != "-10.00" || l.Account != "suspense" {
		t.Errorf("%+v", l)
	}
	for target, want := range map[string]domain.Code{
		"/admin/balance?project=prj_none":            domain.ProjectNotFound,
		"/admin/balance/statement?project=prj_none":  domain.ProjectNotFound,
		"/admin/balance/late-funds?project=":         domain.ProjectNotFound,
		"/admin/balance/late-funds?account=suspense": domain.InvalidParameter,
		"/admin/balance?as_of=99999":                 domain.InvalidParameter,
		"/admin/balance/statement?limit=0":           domain.InvalidParameter,
	} {
		if got := get(target); got.problem().Code != want {
			t.Errorf("%s: %d %s", target, got.Code, got.Body)
		}
	}
}

func TestSuspense(t *testing.T) {
	t.Parallel()
	s := start(t)
	get := func(target string) *answer { t.Helper(); return s.adminDo("GET", target, "") }
	list := func(target string) (v struct {
		Data []struct {
			PaymentID        string `json:"payment_id"`
			Reference, State string
		}
		Next string `json:"next_cursor"`
	},
	) {
		t.Helper()
		get(target).want(200, "").decode(&v)
		return v
	}
	a, b := s.merchant(""), s.merchant("")
	a.paid()
	late := []string{a.late(), b.late(), b.late()}
	if v := list("/admin/suspense?project=" + b.project); len(v.Data) != 2 || v.Next != "" {
		t.Errorf("one project: %+v", v)
	}
	first := list("/admin/suspense?limit=2")
	if len(first.Data) != 2 || first.Next == "" {
		t.Fatalf("%+v", first)
	}
	if v := list("/admin/suspense?cursor=" + first.Next); len(v.Data) != 1 || v.Next != "" {
		t.Errorf("the second page: %+v", v)
	}
	references := make(map[string]string)
	for _, row := range list("/admin/suspense").Data {
		references[row.PaymentID] = row.Reference
	}
	ref := references[late[0]]
	back := func(payment, body string) *answer {
		return s.adminDo("POST", "/admin/payments/"+payment+"/returns", body)
	}
	made := back(late[0], `{"reference":"`+ref+`"}`).want(201, "")
	if again := back(late[0], `{"reference":"`+ref+`"}`).want(200, ""); string(again.Body) != string(made.Body) {
		t.Errorf("%s, then %s", made.Body, again.Body)
	}
	back(late[1], `{"reference":"`+ref+`"}`).want(404, domain.LateFundsNotFound)
	back("nothing", `{"reference":"`+ref+`"}`).want(404, domain.PaymentNotFound)
	back(late[1], `{}`).want(400, domain.InvalidParameter)
	if v := list("/admin/suspense"); len(v.Data) != 2 {
		t.Errorf("after the return: %+v", v)
	}
	id, _ := domain.ParseID(late[1])
	other := references[late[1]]
	if _, err := s.decide(t.Context(), b.project, id, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
		Reference: other, RefundReference: "H", Amount: 400, Currency: "RUB",
	}}); err != nil {
		t.Fatal(err)
	}
	back(late[1], `{"reference":"`+other+`"}`).want(409, domain.RefundedAtProvider)
	if v := list("/admin/suspense?project=" + b.project); len(v.Data) != 2 || v.Data[0].State == v.Data[1].State {
		t.Errorf("a refund of a part by another hand: %+v", v)
	}
	settle := func(payment, body string) *answer {
		return s.adminDo("POST", "/admin/payments/"+payment+"/settlements", body)
	}
	wish := `{"reference":"` + other + `","against":"merchant_payable","reason":"the merchant ships"}`
	settled := settle(late[1], wish).want(201, "")
	if again := settle(late[1], wish).want(200, ""); string(again.Body) != string(settled.Body) || !strings.Contains(string(settled.Body), `"amount":"6.00"`) {
		t.Errorf("%s, then %s", settled.Body, again.Body)
	}
	for body, want := range map[string]domain.Code{
		`{"reference":"` + other + `","against":"operator","reason":"x"}`: domain.LateFundsNotFound,
		`{"reference":"` + other + `","against":"suspense","reason":"x"}`: domain.InvalidParameter,
		`{"reference":"` + other + `","against":"operator"}`:              domain.InvalidParameter,
		`{"against":"operator","reason":"x"}`:                             domain.InvalidParameter,
		`{"reference":"` + other + `","amount":"1.00"}`:                   domain.InvalidParameter,
	} {
		if got := settle(late[1], body); got.problem().Code != want {
			t.Errorf("%s: %d %s", body, got.Code, got.Body)
		}
	}
	if v := list("/admin/suspense?project=" + b.project); len(v.Data) != 1 {
		t.Errorf("after it was settled: %+v", v)
	}
	get("/admin/suspense?project=prj_none").want(404, domain.ProjectNotFound)
	get("/admin/suspense?cursor=x").want(400, domain.InvalidCursor)
	get("/admin/payments").want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payments/"+late[0]+"/ask", "").want(409, domain.NoConnector)
}

// TestManyLateFunds: late funds beyond those that the payment lists are listed and
// returned too.
func TestManyLateFunds(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	payment := m.paid()
	id, _ := domain.ParseID(payment)
	const all = 150
	for n := range all {
		if _, err := s.decide(t.Context(), m.project, id, domain.ApplySignal{Signal: domain.Signal{
			Route: "sandbox", Outcome: domain.OutcomePaid, Reference: fmt.Sprint("again-", n), Amount: 1000, Currency: "RUB",
		}}); err != nil {
			t.Fatal(err)
		}
	}
	var v struct {
		Data []struct{ Reference, State, Since string }
	}
	s.adminDo("GET", "/admin/suspense", "").want(200, "").decode(&v)
	if len(v.Data) != all || v.Data[all-1].Reference != fmt.Sprint("again-", all-1) || v.Data[all-1].Since == "" {
		t.Fatalf("%d are listed: %+v", len(v.Data), v.Data)
	}
	last := `{"reference":"` + v.Data[all-1].Reference + `"}`
	made := s.adminDo("POST", "/admin/payments/"+payment+"/returns", last).want(201, "")
	if again := s.adminDo("POST", "/admin/payments/"+payment+"/returns", last).want(200, ""); string(again.Body) != string(made.Body) {
		t.Errorf("%s, then %s", made.Body, again.Body)
	}
	s.adminDo("POST", "/admin/payments/"+payment+"/returns", `{"reference":"again-150"}`).want(404, domain.LateFundsNotFound)
	s.adminDo("GET", "/admin/suspense", "").want(200, "").decode(&v)
	if len(v.Data) != all-1 {
		t.Errorf("%d are listed after one was returned", len(v.Data))
	}
}

// Late funds beyond those that a payment lists are settled by the reference that the list of suspense shows.
func TestUnlistedLateFundsAreSettled(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":"10.00"}`).want(201, "").object().ID
	m.route(id)
	for n := range domain.MaxLateFunds + 1 {
		if _, err := s.decide(t.Context(), m.project, mustID(t, id), domain.ApplySignal{Signal: domain.Signal{
			Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: fmt.Sprint("late", n), Amount: 7, Currency: "RUB", StartedAt: domain.InstantOf(s.clock.Now()),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	last := fmt.Sprintf(`"reference":"late%d"`, domain.MaxLateFunds)
	listed := func() bool {
		return strings.Contains(string(s.adminDo("GET", "/admin/suspense", "").want(200, "").Body), last)
	}
	if !listed() {
		t.Error("it is not listed")
	}
	settle := `{` + last + `,"against":"operator","reason":"x"}`
	s.adminDo("POST", "/admin/payments/"+id+"/settlements", settle).want(201, "")
	s.adminDo("POST", "/admin/payments/"+id+"/settlements", settle).want(200, "")
	s.adminDo("POST", "/admin/payments/"+id+"/returns", `{`+last+`}`).want(404, domain.LateFundsNotFound)
	if listed() {
		t.Error("it is still listed")
	}
	if got := m.get("/v1/balance").books(); got != "RUB acquirer_receivable:sandbox 7.07; RUB operator -0.07; RUB suspense -7.00" {
		t.Error(got)
	}
}
