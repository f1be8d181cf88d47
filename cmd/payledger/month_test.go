package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"payledger/cmd/payledger/export/exporttest"
	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/httpapi/wire"
)

// month is a month of a merchant's sales through two providers, with what their reports say of
// them. The fees of cards are the operator's, those of wallet the merchant's.
type month struct {
	*server
	nc      *nats.Conn
	sales   []*sale
	reports []*weekReport

	matched  int      // lines that settle a sale
	planted  []string // differences that reconcile must find
	remedies []func() // what puts them right
}

// sale is a payment and what becomes of it. Amounts are in hundredths.
type sale struct {
	number, week int
	route        string
	amount       int64
	paid         bool
	late         bool   // as much money came that could not count
	refund       string // "", succeeded or returned
	dispute      string // "", open, won or lost
	held         bool   // its report is imported before anything of it is heard

	id, refundID string
}

// weekReport is what a provider says of a week.
type weekReport struct {
	route, name string
	week        int
	lines       []*reportLine
}

// reportLine is a line of a report. One that does not fit waits until the operator says what it is.
type reportLine struct {
	kind       string
	of         *sale // nil: of none
	reference  string
	gross, fee int64
	settles    int64 // of what is owed for the sale

	result string // "": it does not wait
	is     string // --payment, --fee or --write-off
}

func (l *reportLine) net() int64 { return l.gross - l.fee }

func (r *weekReport) id() string { return r.route + ":" + r.name }

func (r *weekReport) net() (sum int64) {
	for _, l := range r.lines {
		sum += l.net()
	}
	return sum
}

func rubles(hundredths int64) string { return domain.SumOf(domain.Amount(hundredths)).String() }

// newSale decides what becomes of one of so many payments: of a hundred three are refunded, two
// disputed, and one is never paid.
func newSale(number, all int) *sale {
	s := &sale{number: number, week: 4 * number / all, route: "cards", amount: 100 + int64(number)*7919%99_900, paid: true}
	if number%2 == 1 {
		s.route, s.amount = "wallet", 100_001+int64(number)*104_729%900_000
	}
	s.held = s.week == 0 && number%8 == 0
	hundred, ends := number/100, []string{"won", "lost", "open"}
	switch number % 100 {
	case 8, 41, 82:
		s.refund = []string{"returned", "succeeded"}[hundred%2]
	case 17:
		s.paid = false
	case 23:
		s.dispute = ends[hundred%3]
	case 64:
		s.dispute = ends[(hundred+1)%3]
	}
	switch number {
	case 10: // paid twice
		s.late = true
	case 31: // paid after it had failed
		s.paid, s.late = false, true
	}
	return s
}

func (s *sale) reference(of string) string { return fmt.Sprintf("%s-%d", of, s.number) }

// lines are what a report has of the sale.
func (s *sale) lines() (all []*reportLine) {
	add := func(really bool, kind, of string, gross, fee int64) {
		if really {
			all = append(all, &reportLine{kind: kind, of: s, reference: s.reference(of), gross: gross, fee: fee, settles: gross})
		}
	}
	add(s.paid, "payment", "pay", s.amount, s.amount*25/1000)
	add(s.late, "payment", "late", s.amount, s.amount*25/1000)
	add(s.refund != "", "refund", "re", -s.amount, 0)
	add(s.refund == "returned", "refund_returned", "re", s.amount, 0)
	add(s.dispute != "", "dispute", "dp", -s.amount, 15_00)
	add(s.dispute == "won", "dispute", "dp", s.amount, 0)
	return all
}

// owed is what the provider owes for the sale, or holds of it for a dispute, before its reports.
func (s *sale) owed() (sum int64) {
	for _, l := range s.lines() {
		sum += l.gross
	}
	return sum
}

// heard is owed as far as the provider has said so: of disputes of wallet only its reports tell.
func (s *sale) heard() (sum int64) {
	for _, l := range s.lines() {
		if l.kind != "dispute" || s.route != "wallet" {
			sum += l.gross
		}
	}
	return sum
}

// says has the sale's provider say what became of it, in a signal.
func (m *month) says(s *sale, outcome, of string) (answer, error) {
	refund := ""
	if of == "re" {
		refund = `,"refund_id":"` + s.refundID + `"`
	}
	reply, err := sendSignal(m.nc, s.route, m.ProjectID, s.id, fmt.Sprintf(`{"outcome":%q,"reference":%q,"amount":%q,"currency":"RUB","started_at":%q%s}`,
		outcome, s.reference(of), rubles(s.amount), time.Now().UTC().Format(time.RFC3339), refund))
	if err == nil && (reply.Result == domain.SignalRefused || reply.Result == domain.SignalParked) {
		err = fmt.Errorf("%+v is %s: %s, %s", s, outcome, reply.Result, reply.Reason)
	}
	return answer{}, err
}

// end lets become of sales what is to become of them. Of disputes of wallet nothing is said.
func (m *month) end(t *testing.T, some []*sale) {
	t.Helper()
	inParallel(t, len(some), 32, func(i int) (answer, error) {
		switch s := some[i]; {
		case s.paid:
			return m.says(s, "paid", "pay")
		case s.late:
			return m.says(s, "failed", "fail")
		}
		return answer{}, nil
	})
	for _, s := range some {
		then := func(really bool, outcome, of string) {
			if really {
				if _, err := m.says(s, outcome, of); err != nil {
					t.Fatal(err)
				}
			}
		}
		then(s.late, "paid", "late")
		if s.refund != "" {
			s.refundID = m.do(t, 201, "POST", "/v1/refunds", `{"payment_id":"`+s.id+`"}`).text(t, "id")
		}
		then(s.refund != "", "succeeded", "re")
		then(s.refund == "returned", "returned", "re")
		if s.route == "wallet" {
			continue
		}
		then(s.dispute != "", "disputed", "dp")
		then(s.dispute == "won" || s.dispute == "lost", "dispute_"+s.dispute, "dp")
	}
}

// disputes waits until the disputes are known of which reports of wallet have lines. That one is lost,
// which no report says, is recorded by hand.
func (m *month) disputes(t *testing.T, week int) {
	t.Helper()
	want := make(map[string]string)
	for _, s := range m.sales {
		if s.route == "wallet" && s.week == week && s.dispute != "" {
			if want[s.id] = s.dispute; s.dispute == "lost" {
				want[s.id] = "open"
			}
		}
	}
	eventually(t, "disputes are known by reports", func() bool {
		rows, err := csv.NewReader(bytes.NewReader(m.do(t, 200, "GET", "/v1/payments?disputed=true", "", "Accept", "text/csv").Body)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		known := make(map[string]string)
		for _, row := range rows {
			known[row[0]] = row[len(row)-1]
		}
		for id, status := range want {
			if known[id] != status {
				return false
			}
		}
		return true
	})
	for _, s := range m.sales {
		if want[s.id] != "" && s.dispute == "lost" {
			done(t, "dispute", "lost", s.id, s.reference("dp"), "--data", m.Data)
		}
	}
}

// report adds what the provider of a route says of a week.
func (m *month) report(route string, week int) *weekReport {
	r := &weekReport{route: route, name: fmt.Sprintf("%s-%d", route, week), week: week}
	for _, s := range m.sales {
		if s.week == week && s.route == route {
			r.lines = append(r.lines, s.lines()...)
		}
	}
	r.lines = append(r.lines, &reportLine{kind: "fee", reference: "terminal", fee: 30_00})
	m.reports = append(m.reports, r)
	return r
}

// imports imports the report. Those of wallet have our ids, those of cards only references.
func (m *month) imports(t *testing.T, r *weekReport) {
	t.Helper()
	text, waiting := "kind,reference,gross,fee,net,currency,settled_on,payment_id,refund_id\n", 0
	for _, l := range r.lines {
		id, refund := "", ""
		if l.of != nil && r.route == "wallet" {
			id = l.of.id
			if strings.HasPrefix(l.kind, "refund") {
				refund = l.of.refundID
			}
		}
		text += fmt.Sprintf("%s,%s,%s,%s,%s,RUB,2020-02-%02d,%s,%s\n", l.kind, l.reference, rubles(l.gross), rubles(l.fee), rubles(l.net()), 7*r.week+7, id, refund)
		switch {
		case l.result != "":
			waiting++
		case l.of != nil && l.of.held:
			waiting++
			fallthrough
		case l.of != nil:
			m.matched++
		}
	}
	file := filepath.Join(t.TempDir(), r.name+".csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := done(t, "settlement", "import", "--route", r.route, file, "--apply", "--data", m.Data)
	if want := fmt.Sprintf("%d lines, of which %d wait in suspense", len(r.lines), waiting); !strings.Contains(out, want) {
		t.Errorf("%s: %s, want %s", r.name, out, want)
	}
}

// arrives records that the report's payout is at the bank.
func (m *month) arrives(t *testing.T, r *weekReport) {
	t.Helper()
	done(t, "payout", "arrived", "--route", r.route, "--report", r.name, "--amount", rubles(r.net()), "--reference", "bank-"+r.name, "--data", m.Data)
}

// difference is one that reconcile must find.
func (m *month) difference(what, route string, of *sale, line, reference string, amount int64) string {
	d := settlement.Difference{What: what, Route: route, Line: line, Reference: reference, Amount: domain.SumOf(domain.Amount(amount)), Currency: "RUB"}
	if of != nil {
		d.ProjectID, d.PaymentID = m.ProjectID, of.id
	}
	return fmt.Sprintf("%+v", d)
}

// found requires that reconcile finds these differences and no others, all of an age in days.
func (m *month) found(t *testing.T, days int, want []string, args ...string) {
	t.Helper()
	out, code := payledger(t, append([]string{"reconcile", "--json", "--data", m.Data}, args...)...)
	var r wire.Reconciliation
	if err := json.UnmarshalDecode(jsontext.NewDecoder(strings.NewReader(out)), &r); err != nil {
		t.Fatalf("%d %s: %v", code, out, err)
	}
	var got []string
	for _, d := range r.Differences {
		if d.Days != days {
			t.Errorf("%+v: want %d days", d, days)
		}
		d.Since, d.Days = 0, 0
		got = append(got, fmt.Sprintf("%+v", d))
	}
	slices.Sort(got)
	slices.Sort(want)
	without := func(all, known []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(all), func(d string) bool { return slices.Contains(known, d) }), "\n")
	}
	if !slices.Equal(got, want) || code != min(len(want), 1) || r.Matched != m.matched {
		t.Fatalf("reconcile exits with %d, finds %d differences, want %d, and has matched %d lines, want %d. It finds\n%s\nand not\n%s",
			code, len(got), len(want), r.Matched, m.matched, without(got, want), without(want, got))
	}
}

// spoil makes four lines of the report wrong; one of them is in a report before.
func (m *month) spoil(t *testing.T, r, before *weekReport) {
	t.Helper()
	var plain []*reportLine
	for _, l := range slices.Concat(r.lines, before.lines) {
		if l.of != nil && len(l.of.lines()) == 1 {
			plain = append(plain, l)
		}
	}
	differs, misspelt, twice := plain[0], plain[1], *plain[len(plain)-1]
	differs.gross, differs.result, differs.is = differs.gross+1_00, "amount_differs", "--payment"
	misspelt.reference, misspelt.result, misspelt.is = "misspelt", "unknown_reference", "--payment"
	twice.result, twice.is = "settled_before", "--write-off"
	r.lines = append(r.lines, &twice, &reportLine{kind: "other", reference: "reserve", gross: 12_34, result: "other", is: "--fee"})
	for i, l := range r.lines {
		if l.result == "" {
			continue
		}
		named, at := l.of, settlement.LineID(r.id(), i+1)
		if l == misspelt {
			named = nil
		}
		m.planted = append(m.planted, m.difference(l.result, r.route, named, at, l.reference, -l.net()))
		how := []string{"settlement", "resolve", at, "--data", m.Data, "--reason", "the provider says so", l.is}
		if l.is == "--payment" {
			how = append(how, l.of.id)
			m.planted = append(m.planted, m.difference("not_reported", r.route, l.of, "", "", l.settles))
		}
		m.remedies = append(m.remedies, func() {
			done(t, how...)
			if l.is == "--payment" {
				m.matched++
			}
		})
	}
}

// sheet are the books as they must be in the end, by the lists of the test alone.
func (m *month) sheet(paidOut int64) (all []string) {
	books := make(map[string]int64)
	move := func(really bool, amount int64, debit, credit string) {
		if really {
			books[debit] += amount
			books[credit] -= amount
		}
	}
	merchant, operator := ":"+m.ProjectID, ":installation"
	payable := "liabilities:merchant_payable" + merchant
	for _, s := range m.sales {
		owed := "assets:acquirer_receivable:" + s.route + merchant
		move(s.paid, s.amount, owed, payable)
		move(s.late, s.amount, owed, "liabilities:suspense"+merchant)
		move(s.refund == "succeeded", s.amount, payable, owed)
		move(s.dispute == "lost", s.amount, payable, owed)
		move(s.dispute == "open", s.amount, payable, "liabilities:disputes_held"+merchant)
	}
	for _, r := range m.reports {
		for _, l := range r.lines {
			whose := merchant
			if l.of == nil {
				whose = operator
			}
			transit, fees, losses := "assets:settlement_transit:"+r.route+whose, "expenses:provider_fees"+whose, "expenses:losses"+whose
			if l.of != nil && r.route == "wallet" {
				fees = payable
			}
			settles := l.of != nil && l.is != "--write-off"
			move(settles, l.settles, transit, "assets:acquirer_receivable:"+r.route+whose)
			move(settles, l.gross-l.settles, transit, losses)
			move(settles, l.fee, fees, transit)
			move(l.of == nil, l.net(), transit, fees)
			move(l.is == "--write-off", l.net(), transit, losses)
		}
		move(true, r.net(), "assets:bank"+operator, "assets:settlement_transit:"+r.route+operator)
	}
	move(true, paidOut, payable, "assets:bank"+merchant)
	for _, account := range slices.Sorted(maps.Keys(books)) {
		all = append(all, account+" "+rubles(books[account])+" RUB")
	}
	return all
}

// TestMonthIsSettled plays a month: sales on two routes with refunds, disputes and late funds, and
// the weekly reports and payouts of the providers. Reconcile must name what goes wrong and nothing
// else; once it is put right the books must be those of a sheet that the test keeps by itself.
func TestMonthIsSettled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, routes := filepath.Join(dir, "data"), filepath.Join(dir, "routes.json")
	if err := os.WriteFile(routes, []byte(`{"rules":[{"route":"cards","max":"1000.00"},{"route":"wallet","min":"1000.01"}],
		"connectors":{"cards":{"type":"sandbox"},"wallet":{"type":"sandbox","fees_paid_by":"merchant"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	done(t, "init", "--data", data)
	m := &month{server: start(t, "serve", "--sandbox", "--data", data, "--routes", routes, "--nats-listen", "127.0.0.1:0", "--rate-writes", "0", "--log-level", "warn")}
	m.newProject(t)
	var err error
	if m.nc, err = m.asConnector(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.nc.Close)

	all := rounds(200, 5_000)
	for week := range 4 {
		var first, then, held []*sale
		for n := week * all / 4; n < (week+1)*all/4; n++ {
			s := newSale(n, all)
			m.sales = append(m.sales, s)
			switch {
			case week == 1 && n%4 == 3:
				then = append(then, s)
			case s.held:
				held = append(held, s)
			default:
				first = append(first, s)
			}
		}
		sales := slices.Concat(first, then, held)
		for i, created := range inParallel(t, len(sales), 32, func(i int) (answer, error) {
			return m.send("POST", "/v1/payments", `{"amount":"`+rubles(sales[i].amount)+`"}`)
		}) {
			sales[i].id = created.text(t, "id")
		}
		m.end(t, first)
		wallet := m.report("wallet", week)
		if week < 3 {
			m.imports(t, wallet)
		}
		m.arrives(t, wallet) // the last one before its report
		if week == 1 {       // the report of wallet has more than was paid here
			var early []string
			for _, s := range then {
				if s.owed() != 0 {
					early = append(early, m.difference("not_paid_here", s.route, s, "", "", -s.owed()))
				}
			}
			m.found(t, 0, early)
			m.end(t, then)
		}
		if week < 3 {
			m.disputes(t, week)
		}
		cards := m.report("cards", week)
		if week == 2 {
			m.spoil(t, cards, m.reports[1])
		}
		m.imports(t, cards)
		if week == 1 { // its payout is late
			m.planted = append(m.planted, m.difference("not_arrived", "cards", nil, cards.id(), "", cards.net()))
			m.remedies = append(m.remedies, func() { m.arrives(t, cards) })
		} else {
			m.arrives(t, cards)
		}
		if week == 0 { // its lines have references alone, which come now
			m.end(t, held)
			eventually(t, "lines match what came later", func() bool {
				return strings.Contains(done(t, "settlement", "show", cards.id(), "--waiting", "--data", m.Data), "No such lines")
			})
		}
		if week == 3 {
			m.planted = append(m.planted, m.difference("arrived_unreported", "wallet", nil, wallet.id(), "", -wallet.net()))
			m.remedies = append(m.remedies, func() {
				m.imports(t, wallet)
				m.disputes(t, week)
			})
		}
	}
	for _, s := range m.sales {
		if s.route == "wallet" && s.week == 3 && s.heard() != 0 {
			m.planted = append(m.planted, m.difference("not_reported", s.route, s, "", "", s.heard()))
		}
	}
	later := time.Now().Add(97 * time.Hour).UTC().Format(time.RFC3339) // than a report may take
	m.found(t, 4, m.planted, "--as-of", later)
	for _, remedy := range m.remedies {
		remedy()
	}
	m.found(t, 0, nil)
	m.found(t, 4, nil, "--as-of", later)

	const paidOut = 5_000_00
	done(t, "payout", "merchant", "--project", m.ProjectID, "--amount", rubles(paidOut), "--reference", "pp-1", "--data", data)
	got, _ := balances(t, data) // the debits of each book equal its credits
	if want := m.sheet(paidOut); !exporttest.EqualUnlessZero(got, want) {
		t.Errorf("the books are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	m.stops(t)
	done(t, "verify", "--data", data)
	done(t, "replay", "--check", "--data", data)
	journal := filepath.Join(dir, "month.hledger")
	done(t, "export", "--format", "hledger", "-o", journal, "--data", data)
	exporttest.Hledger(t, journal, "check", "--strict")
	if theirs := exporttest.HledgerBalances(t, journal); !exporttest.EqualUnlessZero(theirs, got) {
		t.Errorf("hledger has\n%s\nwant\n%s", strings.Join(theirs, "\n"), strings.Join(got, "\n"))
	}
}
