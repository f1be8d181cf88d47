package settlement_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/settlement"
)

func id(n byte) domain.ID {
	return domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, n}
}

// line is line 1 of a report, for all of the payment that awaits 1500.00 RUB.
func line(kind settlement.Kind, gross, fee domain.Amount, change ...func(*settlement.Line)) settlement.Line {
	l := settlement.Line{
		Number: 1, Kind: kind, Reference: "prv-1", Gross: domain.SumOf(gross), Fee: domain.SumOf(fee), Net: domain.SumOf(gross - fee),
		Currency: "RUB", SettledOn: "2026-11-20",
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

// Given a payment of 1500.00 RUB on the route cards and what has settled it, a line is this.
func TestJudge(t *testing.T) {
	t.Parallel()
	waiting := domain.Payment{Status: domain.AwaitingPayment, Route: "cards", Amount: 150000, Currency: "RUB"}
	paid, elsewhere := waiting, waiting
	paid.Status, elsewhere.Route = domain.Paid, "wallet"
	byHand := paid
	byHand.ProviderRefunds = []domain.ProviderRefund{{Reference: "prv-0", RefundReference: "prv-1", Amount: 149999, Currency: "RUB"}}
	usd := func(l *settlement.Line) { l.Currency = "USD" }
	unnamed := func(l *settlement.Line) { l.Reference = "" }
	const payment, refund, dispute = settlement.KindPayment, settlement.KindRefund, settlement.KindDispute
	for name, c := range map[string]struct {
		payment domain.Payment
		settled []string
		line    settlement.Line
		want    settlement.Result
	}{
		"paid":                        {paid, nil, line(payment, 150000, 4500), settlement.Settled},
		"before it is paid":           {waiting, nil, line(payment, 150000, 4500), settlement.Settled},
		"no payment":                  {domain.Payment{}, nil, line(payment, 150000, 0), settlement.UnknownReference},
		"a payment of another route":  {elsewhere, nil, line(payment, 150000, 0), settlement.UnknownReference},
		"less than all":               {paid, nil, line(payment, 149999, 0), settlement.AmountDiffers},
		"a payment that takes money":  {paid, nil, line(payment, -150000, 0), settlement.AmountDiffers},
		"nothing":                     {paid, nil, line(payment, 0, 0), settlement.AmountDiffers},
		"another currency":            {paid, nil, line(payment, 150000, 0, usd), settlement.CurrencyDiffers},
		"once more":                   {paid, []string{"prv-1"}, line(payment, 150000, 0), settlement.SettledBefore},
		"money that came once more":   {paid, []string{"prv-0"}, line(payment, 150000, 0), settlement.Settled},
		"once more without reference": {paid, []string{"prv-0"}, line(payment, 150000, 0, unnamed), settlement.SettledBefore},
		"after one without":           {paid, []string{""}, line(payment, 150000, 0), settlement.SettledBefore},
		"far too often":               {paid, slices.Repeat([]string{"x"}, settlement.MaxSettled), line(payment, 150000, 0), settlement.SettledBefore},
		"refunded":                    {paid, nil, line(refund, -150000, 0), settlement.Settled},
		"a refund that came back":     {paid, nil, line(refund, 150000, 0), settlement.Settled},
		"refunded in part":            {paid, nil, line(refund, -149999, 0), settlement.AmountDiffers},
		"refunded in part by hand":    {byHand, nil, line(refund, -149999, 0), settlement.Settled},
		"in part by hand once more":   {byHand, []string{"prv-1"}, line(refund, -149999, 0), settlement.SettledBefore},
		"another part by hand":        {byHand, nil, line(refund, -149998, 0), settlement.AmountDiffers},
		"a part that came back":       {byHand, nil, line(refund, 149999, 0), settlement.AmountDiffers},
		"paid what went back by hand": {byHand, nil, line(payment, 149999, 0), settlement.AmountDiffers},
		"disputed in part":            {paid, nil, line(dispute, -1, 1500), settlement.Settled},
		"a dispute that was won":      {paid, nil, line(dispute, 150000, 0), settlement.Settled},
		"disputed beyond its amount":  {paid, nil, line(dispute, -150001, 0), settlement.AmountDiffers},
		"disputed for nothing":        {paid, nil, line(dispute, 0, 1500), settlement.AmountDiffers},
		"a fee":                       {domain.Payment{}, nil, line(settlement.KindFee, -9900, 0), settlement.Charged},
		"whatever else":               {domain.Payment{}, nil, line(settlement.KindOther, 1, 0), settlement.OtherKind},
	} {
		if got := settlement.Judge("cards", c.line, c.payment, c.settled); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What cannot be in a line is named.
func TestCheckLine(t *testing.T) {
	t.Parallel()
	for member, change := range map[string]func(*settlement.Line){
		"number":     func(l *settlement.Line) { l.Number = 0 },
		"kind":       func(l *settlement.Line) { l.Kind = "payout" },
		"payment_id": func(l *settlement.Line) { l.PaymentID = "a\nb" },
		"refund_id":  func(l *settlement.Line) { l.RefundID = "\xff" },
		"reference":  func(l *settlement.Line) { l.Reference = strings.Repeat("a", settlement.MaxReference+1) },
		"gross":      func(l *settlement.Line) { l.Gross = domain.SumOf(domain.MaxAmount * 1001) },
		"fee":        func(l *settlement.Line) { l.Fee = domain.SumOf(-domain.MaxAmount * 1001) },
		"net":        func(l *settlement.Line) { l.Net = domain.Sum{} },
		"currency":   func(l *settlement.Line) { l.Currency = "JPY" },
		"settled_on": func(l *settlement.Line) { l.SettledOn = "2026-02-30" },
		"":           func(*settlement.Line) {},
	} {
		if got := line(settlement.KindPayment, 150000, 4500, change).Check(); got != member {
			t.Errorf("%q is named, want %q", got, member)
		}
	}
}

// An entry has one text, and only possible entries are recorded.
func TestRecordLines(t *testing.T) {
	t.Parallel()
	record := func(lines ...settlement.Text) error {
		_, err := settlement.Book{Route: "cards", Report: "r", Last: 7}.Decide(settlement.RecordLines{FeesPaidBy: settlement.ByOperator, Lines: lines})
		return err
	}
	good := settlement.Text("8 payment 1500.00 45.00 RUB 2026-11-20 settled " + id(1).String() + " - prv 77")
	e, err := good.Entry()
	if err != nil || e.Text() != good || e.Reference != "prv 77" || e.Net.String() != "1455.00" || record(good) != nil {
		t.Fatalf("%+v, %v, %v", e, err, record(good))
	}
	for _, wrong := range []settlement.Text{
		"", good[1:], "07" + good[1:], "7" + good[1:], good + "\x00", settlement.Text(strings.Replace(string(good), id(1).String(), "-", 1)),
		settlement.Text(strings.Replace(string(good), "settled", "charged", 1)), settlement.Text(strings.Replace(string(good), "settled", "fine", 1)),
		settlement.Text(strings.Replace(string(good), "payment", "fee", 1)), settlement.Text(strings.Replace(string(good), "1500.00", "1500.0", 1)),
		settlement.Text(strings.Replace(string(good), " - ", " x ", 1)), settlement.Text(strings.Replace(string(good), "2026-11-20", "2026-11-31", 1)),
	} {
		if record(wrong) == nil {
			t.Errorf("%q is recorded", wrong)
		}
	}
	if record(good, good) == nil || record() == nil {
		t.Error("a line is recorded twice, or none")
	}
}

// Given the reports of a route, a command leads to this event or refusal.
func TestReports(t *testing.T) {
	t.Parallel()
	sums := settlement.Summary{}.Add(line(settlement.KindPayment, 150000, 4500))
	var today domain.Instant
	if err := today.UnmarshalText([]byte("2026-11-20T23:59:59Z")); err != nil {
		t.Fatal(err)
	}
	report := func(name string, sum byte) settlement.OpenReport {
		return settlement.OpenReport{At: today, Report: settlement.Report{
			Route: "cards", Report: name, SHA256: domain.Digest{sum}, FeesPaidBy: settlement.ByOperator, Summary: sums,
		}}
	}
	evolve := func(events ...domain.Event) settlement.Reports {
		r := settlement.Reports{Route: "cards"}
		for _, e := range events {
			r = r.Evolve(e)
		}
		return r
	}
	otherwise := report("a", 1)
	otherwise.Summary = settlement.Summary{}.Add(line(settlement.KindPayment, 150000, 4501))
	opened := settlement.ReportOpened{Report: report("a", 1).Report}
	closed := settlement.ReportClosed{Route: "cards", Report: "a"}
	for name, c := range map[string]struct {
		given   settlement.Reports
		when    settlement.ReportsCommand
		then    string // the type of the event, "" for none
		refused domain.Code
	}{
		"the first":                  {evolve(), report("a", 1), settlement.TypeReportOpened, ""},
		"the same, half recorded":    {evolve(opened), report("a", 1), "", ""},
		"the same again":             {evolve(opened, closed), report("a", 1), "", ""},
		"the same, read otherwise":   {evolve(opened), otherwise, "", domain.SettlementDiffers},
		"recorded, read otherwise":   {evolve(opened, closed), otherwise, "", domain.SettlementDiffers},
		"other bytes":                {evolve(opened, closed), report("a", 2), "", domain.SettlementDiffers},
		"the same bytes as another":  {evolve(opened, closed), report("b", 1), "", domain.SettlementDiffers},
		"another, while one is open": {evolve(opened), report("b", 2), "", domain.SettlementOpen},
		"another":                    {evolve(opened, closed), report("b", 2), settlement.TypeReportOpened, ""},
		"all lines":                  {evolve(opened), settlement.CloseReport{Report: "a", Recorded: sums}, settlement.TypeReportClosed, ""},
		"closed again":               {evolve(opened, closed), settlement.CloseReport{Report: "a", Recorded: sums}, "", ""},
		"lines are missing":          {evolve(opened), settlement.CloseReport{Report: "a"}, "", domain.SettlementDiffers},
		"never opened":               {evolve(opened), settlement.CloseReport{Report: "b"}, "", domain.SettlementNotFound},
	} {
		e, err := c.given.Decide(c.when)
		refusal, _ := errors.AsType[*domain.Refusal](err)
		switch {
		case c.refused != "":
			if refusal == nil || refusal.Code != c.refused {
				t.Errorf("%s: %v, %v", name, e, err)
			}
		case err != nil || (e == nil) != (c.then == "") || e != nil && e.Type() != c.then:
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	days := func(from, to string) settlement.Summary {
		s := sums
		s.From, s.To = from, to
		return s
	}
	farthest := report("c", 3)
	if farthest.Summary = days("2000-01-01", "2026-12-21"); evolve(settlement.ReportOpened{Report: farthest.Report}).Redecide(closed, 0, sums) == nil {
		t.Error("it is closed with lines of other days")
	}
	if e, err := evolve().Decide(farthest); e == nil || evolve().Redecide(e, today, settlement.Summary{}) != nil || evolve().Redecide(e, today-24*60*60*1000, settlement.Summary{}) == nil {
		t.Errorf("%v, %v", e, err)
	}
	for _, wrong := range []settlement.Summary{days("1999-12-31", "2026-11-20"), days("2026-11-20", "2026-12-22"), {}, {Lines: 2, From: sums.From, To: sums.To, Totals: sums.Totals}, {Lines: 1, From: "2026-11-21", To: "2026-11-20", Totals: sums.Totals}} {
		c := report("c", 3)
		c.Summary = wrong
		if e, err := evolve().Decide(c); err == nil {
			t.Errorf("%+v", e)
		}
	}
}

type place struct {
	project  string
	account  domain.Account
	currency domain.Currency
}

// balances are those of all books after an event; each project's add up to zero.
type balances map[place]domain.Sum

func (b balances) book(project string, e domain.Event) {
	for _, p := range domain.Postings(e) {
		at := place{project, p.Account, p.Currency}
		if p.Project != "" {
			at.project = p.Project
		}
		if b[at] = b[at].Add(p.Amount); b[at].Sign() == 0 {
			delete(b, at)
		}
	}
}

func (b balances) total(project string) (sum domain.Sum) {
	for at, of := range b {
		if project == "" || at.project == project {
			sum = sum.Add(of)
		}
	}
	return sum
}

// Given a line in suspense, resolving it moves its amount once to where it belongs, and the books of
// each project add up to zero.
func TestResolve(t *testing.T) {
	t.Parallel()
	entry := settlement.Entry{Line: line(settlement.KindPayment, 150000, 4500), Result: settlement.UnknownReference}
	lines := settlement.ReportLines{Route: "cards", Report: "r", FeesPaidBy: settlement.ByOperator, Lines: []settlement.Text{entry.Text()}}
	book := settlement.Book{Project: "installation", Route: "cards", Report: "r"}.Evolve(lines)
	to := func(project string, by settlement.Bearer) settlement.ResolveLine {
		return settlement.ResolveLine{Number: 1, To: settlement.ToPayment, Payment: id(1).String(), Project: project, Settles: domain.SumOf(149000), Currency: "RUB", FeesPaidBy: by, Reason: "seen"}
	}
	matched, euros := to("prj_1", settlement.ByOperator), to("prj_1", settlement.ByOperator)
	matched.To, matched.Reason, matched.Settles = settlement.Matched, "", domain.SumOf(150000)
	euros.Settles, euros.Currency = domain.SumOf(1650), "EUR"
	for name, c := range map[string]struct {
		when settlement.ResolveLine
		then map[place]string
	}{
		"to a payment": {to("prj_1", settlement.ByOperator), map[place]string{
			{"prj_1", "settlement_transit:cards", "RUB"}: "1455.00", {"prj_1", "provider_fees", "RUB"}: "45.00", {"prj_1", "acquirer_receivable:cards", "RUB"}: "-1490.00", {"prj_1", "losses", "RUB"}: "-10.00",
		}},
		"to a payment, by the merchant": {to("installation", settlement.ByMerchant), map[place]string{
			{"installation", "settlement_transit:cards", "RUB"}: "1455.00", {"installation", "merchant_payable", "RUB"}: "45.00", {"installation", "acquirer_receivable:cards", "RUB"}: "-1490.00", {"installation", "losses", "RUB"}: "-10.00",
		}},
		"matched": {matched, map[place]string{
			{"prj_1", "settlement_transit:cards", "RUB"}: "1455.00", {"prj_1", "provider_fees", "RUB"}: "45.00", {"prj_1", "acquirer_receivable:cards", "RUB"}: "-1500.00",
		}},
		"to a payment in another currency": {euros, map[place]string{
			{"prj_1", "settlement_transit:cards", "RUB"}: "1455.00", {"prj_1", "provider_fees", "RUB"}: "45.00", {"prj_1", "losses", "RUB"}: "-1500.00",
			{"prj_1", "losses", "EUR"}: "16.50", {"prj_1", "acquirer_receivable:cards", "EUR"}: "-16.50",
		}},
		"to fees": {settlement.ResolveLine{Number: 1, To: settlement.ToFee, Reason: "seen"}, map[place]string{
			{"installation", "settlement_transit:cards", "RUB"}: "1455.00", {"installation", "provider_fees", "RUB"}: "-1455.00",
		}},
		"written off": {settlement.ResolveLine{Number: 1, To: settlement.WriteOff, Reason: "seen"}, map[place]string{
			{"installation", "settlement_transit:cards", "RUB"}: "1455.00", {"installation", "losses", "RUB"}: "-1455.00",
		}},
	} {
		e, err := book.Decide(c.when)
		if err != nil {
			t.Fatal(name, err)
		}
		b := balances{}
		b.book("installation", lines)
		b.book("installation", e)
		got := map[place]string{}
		for at, sum := range b {
			got[at] = sum.String()
		}
		if !maps.Equal(got, c.then) || b.total("installation").Sign() != 0 || b.total("prj_1").Sign() != 0 {
			t.Errorf("%s: %v, want %v", name, got, c.then)
		}
		if err := book.Redecide(e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := book.Evolve(e).Decide(c.when); err == nil {
			t.Errorf("%s: it is resolved twice", name)
		}
	}
	for name, c := range map[string]settlement.ResolveLine{
		"another line": {Number: 2, To: settlement.ToFee, Reason: "x"}, "no reason": {Number: 1, To: settlement.ToFee},
		"no payment": {Number: 1, To: settlement.ToPayment, Reason: "x"}, "nowhere": {Number: 1, Reason: "x"},
		"matched with words": {Number: 1, To: settlement.Matched, Payment: id(1).String(), Project: "prj_1", Currency: "RUB", FeesPaidBy: settlement.ByOperator, Reason: "x"},
		"matched with none":  {Number: 1, To: settlement.Matched}, "no currency": {Number: 1, To: settlement.ToPayment, Payment: id(1).String(), Project: "prj_1", FeesPaidBy: settlement.ByOperator, Reason: "x"},
	} {
		if e, err := book.Decide(c); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// Given a payment of 1500.00 RUB that is paid, and what is known of it, a line clears this and says this.
func TestWhatLinesClearAndSay(t *testing.T) {
	t.Parallel()
	paid := domain.Payment{Status: domain.Paid, Route: "cards", Amount: 150000, Currency: "RUB"}
	waiting, late := paid, paid
	waiting.Status, late.Late = domain.AwaitingPayment, []domain.LateFund{{Amount: 2000, Currency: "EUR"}}
	byHand := paid
	byHand.ProviderRefunds = []domain.ProviderRefund{{RefundReference: "prv-1", Amount: 1000, Currency: "RUB"}}
	disputed := func(s domain.DisputeStatus) domain.Payment {
		p := paid
		p.Disputes = []domain.Dispute{{Reference: "prv-1", Status: s, Amount: 50000}}
		return p
	}
	euros, unnamed := func(l *settlement.Line) { l.Currency = "EUR" }, func(l *settlement.Line) { l.Reference = "" }
	const dispute = settlement.KindDispute
	for name, c := range map[string]struct {
		of     domain.Payment
		line   settlement.Line
		clears string
		says   string
	}{
		"paid":                             {paid, line(settlement.KindPayment, 149000, 0), "1500.00 RUB", ""},
		"refunded":                         {paid, line(settlement.KindRefund, -149000, 0), "-1500.00 RUB", ""},
		"refunded in part by hand":         {byHand, line(settlement.KindRefund, -1000, 0), "-10.00 RUB", ""},
		"refunded by hand in euros":        {byHand, line(settlement.KindRefund, -1000, 0, euros), "-1500.00 RUB", ""},
		"paid in euros":                    {paid, line(settlement.KindPayment, 1650, 0, euros), "1500.00 RUB", ""},
		"refunded in euros":                {paid, line(settlement.KindRefund, -1650, 0, euros), "-1500.00 RUB", ""},
		"late in euros":                    {late, line(settlement.KindPayment, 2000, 0, euros), "20.00 EUR", ""},
		"disputed":                         {paid, line(dispute, -50000, 0), "-500.00 RUB", "disputed 500.00"},
		"disputed before it is paid":       {waiting, line(dispute, -50000, 0), "-500.00 RUB", ""},
		"disputed without a reference":     {paid, line(dispute, -50000, 0, unnamed), "-500.00 RUB", ""},
		"disputed, which is known":         {disputed("open"), line(dispute, -50000, 0), "-500.00 RUB", ""},
		"disputed, which is won":           {disputed("won"), line(dispute, -50000, 0), "-500.00 RUB", ""},
		"disputed beyond its amount":       {paid, line(dispute, -150001, 0), "-1500.01 RUB", ""},
		"disputed in euros":                {paid, line(dispute, -550, 0, euros), "0.00 ", ""},
		"disputed in euros, which is open": {disputed("open"), line(dispute, -550, 0, euros), "-500.00 RUB", ""},
		"won":                              {disputed("open"), line(dispute, 50000, 0), "500.00 RUB", "dispute_won 500.00"},
		"won, not heard of before":         {paid, line(dispute, 50000, 0), "500.00 RUB", "dispute_won 500.00"},
		"won in part":                      {disputed("open"), line(dispute, 49999, 0), "499.99 RUB", ""},
		"won again":                        {disputed("won"), line(dispute, 50000, 0), "500.00 RUB", ""},
		"won after it was lost":            {disputed("lost"), line(dispute, 50000, 0), "500.00 RUB", "dispute_won 500.00"},
	} {
		sum, in := settlement.Settles(c.line, c.of)
		if got := sum.String() + " " + string(in); got != c.clears {
			t.Errorf("%s: clears %s, want %s", name, got, c.clears)
		}
		says := ""
		if s, ok := c.line.Says(c.of); ok {
			says = string(s.Outcome) + " " + s.Amount.String()
			if err := s.Validate(); err != nil || s.Reference != "prv-1" {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
		}
		if says != c.says {
			t.Errorf("%s: says %s, want %s", name, says, c.says)
		}
	}
}

// Whatever the order in which outcomes and the lines of reports are recorded, the balances are the
// same, and debits equal credits in the books of each project.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.SampledFrom([]settlement.Bearer{settlement.ByOperator, settlement.ByMerchant}).Draw(t, "bearer")
		payments := make([]domain.Payment, rapid.IntRange(1, 4).Draw(t, "payments"))
		outcomes := make([][]domain.PaymentCommand, len(payments))
		signal := func(p domain.Payment, o domain.Outcome, reference string, refund *domain.ID) domain.ApplySignal {
			return domain.ApplySignal{Signal: domain.Signal{
				Route: "cards", Outcome: o, Reference: reference, RefundID: refund, Amount: p.Amount, Currency: p.Currency, StartedAt: 1000,
			}}
		}
		for i := range payments {
			p := domain.Payment{Project: rapid.SampledFrom([]string{"prj_1", "prj_2"}).Draw(t, "project"), ID: id(byte(i))}
			e, err := p.Decide(domain.CreatePayment{
				At: 1000, Amount: domain.Amount(rapid.IntRange(1, 3).Draw(t, "amount")) * 1000, Currency: "RUB", Settings: domain.DefaultSettings(),
				Routing: &domain.Routing{Table: domain.RoutingTable{{Route: "cards", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			p = p.Evolve(e)
			payments[i] = p
			refund := id(byte(100 + i))
			all := []domain.PaymentCommand{
				signal(p, domain.OutcomePaid, "paid", nil), signal(p, domain.OutcomePaid, "again", nil),
				domain.CreateRefund{At: 2000, RefundID: refund},
				signal(p, domain.OutcomeSucceeded, "back", &refund),
				signal(p, domain.OutcomeReturned, "back", &refund), signal(p, domain.OutcomeDisputed, "dispute", nil),
				signal(p, domain.OutcomeDisputeLost, "dispute", nil), signal(p, domain.OutcomeDisputeWon, "dispute", nil),
			}
			outcomes[i] = all[:rapid.IntRange(0, len(all)).Draw(t, "outcomes")]
		}
		lines := make([]settlement.Line, rapid.IntRange(0, 12).Draw(t, "lines"))
		for i := range lines {
			n := rapid.IntRange(0, len(payments)).Draw(t, "named") // the last is unknown
			l := line(rapid.SampledFrom(settlement.Kinds()).Draw(t, "kind"), 1000*domain.Amount(rapid.IntRange(-3, 3).Draw(t, "gross")), domain.Amount(rapid.IntRange(-2, 9).Draw(t, "fee")))
			l.Number, l.PaymentID = i+1, id(byte(n)).String()
			l.Reference = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "reference")
			lines[i] = l
		}
		run := func(name string) balances {
			now, rest, b := slices.Clone(payments), slices.Clone(outcomes), balances{}
			cleared := map[string]settlement.Cleared{}
			next := 0
			for {
				var can []int // payments with an outcome to come, and the report
				for i, of := range rest {
					if len(of) > 0 {
						can = append(can, i)
					}
				}
				if next < len(lines) {
					can = append(can, len(payments))
				}
				if len(can) == 0 {
					return b
				}
				i := rapid.SampledFrom(can).Draw(t, name)
				if i < len(payments) {
					e, _ := now[i].Decide(rest[i][0])
					rest[i] = rest[i][1:]
					if e != nil {
						b.book(now[i].Project, e)
						now[i] = now[i].Evolve(e)
					}
					continue
				}
				l, p := lines[next], domain.Payment{}
				next++
				for _, one := range now {
					if one.ID.String() == l.PaymentID {
						p = one
					}
				}
				e := settlement.Entry{Line: l, Result: settlement.Judge("cards", l, p, cleared[l.PaymentID].Of(l))}
				project := "installation"
				if e.Result.OfPayment() {
					project = p.Project
				}
				if e.Result == settlement.Settled {
					cleared[l.PaymentID] = cleared[l.PaymentID].With(l, "")
				}
				recorded, err := settlement.Book{Route: "cards", Report: "r"}.Decide(settlement.RecordLines{FeesPaidBy: by, Lines: []settlement.Text{e.Text()}})
				if err != nil {
					t.Fatal(err)
				}
				b.book(project, recorded)
			}
		}
		one, other := run("order"), run("another order")
		if !maps.Equal(one, other) {
			t.Fatalf("%v\n%v", one, other)
		}
		for _, project := range []string{"", "prj_1", "prj_2", "installation"} {
			if sum := one.total(project); sum.Sign() != 0 {
				t.Fatalf("the books of %q add up to %s: %v", project, sum, one)
			}
		}
		net := domain.Sum{}
		for _, l := range lines {
			net = net.Add(l.Net)
		}
		for at, sum := range one {
			if at.account == "settlement_transit:cards" {
				net = net.Add(sum.Neg())
			}
		}
		if net.Sign() != 0 {
			t.Fatalf("the report's payout and what is on its way differ by %s", net)
		}
	})
}

// Given these events, this is open, whatever their order.
func TestReconcile(t *testing.T) {
	t.Parallel()
	const day = domain.Instant(24 * 60 * 60 * 1000)
	signal := func(o domain.Outcome) domain.Signal {
		return domain.Signal{Route: "cards", Outcome: o, Reference: "prv-1", Amount: 150000, Currency: "RUB", StartedAt: 1}
	}
	lines := func(entries ...settlement.Entry) domain.Event {
		e := settlement.ReportLines{Route: "cards", Report: "r", FeesPaidBy: settlement.ByOperator}
		for i, entry := range entries {
			entry.Number, entry.PaymentID = i+1, id(1).String()
			e.Lines = append(e.Lines, entry.Text())
		}
		return e
	}
	settled := settlement.Entry{Line: line(settlement.KindPayment, 150000, 4500), Result: settlement.Settled}
	taken := settlement.Entry{Line: line(settlement.KindDispute, -150000, 0), Result: settlement.Settled}
	back, refunded := settlement.Entry{Line: line(settlement.KindRefund, -150000, 0), Result: settlement.Settled}, domain.RefundSucceededEvent{Signal: signal(domain.OutcomeSucceeded)}
	differs := settlement.Entry{Line: line(settlement.KindPayment, 149900, 4500), Result: settlement.AmountDiffers}
	paid, disputed, lost := domain.PaymentPaid{Signal: signal(domain.OutcomePaid)}, domain.PaymentDisputed{Signal: signal(domain.OutcomeDisputed)},
		domain.PaymentDisputeLost{Opened: true, Signal: signal(domain.OutcomeDisputeLost)}
	resolved := settlement.LineResolved{
		Route: "cards", Report: "r", Line: settlement.Text("1" + strings.TrimPrefix(string(lines(differs).(settlement.ReportLines).Lines[0]), "1")), To: settlement.ToPayment,
		Payment: id(1).String(), Project: "prj_1", Settles: domain.SumOf(150000), FeesPaidBy: settlement.ByOperator, Reason: "x",
	}
	inEuros, matched := resolved, resolved
	foreign := settlement.Entry{Line: line(settlement.KindPayment, 1650, 0, func(l *settlement.Line) { l.Currency = "EUR" }), Result: settlement.CurrencyDiffers}
	inEuros.Line, inEuros.SettlesIn = lines(foreign).(settlement.ReportLines).Lines[0], "RUB"
	unknown := settlement.Entry{Line: line(settlement.KindPayment, 150000, 4500), Result: settlement.UnknownReference}
	matched.Line, matched.To, matched.Reason = lines(unknown).(settlement.ReportLines).Lines[0], settlement.Matched, ""
	for name, c := range map[string]struct {
		events  []domain.Event
		matched int
		open    string // what and how much, of all
	}{
		"nothing":                     {nil, 0, ""},
		"paid":                        {[]domain.Event{paid}, 0, "not_reported 1500.00 3"},
		"reported":                    {[]domain.Event{lines(settled)}, 1, "not_paid_here -1500.00 3"},
		"both":                        {[]domain.Event{lines(settled), paid}, 1, ""},
		"disputed":                    {[]domain.Event{lines(settled), paid, disputed}, 1, ""},
		"disputed, and reported so":   {[]domain.Event{lines(settled, taken), paid, disputed}, 2, ""},
		"lost":                        {[]domain.Event{lines(settled), paid, disputed, lost}, 1, "not_reported -1500.00 3"},
		"refunded":                    {[]domain.Event{lines(settled), paid, refunded}, 1, "not_reported -1500.00 3"},
		"refunded, in no report":      {[]domain.Event{paid, refunded, lines(settled)}, 1, "not_reported -1500.00 3"},
		"refunded in the report":      {[]domain.Event{lines(settled, back), paid}, 2, "not_paid_here 1500.00 3"},
		"lost, and reported so":       {[]domain.Event{lines(settled, taken), paid, disputed, lost}, 2, ""},
		"taken, and no dispute here":  {[]domain.Event{lines(settled, taken), paid}, 2, "not_paid_here 1500.00 3"},
		"another amount":              {[]domain.Event{lines(differs), paid}, 0, "amount_differs -1454.00 3, not_reported 1500.00 3"},
		"another amount, resolved":    {[]domain.Event{lines(differs), paid, resolved}, 1, ""},
		"another currency":            {[]domain.Event{lines(foreign), paid}, 0, "currency_differs -16.50 3, not_reported 1500.00 3"},
		"another currency, resolved":  {[]domain.Event{lines(foreign), paid, inEuros}, 1, ""},
		"not known, then matched":     {[]domain.Event{lines(unknown), paid, matched}, 1, ""},
		"a report that is half there": {[]domain.Event{settlement.ReportOpened{Report: settlement.Report{Route: "cards", Report: "r"}}}, 0, "report_incomplete 0.00 3"},
		"a report that is there":      {[]domain.Event{settlement.ReportOpened{Report: settlement.Report{Route: "cards", Report: "r"}}, settlement.ReportClosed{Route: "cards", Report: "r"}}, 0, ""},
	} {
		o := settlement.NewOpen(nil)
		for _, e := range c.events {
			o.Fold("prj_1", id(1).String(), 0, e)
		}
		var got []string
		for _, d := range o.Differences(3*day, 3, "") {
			got = append(got, d.What+" "+d.Amount.String()+" "+string('0'+rune(d.Days)))
		}
		slices.Sort(got)
		if s := strings.Join(got, ", "); s != c.open || o.Matched("") != c.matched {
			t.Errorf("%s: %s, %d matched, want %s, %d", name, s, o.Matched(""), c.open, c.matched)
		}
		if rest := o.Differences(3*day, 3, "wallet"); len(rest) > 0 || o.Matched("cards") != c.matched || o.Matched("wallet") != 0 {
			t.Errorf("%s: of another route %v, and %d lines of %d matched", name, rest, o.Matched("wallet"), o.Matched("cards"))
		}
	}
	for _, events := range [][]domain.Event{{paid}, {lines(settled), paid, refunded}, {lines(settled), paid, disputed, lost}} {
		o := settlement.NewOpen(nil)
		for _, e := range events {
			o.Fold("prj_1", id(1).String(), 0, e)
		}
		if rest := o.Differences(3*day-1, 3, ""); len(rest) > 0 {
			t.Errorf("before it is late: %v", rest)
		}
	}
	for route, since := range map[string]domain.Instant{"cards": 0, "wallet": 3 * day} {
		o := settlement.NewOpen(nil, route)
		o.Fold("prj_1", id(1).String(), 0, paid)
		if got := o.Oldest(3*day, 3); got != since {
			t.Errorf("the oldest of route %s is of %d, want %d", route, got, since)
		}
	}
}

// TestSettledSince: outcomes before the day from which on a route's reports have them need not be in one,
// and may be. All that the provider owes is a difference, or what is not expected.
func TestSettledSince(t *testing.T) {
	t.Parallel()
	const day = domain.Instant(24 * 60 * 60 * 1000)
	signal := func(o domain.Outcome, amount domain.Amount) domain.Signal {
		return domain.Signal{Route: "cards", Outcome: o, Reference: "prv-1", Amount: amount, Currency: "RUB", StartedAt: 1}
	}
	lines := func(of ...settlement.Line) domain.Event {
		e := settlement.ReportLines{Route: "cards", Report: "r", FeesPaidBy: settlement.ByOperator}
		for i, l := range of {
			l.Number, l.PaymentID = i+1, id(1).String()
			e.Lines = append(e.Lines, settlement.Entry{Line: l, Result: settlement.Settled}.Text())
		}
		return e
	}
	const before, after = 9 * day, 11 * day // of the day
	type heard struct {
		at domain.Instant
		e  domain.Event
	}
	paid, refunded, returned := domain.PaymentPaid{Signal: signal(domain.OutcomePaid, 150000)}, domain.RefundSucceededEvent{Signal: signal(domain.OutcomeSucceeded, 150000)},
		domain.RefundReturned{Signal: signal(domain.OutcomeReturned, 150000)}
	late := domain.PaymentLateFunds{Signal: signal(domain.OutcomePaid, 7000)}
	disputed, lost := domain.PaymentDisputed{Signal: signal(domain.OutcomeDisputed, 50000)}, domain.PaymentDisputeLost{Opened: true, Signal: signal(domain.OutcomeDisputeLost, 50000)}
	pays, refunds, takes := lines(line(settlement.KindPayment, 150000, 0)), lines(line(settlement.KindRefund, -150000, 0)), lines(line(settlement.KindDispute, -50000, 0))
	for name, c := range map[string]struct {
		events    []heard
		open, not string
	}{
		"paid before":                      {[]heard{{before, paid}}, "", "1 1500.00"},
		"paid after":                       {[]heard{{after, paid}}, "not_reported 1500.00 9", ""},
		"paid on the day":                  {[]heard{{10 * day, paid}}, "not_reported 1500.00 10", ""},
		"paid before, reported":            {[]heard{{before, paid}, {after, pays}}, "", ""},
		"reported, and heard of before":    {[]heard{{before, pays}, {before, paid}}, "", ""},
		"paid before, reported twice":      {[]heard{{before, paid}, {after, pays}, {after, pays}}, "not_paid_here -1500.00 9", ""},
		"paid and refunded before":         {[]heard{{before, paid}, {before, refunded}}, "", ""},
		"refunded after":                   {[]heard{{before, paid}, {after, refunded}}, "", ""},
		"refunded after, reported":         {[]heard{{before, paid}, {after, refunded}, {after, refunds}}, "", "1 1500.00"},
		"refunded after, all reported":     {[]heard{{before, paid}, {after, pays}, {after, refunded}, {after, refunds}}, "", ""},
		"reported as refunded, and is not": {[]heard{{before, paid}, {after, refunds}}, "not_paid_here 1500.00 9", "1 1500.00"},
		"the refund came back":             {[]heard{{before, paid}, {before, refunded}, {after, returned}}, "not_reported 1500.00 9", ""},
		"disputed before":                  {[]heard{{before, paid}, {before, disputed}}, "", "1 1500.00"},
		"disputed after, taken":            {[]heard{{before, paid}, {after, disputed}, {after, takes}}, "", "1 1500.00"},
		"lost after, taken":                {[]heard{{before, paid}, {after, disputed}, {after, takes}, {after, lost}}, "", "1 1500.00"},
		"lost before":                      {[]heard{{before, paid}, {before, disputed}, {before, lost}}, "", "1 1000.00"},
		"late funds after":                 {[]heard{{before, paid}, {after, late}}, "not_reported 70.00 9", "1 1500.00"},
	} {
		o := settlement.NewOpen(map[string]domain.Instant{"cards": 10 * day})
		for _, h := range c.events {
			o.Fold("prj_1", id(1).String(), h.at, h.e)
		}
		var open, not []string
		for _, d := range o.Differences(20*day, 3, "") {
			open = append(open, d.What+" "+d.Amount.String()+" "+strconv.Itoa(d.Days))
		}
		for _, r := range o.NotExpected("cards") {
			not = append(not, strconv.Itoa(r.Count)+" "+r.Amount.String())
		}
		if got, rest := strings.Join(open, ", "), strings.Join(not, ", "); got != c.open || rest != c.not {
			t.Errorf("%s: %q and %q not expected, want %q and %q", name, got, rest, c.open, c.not)
		}
		if of := o.NotExpected("wallet"); len(of) > 0 {
			t.Errorf("%s: of another route %v", name, of)
		}
	}
}
