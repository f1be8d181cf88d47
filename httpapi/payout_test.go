package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/wire"
)

// TestPayoutsAtTheSameTime: all that is owed is paid out once, however many ask at the same time.
func TestPayoutsAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.paid()
	var mu sync.Mutex
	got := make(map[int]int)
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			a := s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", fmt.Sprintf(`{"amount":"900.00","currency":"RUB","reference":"pp-%d"}`, n))
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wait.Wait()
	if got[201] != 1 || got[400] != 7 {
		t.Errorf("%v", got)
	}
}

// TestPayoutBehindLaterIDs: a payout is undone by its id although events whose ids were given later were
// committed before it.
func TestPayoutBehindLaterIDs(t *testing.T) {
	t.Parallel()
	s := start(t)
	event := s.cfg.IDs.Next()
	s.clock.advance(time.Second)
	s.merchant("").paid()
	p := settlement.Payout{Route: domain.SandboxRoute, Report: "r", Amount: 700, Currency: "RUB", Reference: "bank-1"}
	if _, err := eventstore.Execute(t.Context(), s.cfg.Ledger, eventstore.ArrivedStream(p.Route), settlement.Payouts{},
		settlement.PayoutCommand(settlement.RecordPayout{Payout: p}), eventstore.Order{EventID: event}); err != nil {
		t.Fatal(err)
	}
	s.adminDo("POST", "/admin/payouts/"+s.cfg.IDs.Next().String()+"/undo", `{"reason":"x"}`).want(404, domain.PayoutNotFound)
	s.adminDo("POST", "/admin/payouts/"+event.String()+"/undo", `{"reason":"x"}`).want(200, "")
}

// TestPayoutsOfTheMerchant: list, pages and CSV.
func TestPayoutsOfTheMerchant(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	m.paid()
	for n, reference := range []string{"pp-1", "=pp-2", "pp-3"} {
		s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", fmt.Sprintf(`{"amount":"%d.00","reference":%q}`, n+1, reference)).want(201, "")
	}
	s.adminDo("POST", "/admin/payouts", `{"route":"sandbox","report":"r","amount":"7","reference":"bank-1"}`).want(201, "")
	s.adminDo("POST", "/admin/payouts", `{"amount":"7","reference":"bank-1"}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts", `{"amount":7.001}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", `{"route":"sandbox","report":"r","amount":"7","reference":"pp-4"}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts", `{"route":"sandbox","report":"r","amount":"8","reference":"bank-1"}`).want(409, domain.PayoutDiffers)
	s.adminDo("POST", "/admin/projects/prj_1/payouts", `{"amount":"7","reference":"pp-4"}`).want(404, domain.ProjectNotFound)

	var references []string
	for cursor := ""; ; {
		var page wire.Page[wire.Payout]
		m.get("/v1/payouts?limit=2"+cursor).want(200, "").decode(&page)
		for _, p := range page.Data {
			references = append(references, p.Reference+" "+p.Amount.String())
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if want := []string{"pp-3 3.00", "=pp-2 2.00", "pp-1 1.00"}; !slices.Equal(references, want) {
		t.Errorf("%q, want %q", references, want)
	}
	if got := string(other.get("/v1/payouts").want(200, "").Body); !strings.Contains(got, `"data":[]`) {
		t.Errorf("another merchant sees %s", got)
	}
	columns, rows := m.csv("/v1/payouts")
	if columns != "id,amount,currency,reference,created_at,undone_at,undone_reason" || len(rows) != 3 || rows[1][3] != "'=pp-2" {
		t.Errorf("%s %q", columns, rows)
	}
	columns, rows = m.csv("/v1/balance/statement?account=bank")
	if !strings.HasSuffix(columns, ",description,reference") || len(rows) != 3 || !strings.HasSuffix(strings.Join(rows[1], ","), ",,'=pp-2") {
		t.Errorf("%s %q", columns, rows)
	}

	var page wire.Page[wire.OperatorsPayout]
	s.adminDo("GET", "/admin/payouts?project="+m.project, "").want(200, "").decode(&page)
	for range 2 {
		s.adminDo("POST", "/admin/payouts/"+page.Data[1].ID.String()+"/undo", `{"reason":"=wrong"}`).want(200, "")
	}
	s.adminDo("POST", "/admin/payouts/"+page.Data[1].ID.String()+"/undo", `{}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts/"+page.Data[1].ID.String()+"/undo", `{"why":"x"}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts/"+m.project+"/undo", `{"reason":"x"}`).want(404, domain.PayoutNotFound)
	var seen wire.Page[wire.Payout]
	m.get("/v1/payouts").want(200, "").decode(&seen)
	if len(seen.Data) != 3 || seen.Data[1].Undone == nil || seen.Data[1].Undone.Reason != "=wrong" || seen.Data[1].Undone.By != "" || seen.Data[0].Undone != nil {
		t.Errorf("%+v", seen)
	}
	if _, rows := m.csv("/v1/payouts"); len(rows) != 3 || rows[1][5] == "" || rows[1][6] != "'=wrong" || rows[0][5] != "" {
		t.Errorf("%q", rows)
	}
	undone := page.Data[1].ID
	s.adminDo("GET", "/admin/payouts?project="+m.project, "").want(200, "").decode(&page)
	if len(page.Data) != 3 || page.Data[1].ID != undone || page.Data[1].Undone == nil || !strings.HasPrefix(page.Data[1].Undone.By, "operator:") {
		t.Errorf("%+v", page)
	}
	for _, wrong := range []string{"status=paid", "account=bank", "from=monday"} {
		m.get("/v1/payouts?"+wrong).want(400, domain.InvalidParameter)
	}
}

// TestPayoutsInTheAccount: what is owed, on its way and paid out, in a merchant's words.
func TestPayoutsInTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	id := m.paid()
	b.open("/account/balance?lang=en").want(200).lacks("Paid out to you", "On its way")
	s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", `{"amount":"1000.00","reference":"pp-<1>"}`).want(201, "")
	b.open("/account/balance?lang=en").want(200).has("Paid out to you", "₽1,000.00", "₽500.00", "Payout to you", "pp-&lt;1&gt;", "payouts.csv").lacks("On its way")
	b.open("/account/balance?lang=en&account=bank").want(200).has("Payout to you", "₽1,000.00")
	if got := b.open("/account/payouts.csv").want(200).Text; !strings.Contains(got, "id,amount,currency,reference,created_at") || !strings.Contains(got, ",1000.00,RUB,pp-<1>,") {
		t.Errorf("%s", got)
	}
	b.open("/account/balance?lang=ru").want(200).has("Выплачено вам", "Выплата вам")
	s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", `{"amount":"30.00","reference":"pp-2"}`).want(201, "")
	var page wire.Page[wire.OperatorsPayout]
	s.adminDo("GET", "/admin/payouts", "").want(200, "").decode(&page)
	s.adminDo("POST", "/admin/payouts/"+page.Data[1].ID.String()+"/undo", `{"reason":"x"}`).want(200, "")
	b.open("/account/balance?lang=en").want(200).has("Payout undone", "&#43;₽30.00", "₽500.00")
	b.open("/account/balance?lang=ru").want(200).has("Выплата отменена")
	// What a provider has settled of the payment's 1500.00, less a fee of 45.00.
	settled := settlement.Line{
		Number: 1, Kind: settlement.KindPayment, PaymentID: id, Reference: "x", Gross: domain.SumOf(150000), Fee: domain.SumOf(4500), Net: domain.SumOf(145500),
		Currency: "RUB", SettledOn: "2026-11-20",
	}
	lines := settlement.RecordLines{FeesPaidBy: settlement.ByOperator, Lines: []settlement.Text{settlement.Entry{Line: settled, Result: settlement.Settled}.Text()}}
	if _, err := eventstore.Execute(t.Context(), s.cfg.Ledger, eventstore.BookStream(m.project, "sandbox:r"), settlement.Book{Project: m.project, Route: "sandbox", Report: "r"},
		settlement.BookCommand(lines), eventstore.Order{EventID: s.cfg.IDs.Next()}); err != nil {
		t.Fatal(err)
	}
	b.open("/account/balance?lang=en").want(200).has("On its way to you", "₽455.00")
	b.open("/account/balance?lang=ru").want(200).has("На пути к вам")
}

// TestFeesInTheAccount: where the merchant bears the fees of providers, its balance has those of the
// period, and the statement those of each report.
func TestFeesInTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	book := settlement.Book{Project: m.project, Route: "sandbox", Report: "r"}
	does := func(c settlement.BookCommand) {
		t.Helper()
		if _, err := eventstore.Execute(t.Context(), s.cfg.Ledger, eventstore.BookStream(m.project, "sandbox:r"), book, c, eventstore.Order{EventID: s.cfg.IDs.Next()}); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(number int, fee domain.Amount, r settlement.Result) settlement.Text {
		return settlement.Entry{Line: settlement.Line{
			Number: number, Kind: settlement.KindPayment, PaymentID: m.paid(), Reference: "x", Gross: domain.SumOf(150000), Fee: domain.SumOf(fee), Net: domain.SumOf(150000 - fee),
			Currency: "RUB", SettledOn: "2026-11-20",
		}, Result: r}.Text()
	}
	const fees = `data-hook="fees"`
	lines := settlement.RecordLines{FeesPaidBy: settlement.ByOperator, Lines: []settlement.Text{entry(1, 4500, settlement.Settled)}}
	does(lines)
	b.open("/account/balance?lang=en").want(200).lacks(fees)
	lines = settlement.RecordLines{FeesPaidBy: settlement.ByMerchant, Lines: []settlement.Text{entry(2, 3001, settlement.Settled), entry(3, 2000, settlement.AmountDiffers)}}
	does(lines)
	b.open("/account/balance?lang=en").want(200).has(fees, "Providers&#39; fees", "₽30.01", "−₽30.01", "sandbox:r", "in all").lacks("₽50.01")
	other := m.paid()
	does(settlement.ResolveLine{Number: 3, To: settlement.ToPayment, Payment: other, Project: m.project, Settles: domain.SumOf(150000), Currency: "RUB", FeesPaidBy: settlement.ByMerchant, Reason: "x"})
	b.open("/account/balance?lang=en&from=2026-11-20&to=2026-11-20").want(200).has(fees, "₽50.01", "−₽20.00", "of the statement below")
	b.open("/account/balance?lang=en&from=2026-11-21").want(200).lacks(fees)
	b.open("/account/balance?lang=en&account=all").want(200).has(fees, "Providers&#39; fees", "Settled by the provider")
	b.open("/account/balance?lang=ru").want(200).has("Комиссии провайдеров", "50,01")
	euros, _ := entry(5, 700, settlement.Settled).Entry()
	euros.Currency = "EUR"
	does(settlement.RecordLines{FeesPaidBy: settlement.ByMerchant, Lines: []settlement.Text{entry(4, 150000, settlement.Settled)}}) // nothing is paid out
	does(settlement.RecordLines{FeesPaidBy: settlement.ByMerchant, Lines: []settlement.Text{euros.Text()}})
	b.open("/account/balance?lang=en").want(200).has(fees, "₽1,550.01", `fees</span><strong class="value">€7.00`).lacks(`On its way to you</span><strong class="value">−€7.00`) // nothing is owed in euros
	b.open("/account/balance?lang=en&currency=RUB").want(200).has(fees, "₽1,550.01").lacks(`fees</span><strong class="value">€7.00`)
	if got := string(m.get("/v1/balance/statement?account=merchant_payable").want(200, "").Body); !strings.Contains(got, `"amount":"30.01","balance":"-4469.99","reference":"sandbox:r"`) {
		t.Errorf("%s", got)
	}
}
