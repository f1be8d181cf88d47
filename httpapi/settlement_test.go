package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/wire"
)

func opened(report, sum string, lines int) string {
	gross := domain.SumOf(domain.Amount(150000 * lines))
	return fmt.Sprintf(`{"route":"sandbox","report":%q,"sha256":%q,"summary":{"lines":%d,"from":"2026-11-20","to":"2026-11-20",`+
		`"totals":[{"currency":"RUB","lines":%d,"gross":"%s","fee":"0.00","net":"%s"}]}}`, report, strings.Repeat(sum, 32), lines, lines, gross, gross)
}

func lineOf(number int, payment string) string {
	return fmt.Sprintf(`{"number":%d,"kind":"payment","payment_id":%q,"reference":"r%d","gross":"1500.00","fee":"0.00","net":"1500.00","currency":"RUB","settled_on":"2026-11-20"}`,
		number, payment, number)
}

func batchOf(lines ...string) string { return `{"lines":[` + strings.Join(lines, ",") + `]}` }

// An import that was interrupted goes on, whatever of it is recorded, and each line is booked once.
func TestSettlementGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, other := s.merchant(""), s.merchant("")
	ids := []string{one.paid(), other.paid(), one.paid()}
	var all []string
	for i, id := range append(ids, "", "not an id") {
		all = append(all, lineOf(i+1, id))
	}
	const report = "/admin/settlements/sandbox:r"
	s.adminDo("POST", "/admin/settlements", opened("r", "01", 5)).want(201, "")
	s.adminDo("POST", report+"/lines", batchOf(all[0])).want(200, "")
	s.adminDo("POST", "/admin/settlements", opened("r", "01", 5)).want(200, "")
	withFee := strings.ReplaceAll(opened("r", "01", 5), `"fee":"0.00","net":"7500.00"`, `"fee":"1.00","net":"7499.00"`) // the same file by another profile
	s.adminDo("POST", "/admin/settlements", withFee).want(409, domain.SettlementDiffers)
	s.adminDo("POST", "/admin/settlements", opened("other", "02", 5)).want(409, domain.SettlementOpen)
	s.adminDo("POST", report+"/close", "").want(409, domain.SettlementDiffers)
	s.adminDo("POST", report+"/lines", batchOf(all[2])).want(400, domain.InvalidParameter)        // 2 is not recorded
	s.adminDo("POST", report+"/lines", batchOf(all...)).want(200, "")                             // 1 is
	s.adminDo("POST", report+"/lines", batchOf(all[1:4]...)).want(200, "")                        // all are
	s.adminDo("POST", report+"/lines", batchOf(lineOf(6, ""))).want(400, domain.InvalidParameter) // there is none
	s.adminDo("POST", report+"/close", "").want(200, "")
	s.adminDo("POST", report+"/close", "").want(200, "")
	s.adminDo("POST", report+"/lines", batchOf(all...)).want(200, "")
	var page wire.SettlementPage
	s.adminDo("GET", report, "").want(200, "").decode(&page)
	var got []string
	for _, l := range page.Data {
		got = append(got, fmt.Sprint(l.Number, l.Result, l.ProjectID != ""))
	}
	want := []string{"1settledtrue", "3settledtrue", "2settledtrue", "4unknown_referencefalse", "5unknown_referencefalse"}
	if page.Status != wire.SettlementRecorded || page.Lines != 5 || page.Waiting != 2 || len(page.Data) != len(want) {
		t.Errorf("%+v", page)
	}
	for _, one := range want {
		if !strings.Contains(strings.Join(got, " "), one) {
			t.Errorf("%v lack %s", got, one)
		}
	}
	for _, m := range []shop{one, other} {
		if n := len(m.get("/v1/settlements/sandbox:r").want(200, "").Body); n == 0 {
			t.Error("nothing")
		}
	}
	s.merchant("").get("/v1/settlements/sandbox:r").want(404, domain.SettlementNotFound)
	// Clients may encode the colon of the id; the cursors are the same.
	var encoded wire.SettlementPage
	first := one.get("/v1/settlements/sandbox%3Ar?limit=1").want(200, "")
	first.decode(&encoded)
	link, _, _ := strings.Cut(strings.TrimPrefix(first.Header.Get("Link"), "<"), `>; rel="next"`)
	if a := one.get(link).want(200, ""); !strings.Contains(string(a.Body), `"number":3`) || a.Header.Get("Link") != "" {
		t.Errorf("%s: Link %q\n%s", link, a.Header.Get("Link"), a.Body)
	}
	for _, id := range []string{"sandbox%3Ar", "sandbox:r"} {
		if a := one.get("/v1/settlements/"+id+"?cursor="+*encoded.NextCursor).want(200, ""); !strings.Contains(string(a.Body), `"number":3`) {
			t.Errorf("%s: %s", id, a.Body)
		}
	}
	for _, id := range []string{"sandbox%3Ar%00", "sandbox%00%3Ar", "sandbox%253Ar", "sandbox", "%3A"} {
		one.get("/v1/settlements/"+id).want(404, domain.SettlementNotFound)
	}

	// A second report has a line again, and one of the first that was interrupted has only some.
	s.adminDo("POST", "/admin/settlements", opened("s", "02", 2)).want(201, "")
	s.adminDo("POST", "/admin/settlements/sandbox:s/lines", batchOf(all[0], lineOf(2, ids[0]))).want(200, "")
	var again wire.SettlementPage
	s.adminDo("GET", "/admin/settlements/sandbox:s?waiting=true", "").want(200, "").decode(&again)
	if len(again.Data) != 1 || again.Data[0].Number != 1 || again.Data[0].Result != settlement.SettledBefore {
		t.Errorf("%+v", again)
	}
}

// cutStore loses what is appended behind a number of lines' events.
type cutStore struct {
	eventstore.Store
	left atomic.Int64
}

func (c *cutStore) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	if commits[0].Record.Stream.Kind == eventstore.KindSettlement && c.left.Add(-1) < 0 {
		return []eventstore.Appended{{Err: errors.New("cut off")}}
	}
	return c.Store.Append(ctx, commits...)
}

// An import that was interrupted goes on although a line's reference has become known since.
func TestSettlementGoesOnWithWhatIsKnownNow(t *testing.T) {
	t.Parallel()
	var cut cutStore
	s := start(t, func(c *settings) {
		cut.Store = c.Ledger.Store
		c.Ledger.Store = &cut
	})
	m := s.merchant("")
	late := m.pay(`{"amount":"1500.00"}`).want(201, "").object().ID
	m.route(late)
	lines := batchOf(lineOf(1, m.paid()), lineOf(2, ""), lineOf(3, m.paid()))
	cut.left.Store(2)
	s.adminDo("POST", "/admin/settlements", opened("r", "01", 3)).want(201, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines", lines).want(500, domain.InternalError)
	if _, err := s.decide(t.Context(), m.project, mustID(t, late), domain.ApplySignal{Signal: domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: "r2", Amount: 150000, Currency: "RUB", StartedAt: domain.InstantOf(s.clock.Now()),
	}}); err != nil {
		t.Fatal(err)
	}
	cut.left.Store(1 << 30)
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines", lines).want(200, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/close", "").want(200, "")
}

// What is no report and no line is refused, and nothing of it is recorded.
func TestBadSettlements(t *testing.T) {
	t.Parallel()
	s := start(t)
	good, line := opened("r", "01", 1), lineOf(1, "")
	for name, body := range map[string]string{
		"nothing": "{}", "a member too many": strings.Replace(good, `{"route"`, `{"x":1,"route"`, 1), "no route": strings.Replace(good, "sandbox", "", 1),
		"a route that is none": strings.Replace(good, "sandbox", "a b", 1), "no id": strings.Replace(good, `"r"`, `""`, 1), "an id with a slash": strings.Replace(good, `"r"`, `"a/b"`, 1),
		"a colon": strings.Replace(good, `"r"`, `"a:b"`, 1), "a short hash": strings.Replace(good, "0101", "01", 1), "no lines": opened("r", "01", 0),
		"another net": strings.Replace(good, `"net":"1500.00"`, `"net":"2.00"`, 1), "another number": strings.Replace(good, `"lines":1,"from"`, `"lines":2,"from"`, 1),
		"no such day": strings.Replace(good, "2026-11-20", "2026-11-31", 1), "days in disorder": strings.Replace(good, "2026-11-20", "2026-11-21", 1),
		"a number": strings.Replace(good, `"gross":"1500.00"`, `"gross":1.00`, 1), "twice": strings.Replace(good, `{"route"`, `{"report":"r","route"`, 1),
		"yen": strings.ReplaceAll(good, "RUB", "JPY"), "an array": "[]", "a long id": strings.Replace(good, `"r"`, `"`+strings.Repeat("r", 65)+`"`, 1),
	} {
		if a := s.adminDo("POST", "/admin/settlements", body); a.Code < 400 || a.Code >= 500 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	s.adminDo("GET", "/admin/settlements/sandbox:r", "").want(404, domain.SettlementNotFound)
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines", batchOf(line)).want(404, domain.SettlementNotFound)
	s.adminDo("POST", "/admin/settlements/sandbox/close", "").want(404, domain.SettlementNotFound)
	s.adminDo("POST", "/admin/settlements", good).want(201, "")
	var half wire.Reconciliation // which has no amount, and no currency to add it up in
	if s.adminDo("GET", "/admin/reconcile", "").want(200, "").decode(&half); len(half.Differences) != 1 || len(half.Remainder) != 0 {
		t.Errorf("with a report whose lines are not there yet: %+v", half)
	}
	for name, body := range map[string]string{
		"none": batchOf(), "no number": batchOf(strings.Replace(line, `"number":1,`, "", 1)), "from 2": batchOf(lineOf(2, "")), "a gap": batchOf(line, lineOf(3, "")),
		"twice": batchOf(line, line), "a kind that is none": batchOf(strings.Replace(line, `"payment",`, `"payout",`, 1)), "net": batchOf(strings.Replace(line, `"net":"1500.00"`, `"net":"1.01"`, 1)),
		"three digits": batchOf(strings.Replace(line, `"fee":"0.00"`, `"fee":"0.000"`, 1)), "a comma": batchOf(strings.Replace(line, `"fee":"0.00"`, `"fee":"0,00"`, 1)),
		"far too much": batchOf(strings.ReplaceAll(line, `"1500.00"`, `"1000000000000.00"`)), "a line feed": batchOf(strings.Replace(line, `"r1"`, `"a\nb"`, 1)),
		"a long reference": batchOf(strings.Replace(line, `"r1"`, `"`+strings.Repeat("r", 129)+`"`, 1)), "no currency": batchOf(strings.Replace(line, "RUB", "", 1)),
		"a member too many": batchOf(strings.Replace(line, `{"number"`, `{"x":1,"number"`, 1)), "next to no JSON": `{"lines":[`,
		"too many":     batchOf(strings.Split(strings.TrimSuffix(strings.Repeat(line+"\t", wire.MaxSettlementLines+1), "\t"), "\t")...),
		"far too long": `{"lines":[],"route":"` + strings.Repeat("x", wire.MaxSettlementBytes) + `"}`,
	} {
		if a := s.adminDo("POST", "/admin/settlements/sandbox:r/lines", body); a.Code < 400 || a.Code >= 500 {
			t.Errorf("%s: %d %.300s", name, a.Code, a.Body)
		}
	}
	for name, body := range map[string]string{
		"nowhere": `{"reason":"x"}`, "no reason": `{"to":"fee","reason":""}`, "a long reason": `{"to":"fee","reason":"` + strings.Repeat("x", 257) + `"}`,
		"no payment": `{"to":"payment","reason":"x"}`, "elsewhere": `{"to":"operator","reason":"x"}`, "a member too many": `{"to":"fee","reason":"x","x":1}`,
		"by itself": `{"to":"matched","reason":"x"}`, "by itself and without a reason": `{"to":"matched","payment_id":"01M7W78FJBM8T4R7B5N0C1D2E3"}`,
	} {
		s.adminDo("POST", "/admin/settlements/sandbox:r/lines", batchOf(line)).want(200, "")
		if a := s.adminDo("POST", "/admin/settlements/sandbox:r/lines/1/resolve", body); a.Code < 400 || a.Code >= 500 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	for _, at := range []string{"sandbox:r/lines/2", "sandbox:r/lines/x", "sandbox:x/lines/1", "x/lines/1"} {
		if a := s.adminDo("POST", "/admin/settlements/"+at+"/resolve", `{"to":"fee","reason":"x"}`); a.Code != 404 {
			t.Errorf("%s: %d %s", at, a.Code, a.Body)
		}
	}
	for _, query := range []string{"days=-1", "days=x", "days=10001", "as_of=yesterday", "x=1"} {
		if a := s.adminDo("GET", "/admin/reconcile?"+query, ""); a.Code < 400 || a.Code >= 500 {
			t.Errorf("%s: %d %s", query, a.Code, a.Body)
		}
	}
	n := 0
	for r, err := range s.cfg.Ledger.Store.Scan(t.Context(), 0, eventstore.Filter{Kind: eventstore.KindSettlement}) {
		if n++; err != nil || n > 2 {
			t.Errorf("%s %v", r.Body, err)
		}
	}
}

// A line that is looked at before it is recorded says which dispute it would open or end; a line in
// another currency clears the payment's own, of a dispute only if that is known.
func TestDisputesAndCurrenciesOfLines(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id, unpaid := m.paid(), m.pay(`{"amount":1500}`).want(201, "").object().ID
	m.route(unpaid)
	dispute := func(number int, payment, reference, gross, currency string) string {
		return fmt.Sprintf(`{"number":%d,"kind":"dispute","payment_id":%q,"reference":%q,"gross":%q,"fee":"0.00","net":%q,"currency":%q,"settled_on":"2026-11-20"}`,
			number, payment, reference, gross, gross, currency)
	}
	says := func(lines ...string) (got []string) {
		t.Helper()
		var page wire.Page[wire.SettlementLine]
		s.adminDo("POST", "/admin/settlements/match", `{"route":"sandbox",`+batchOf(lines...)[1:]).want(200, "").decode(&page)
		for _, l := range page.Data {
			got = append(got, string(l.Says))
		}
		return got
	}
	lines := []string{
		dispute(1, id, "dp", "-500.00", "RUB"), dispute(2, id, "dp", "500.00", "RUB"), dispute(3, id, "dp", "-500.00", "RUB"), dispute(4, unpaid, "dp", "-1.00", "RUB"),
		dispute(5, id, "eur", "-5.50", "EUR"), lineOf(6, id),
	}
	if got := strings.Join(says(lines...), ","); got != "disputed,dispute_won,,disputed,," {
		t.Error(got)
	}
	s.adminDo("POST", "/admin/payments/"+id+"/disputes", `{"outcome":"disputed","reference":"dp","amount":"500"}`).want(201, "")
	if got := strings.Join(says(lines...), ","); got != ",dispute_won,,disputed,," {
		t.Error(got)
	}
	tooFar := strings.ReplaceAll(opened("far", "03", 1), "2026-11-20", "2026-12-30")
	s.adminDo("POST", "/admin/settlements", tooFar).want(400, domain.InvalidParameter)

	report := strings.ReplaceAll(opened("r", "01", 2), `"RUB","lines":2,"gross":"3000.00","fee":"0.00","net":"3000.00"`, `"EUR","lines":2,"gross":"11.00","fee":"0.00","net":"11.00"`)
	s.adminDo("POST", "/admin/settlements", report).want(201, "")
	inEuros := strings.NewReplacer("1500.00", "16.50", "RUB", "EUR").Replace(lineOf(1, id))
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines", batchOf(inEuros, dispute(2, id, "eur", "-5.50", "EUR"))).want(200, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/close", "").want(200, "")
	open := func() string {
		var r wire.Reconciliation
		s.adminDo("GET", "/admin/reconcile?days=0&route=sandbox", "").want(200, "").decode(&r)
		var all []string
		for _, d := range r.Differences {
			if d.What != settlement.NotArrived {
				all = append(all, fmt.Sprint(d.What, " ", d.Amount, " ", d.Currency))
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	resolve := func(number int) *answer {
		return s.adminDo("POST", fmt.Sprintf("/admin/settlements/sandbox:r/lines/%d/resolve", number), `{"to":"payment","payment_id":"`+id+`","reason":"x"}`)
	}
	if got := open(); got != "currency_differs -16.50 EUR, currency_differs 5.50 EUR, not_reported 1500.00 RUB" {
		t.Error(got)
	}
	resolve(1).want(200, "")
	if p := resolve(2).want(400, domain.InvalidParameter).problem(); !strings.Contains(p.Detail, "payledger dispute open") {
		t.Errorf("%+v", p)
	}
	if got := open(); got != "currency_differs 5.50 EUR" {
		t.Error(got)
	}
	s.adminDo("POST", "/admin/payments/"+id+"/disputes", `{"outcome":"disputed","reference":"eur","amount":"400"}`).want(201, "")
	resolve(2).want(200, "")
	s.adminDo("POST", "/admin/payments/"+id+"/disputes", `{"outcome":"dispute_won","reference":"dp"}`).want(201, "")
	if got := open(); got != "" {
		t.Error(got)
	}
}

// A refund of a part, which the provider has made by another hand, is settled by the report's line of it, in
// any order and by its reference alone; the line that says whose it is settles it too, if the operator says so.
func TestRefundByHandIsSettled(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	refund := func(number int, payment, reference, gross string) string {
		return fmt.Sprintf(`{"number":%d,"kind":"refund","payment_id":%q,"reference":%q,"gross":%q,"fee":"0.00","net":%q,"currency":"RUB","settled_on":"2026-11-20"}`,
			number, payment, reference, gross, gross)
	}
	byHand := func(id, reference string) {
		t.Helper()
		p, _, err := s.cfg.Views.Payment(t.Context(), mustID(t, id))
		if err == nil {
			_, err = s.decide(t.Context(), m.project, p.ID, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
				Reference: p.PaidReference, RefundReference: reference, Amount: 40000, Currency: "RUB",
			}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, early := m.paid(), m.paid()
	byHand(first, "hand")
	s.adminDo("POST", "/admin/settlements", strings.ReplaceAll(opened("r", "01", 4), "6000.00", "2200.00")).want(201, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines",
		batchOf(lineOf(1, first), refund(2, "", "hand", "-400.00"), lineOf(3, early), refund(4, early, "later", "-400.00"))).want(200, "")
	s.adminDo("POST", "/admin/settlements/sandbox:r/close", "").want(200, "")
	open := func() string {
		t.Helper()
		var r wire.Reconciliation
		s.adminDo("GET", "/admin/reconcile?days=0&route=sandbox", "").want(200, "").decode(&r)
		var all []string
		for _, d := range r.Differences {
			all = append(all, fmt.Sprint(d.What, " ", d.PaymentID, " ", d.Amount))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if got, want := open(), "amount_differs "+early+" 400.00, not_arrived  2200.00"; got != want {
		t.Errorf("open is %q, want %q", got, want)
	}
	byHand(early, "later")
	s.adminDo("POST", "/admin/settlements/sandbox:r/lines/4/resolve", `{"to":"payment","payment_id":"`+early+`","reason":"x"}`).want(200, "")
	s.adminDo("POST", "/admin/payouts", `{"route":"sandbox","report":"r","amount":"2200.00","reference":"pp"}`).want(201, "")
	if got := open(); got != "" {
		t.Errorf("open is %q", got)
	}
	if got, want := m.get("/v1/balance").books(), "RUB acquirer_receivable:sandbox 0.00; RUB merchant_payable -3000.00; RUB settlement_suspense 0.00; RUB settlement_transit:sandbox 2200.00; RUB suspense 800.00"; got != want {
		t.Errorf("the books are %q, want %q", got, want)
	}
}
