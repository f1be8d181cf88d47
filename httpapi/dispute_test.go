package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"
)

func TestDisputedPayments(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	id, other := m.paid(), m.paid()
	says := func(outcome domain.Outcome) {
		t.Helper()
		if _, err := s.decide(t.Context(), m.project, mustID(t, id), domain.ApplySignal{Reason: map[domain.Outcome]string{domain.OutcomeDisputed: "fraudulent"}[outcome], Signal: domain.Signal{
			Route: domain.SandboxRoute, Outcome: outcome, Reference: "dp_1", Amount: 150000, Currency: "RUB",
		}}); err != nil {
			t.Fatal(err)
		}
	}
	before := string(m.get("/v1/payments/"+id).want(200, "").Body)
	listed := func(query string) []string { return m.list("/v1/payments?" + query).ids() }
	if got := listed("disputed=true"); len(got) != 0 {
		t.Error(got)
	}
	says(domain.OutcomeDisputed)
	p := m.refund(id).want(409, domain.PaymentDisputedCode).problem()
	if p.PaymentStatus != "" || p.RefundID != "" || !strings.Contains(p.Detail, "disputes the payment") {
		t.Errorf("%+v", p)
	}
	if got := string(m.get("/v1/payments/"+id).want(200, "").Body); got != before {
		t.Errorf("the public object changed: %s", got)
	}
	for query, want := range map[string][]string{
		"disputed=true": {id}, "disputed=false": {other}, "disputed=true&status=paid": {id}, "disputed=true&status=failed": nil,
		"disputed=true&refund_status=none": {id}, "disputed=true&amount=1": nil,
	} {
		if got := listed(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, wrong := range []string{"disputed=", "disputed=yes", "disputed=1", "disputed=TRUE"} {
		if p := m.get("/v1/payments?"+wrong).want(400, domain.InvalidParameter).problem(); p.Parameter != "disputed" {
			t.Errorf("%s: %+v", wrong, p)
		}
	}
	columns, rows := m.csv("/v1/payments?disputed=true")
	if last := len(strings.Split(columns, ",")) - 1; !strings.HasSuffix(columns, ",dispute_status") || len(rows) != 1 || rows[0][last] != "open" {
		t.Errorf("%s %q", columns, rows)
	}
	path := "/account/payments/" + id
	b.open(path).want(200).has("Disputed", `data-hook="disputes"`, "somebody else", "dp_1", "cannot be refunded").lacks(path[9:] + `/refund"`)
	b.open("/account/payments?disputed=true").want(200).has(id, `data-dispute="open"`).lacks(other)
	b.open("/account/payments?disputed=maybe").want(400)
	b.open("/account/balance").want(200).has("Held for disputes")
	b.open("/account/").want(200).has(`data-hook="alert-disputed"`)

	says(domain.OutcomeDisputeWon)
	b.open(path).want(200).has("Dispute won", "The dispute was won", path[9:]+`/refund"`)
	b.open("/account/").want(200).lacks(`data-hook="alert-disputed"`)
	if got := listed("disputed=true"); !slices.Equal(got, []string{id}) {
		t.Error(got)
	}
	m.refund(id).want(201, "")

	// What a lost dispute took is not left after refunds.
	const left = `After refunds</span><strong class="value">₽`
	b.open("/account/").want(200).has(left + "3,000.00").lacks("lost in disputes")
	if _, err := s.decide(t.Context(), m.project, mustID(t, other), domain.ApplySignal{Signal: domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomeDisputeLost, Reference: "dp_2", Amount: 50000, Currency: "RUB",
	}}); err != nil {
		t.Fatal(err)
	}
	b.open("/account/").want(200).has(left+"2,500.00", "and after ₽500.00 lost in disputes")

	// What comes back of a lost dispute is left again.
	if _, err := s.decide(t.Context(), m.project, mustID(t, other), domain.ApplySignal{Signal: domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomeDisputeWon, Reference: "dp_2", Amount: 50000, Currency: "RUB",
	}}); err != nil {
		t.Fatal(err)
	}
	b.open("/account/").want(200).has(left+"3,000.00", "with ₽500.00 of refunds or disputes that came back")
	b.open("/account/?lang=ru").want(200).has("по проигранным спорам", "вернувшихся")
}

// What a provider says of a dispute is recorded by the operator's hand.
func TestDisputesByHand(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id, unpaid := m.paid(), m.pay(`{"amount":1}`).object().ID
	at := "/admin/payments/" + id + "/disputes"
	for sent, want := range map[string]domain.Code{
		`{}`: domain.InvalidParameter, `[]`: domain.InvalidParameter, `{"outcome":"paid","reference":"d"}`: domain.InvalidParameter,
		`{"outcome":"disputed"}`: domain.InvalidParameter, `{"outcome":"disputed","reference":"a\u0000"}`: domain.InvalidParameter,
		`{"outcome":"disputed","reference":"d","amount":"1500.01"}`:   domain.InvalidParameter,
		`{"outcome":"disputed","reference":"d","reason":"No reason"}`: domain.InvalidParameter,
		`{"outcome":"disputed","reference":"d","evidence":1}`:         domain.InvalidParameter,
	} {
		s.adminDo("POST", at, sent).want(400, want)
	}
	s.adminDo("POST", at, `{"outcome":"dispute_won","reference":"d"}`).want(404, domain.DisputeNotFound)
	s.adminDo("POST", "/admin/payments/"+unpaid+"/disputes", `{"outcome":"disputed","reference":"d"}`).want(409, domain.PaymentNotPaid)
	s.adminDo("POST", "/admin/payments/x/disputes", `{"outcome":"disputed","reference":"d"}`).want(404, domain.PaymentNotFound)

	open := `{"outcome":"disputed","reference":"d","amount":"500","reason":"duplicate","evidence_due_by":"2026-12-01T00:00:00Z"}`
	var d domain.Dispute
	s.adminDo("POST", at, open).want(201, "").decode(&d)
	if d.Status != domain.DisputeOpen || d.Amount != 50000 || d.Reason != "duplicate" || d.OpenedAt == 0 || d.EvidenceDueBy.String() != "2026-12-01T00:00:00.000Z" {
		t.Errorf("%+v", d)
	}
	s.adminDo("POST", at, open).want(200, "")
	s.adminDo("POST", at, `{"outcome":"dispute_lost","reference":"d"}`).want(201, "").decode(&d)
	if d.Status != domain.DisputeLost || d.Amount != 50000 {
		t.Errorf("%+v", d)
	}
	s.adminDo("POST", at, `{"outcome":"dispute_lost","reference":"d"}`).want(200, "")
	m.refund(id).want(409, domain.PaymentDisputedCode)
	var v wire.OperatorsPayment
	s.adminDo("GET", "/admin/payments/"+id, "").want(200, "").decode(&v)
	if len(v.Disputes) != 1 || v.Dispute != domain.DisputeLost {
		t.Errorf("%+v", v.Disputes)
	}

	// The provider pays the money back; what was won cannot be lost.
	s.adminDo("POST", at, `{"outcome":"dispute_won","reference":"d"}`).want(201, "").decode(&d)
	if d.Status != domain.DisputeWon || d.Amount != 50000 || d.Reason != "duplicate" {
		t.Errorf("%+v", d)
	}
	s.adminDo("POST", at, `{"outcome":"disputed","reference":"e"}`).want(201, "")
	s.adminDo("POST", at, `{"outcome":"dispute_won","reference":"e"}`).want(201, "")
	s.adminDo("POST", at, `{"outcome":"dispute_lost","reference":"e"}`).want(409, domain.FinalStatus)
	m.refund(id).want(201, "")
}

// TestRefundsThatComeBackAmongOthers: a refund's money comes back at the same time as another refund is
// asked for, the payment is disputed, and a report settles all of it. Whoever is first, at most one refund has
// the money, and the books account for each coin.
func TestRefundsThatComeBackAmongOthers(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	const payments = 12
	var lines []string
	var races []func() int
	line := func(kind, payment, gross string) {
		n := len(lines) + 1
		lines = append(lines, fmt.Sprintf(`{"number":%d,"kind":%q,"payment_id":%q,"reference":"r%d","gross":%q,"fee":"0.00","net":%q,"currency":"RUB","settled_on":"2026-11-20"}`, n, kind, payment, n, gross, gross))
	}
	for range payments {
		id := m.paid()
		first := m.refund(id).want(201, "").object().ID
		m.post("/v1/sandbox/refunds/"+first, `{"outcome":"succeeded"}`).want(200, "")
		line("payment", id, "1500.00")
		line("refund", id, "-1500.00")
		line("refund", id, "1500.00")
		says := func(outcome domain.Outcome, reference string, refund *domain.ID) func() int {
			return func() int {
				_, err := s.decide(t.Context(), m.project, mustID(t, id), domain.ApplySignal{Signal: domain.Signal{
					Route: domain.SandboxRoute, Outcome: outcome, Reference: reference, RefundID: refund, Amount: 150000, Currency: "RUB",
				}})
				if err != nil {
					t.Error(err)
				}
				return 0
			}
		}
		of := mustID(t, first)
		races = append(races, says(domain.OutcomeReturned, "back", &of), says(domain.OutcomeDisputed, "dp", nil), func() int { return m.refund(id).Code }, func() int { return m.refund(id).Code })
	}
	s.adminDo("POST", "/admin/settlements", fmt.Sprintf(`{"route":"sandbox","report":"r","sha256":%q,"summary":{"lines":%d,"from":"2026-11-20","to":"2026-11-20",`+
		`"totals":[{"currency":"RUB","lines":%d,"gross":"%d.00","fee":"0.00","net":"%d.00"}]}}`, strings.Repeat("01", 32), len(lines), len(lines), payments*1500, payments*1500)).want(201, "")
	races = append(races, func() int { return s.adminDo("POST", "/admin/settlements/sandbox:r/lines", batchOf(lines...)).Code })
	got := make([]int, len(races))
	var wait sync.WaitGroup
	for i, race := range races {
		wait.Go(func() { got[i] = race() })
	}
	wait.Wait()
	again := 0
	for i := range payments {
		one, other := got[4*i+2], got[4*i+3]
		if one == 201 || other == 201 {
			again++
		}
		if one == other && one != 409 || one != 201 && one != 409 || other != 201 && other != 409 {
			t.Errorf("payment %d: refunds were answered with %d and %d", i, one, other)
		}
	}
	if got[len(got)-1] != 200 {
		t.Errorf("the lines were answered with %d", got[len(got)-1])
	}
	var books wire.Books
	m.get("/v1/balance").want(200, "").decode(&books)
	for account, want := range map[domain.Account]domain.Amount{
		domain.AcquirerReceivable("sandbox"): 0, domain.DisputesHeld: -payments * 150000, domain.RefundsInFlight: -domain.Amount(again) * 150000,
		domain.MerchantPayable: domain.Amount(again) * 150000, domain.SettlementTransit("sandbox"): payments * 150000, domain.SettlementSuspense: 0,
	} {
		if got := books.Balances[0].Of(account); got != domain.SumOf(want) {
			t.Errorf("%s: %s, want %s (%d refunded again)", account, got, want, again)
		}
	}
}
