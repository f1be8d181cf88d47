package httpapi

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/wire"
	"payledger/projections"
)

// TestReportOrOutcomesFirst: what a merchant reads of a report is the same, byte for byte, whether the
// report or the outcomes come first, in pages of any size, and from views that are built anew.
func TestReportOrOutcomesFirst(t *testing.T) {
	t.Parallel()
	live, anew := readReport(t, true)
	want, _ := readReport(t, false)
	if d := cmp.Diff(want, live); d != "" {
		t.Errorf("-outcomes first +report first:\n%s", d)
	}
	if d := cmp.Diff(live, anew); d != "" {
		t.Errorf("-live +built anew:\n%s", d)
	}
	for name, numbers := range map[string]string{"one": "1,2,4,5", "other": "3"} {
		for limit := 1; limit <= 6; limit++ {
			if got := strings.Join(numbersOf(want[fmt.Sprint(name, " ", limit)]), ","); got != numbers {
				t.Errorf("%s in pages of %d: lines %s, want %s", name, limit, got, numbers)
			}
		}
	}
}

// numbersOf are the numbers of the lines in an answer.
func numbersOf(answer string) (all []string) {
	for _, part := range strings.Split(answer, `{"number":`)[1:] {
		number, _, _ := strings.Cut(part, ",")
		all = append(all, number)
	}
	return all
}

// readReport has a report of five lines, of which three have only the references of their payments, and
// the outcomes of those before or after it. It returns what two merchants read of it, by what they asked
// for, from the views that were there and from new ones.
func readReport(t *testing.T, reportFirst bool) (live, anew map[string]string) {
	t.Helper()
	const report = "sandbox:r"
	s := start(t, withAccount(t))
	one, other := s.merchant(""), s.merchant("")
	shops := []shop{one, one, other, one, one}
	var ids, lines, names []string
	for i, of := range shops {
		id := of.pay(`{"amount":"1500.00"}`).want(201, "").object().ID
		of.route(id)
		ids, names = append(ids, id), append(names, id, fmt.Sprint("PAYMENT", i+1))
		if i > 0 && i < 4 {
			id = ""
		}
		lines = append(lines, lineOf(i+1, id))
	}
	pay := func(i int) {
		t.Helper()
		if _, err := s.decide(t.Context(), shops[i].project, mustID(t, ids[i]), domain.ApplySignal{Signal: domain.Signal{
			Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: fmt.Sprint("r", i+1), Amount: 150000, Currency: "RUB", StartedAt: domain.InstantOf(s.clock.Now()),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	match := func(i int) { // pays it, and does what the worker does then
		t.Helper()
		pay(i)
		book := settlement.Book{Project: eventstore.KindInstallation, Route: domain.SandboxRoute, Report: "r"}
		if _, err := eventstore.Execute(t.Context(), s.cfg.Ledger, eventstore.BookStream(book.Project, report), book, settlement.BookCommand(settlement.ResolveLine{
			Number: i + 1, To: settlement.Matched, Payment: ids[i], Project: shops[i].project, Settles: domain.SumOf(150000), Currency: "RUB", FeesPaidBy: settlement.ByOperator,
		}), eventstore.Order{EventID: s.cfg.IDs.Next()}); err != nil {
			t.Fatal(err)
		}
	}
	pay(0)
	pay(4)
	if !reportFirst {
		pay(1)
		pay(2)
		pay(3)
	}
	s.adminDo("POST", "/admin/settlements", opened("r", "01", len(lines))).want(201, "")
	s.adminDo("POST", "/admin/settlements/"+report+"/lines", batchOf(lines...)).want(200, "")
	if reportFirst {
		other.get("/v1/settlements/"+report).want(404, domain.SettlementNotFound)
		match(2) // the only line of its merchant, while the report is recorded
		s.adminDo("POST", "/admin/settlements/"+report+"/lines", batchOf(lines...)).want(200, "")
	}
	s.adminDo("POST", "/admin/settlements/"+report+"/close", "").want(200, "")
	if reportFirst {
		match(3)
		match(1)
	}
	var all wire.SettlementPage
	s.adminDo("GET", "/admin/settlements/"+report, "").want(200, "").decode(&all)
	if len(all.Data) != len(lines) || all.Lines != len(lines) || all.Waiting != 0 {
		t.Errorf("the operator sees %+v", all)
	}
	s.browser().signIn(one).open("/account/payments/" + ids[1]).want(200).has(`data-hook="settled"`)

	views, err := projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(t.TempDir(), "anew.db"), Store: s.store, Codec: s.cfg.Ledger.Codec, LogID: domain.ID{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = views.Close() })
	read := func(on *server) map[string]string {
		t.Helper()
		said := make(map[string]string)
		for name, m := range map[string]shop{"one": one.on(on), "other": other.on(on)} {
			said[name] = string(m.get("/v1/settlements").want(200, "").Body)
			for _, query := range []string{"", "&waiting=false", "&waiting=true"} {
				for limit := 1; limit <= len(lines)+1; limit++ {
					at := fmt.Sprint("/v1/settlements/", report, "?limit=", limit, query)
					for next := ""; ; {
						var page wire.SettlementPage
						m.get(at+next).want(200, "").decode(&page)
						cursor := page.NextCursor
						page.NextCursor = nil // its text is sealed at random
						text, err := json.Marshal(page)
						if err != nil {
							t.Fatal(err)
						}
						if said[fmt.Sprint(name, " ", limit, query)] += strings.NewReplacer(names...).Replace(string(text)); cursor == nil {
							break
						}
						next = "&cursor=" + *cursor
					}
				}
			}
		}
		return said
	}
	return read(s), read(s.again(func(of *settings) { of.Views = views }))
}
