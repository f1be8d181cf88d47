package httpapi

import (
	"encoding/csv"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"payledger/domain"
)

var rowPattern = regexp.MustCompile(`<tr data-id="([^"]+)"`)

// rows are the ids of the payments a page lists.
func (s *screen) rows() []string {
	var ids []string
	for _, m := range rowPattern.FindAllStringSubmatch(s.Text, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// follow opens the link with this rel.
func (s *screen) follow(rel string) *screen {
	s.b.t.Helper()
	m := regexp.MustCompile(`rel="` + rel + `" href="([^"]+)"`).FindStringSubmatch(s.Text)
	if m == nil {
		s.b.t.Fatalf("%s has no link %s", s.at, rel)
	}
	return s.b.open("/account/" + strings.TrimPrefix(html.UnescapeString(m[1]), "./"))
}

func TestFindingPayments(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	b := s.browser().signIn(m)
	b.open("/account/payments").want(200).has("No payments yet", "payments/new").lacks("<table")
	ids := make(map[string]string)
	for name, body := range map[string]string{
		"green":  `{"amount":"100","description":"order 1042 green tea"}`,
		"black":  `{"amount":"2000.50","description":"order 1043 Black tea"}`,
		"nought": `{"amount":"3"}`,
		"dollar": `{"amount":"7","currency":"USD","description":"=1+1"}`,
	} {
		ids[name] = m.pay(body).want(201, "").object().ID
	}
	other := s.merchant("")
	other.pay(`{"amount":"5","description":"order 9 green"}`).want(201, "")
	for query, want := range map[string]string{
		"q=tea":                                "green black",
		"q=TEA+gre":                            "green",
		"q=order+104&match=prefix":             "green black",
		"q=order+1042+green+tea&match=exact":   "green",
		"q=order&match=exact":                  "",
		"status=created&currency=USD":          "dollar",
		"amount_from=100&amount_to=2+000%2C50": "green black",
		"amount_to=3":                          "nought",
		"amount_from=2+000%2C50+%E2%82%BD&amount_to=%E2%82%BD2,000.50": "black",
		"amount_from=%247&amount_to=7+USD":                             "dollar",
		"q=1042":                                                       "green",
		"from=2026-11-20&to=2026-11-20":                                "green black nought dollar",
		"from=1970-01-01&to=9999-12-31":                                "green black nought dollar",
		"to=2026-11-19":                                                "",
		"status=paid":                                                  "",
	} {
		page := b.open("/account/payments?" + query).want(200)
		got := page.rows()
		names := strings.Fields(want)
		if len(got) != len(names) {
			t.Errorf("%s: %d rows, want %s", query, len(got), want)
		}
		for _, n := range names {
			page.has(`data-id="` + ids[n] + `"`)
		}
		if want == "" {
			page.has("Nothing matches", "Clear filters")
		}
	}
	b.open("/account/payments?q=tea").has("2 payments", "₽2,100.50", `value="tea"`)
	b.open("/account/payments").has("₽2,103.50", "$7.00", "4 payments")
	for _, query := range []string{"amount_from=x", "amount_to=1.234", "from=yesterday", "status=lost", "q=%21%3F"} {
		b.open("/account/payments?"+query).want(400).has(`role="alert"`).lacks("No payments yet", "payments.csv", `data-hook="nothing"`)
	}
	b.open("/account/payments?amount_from=x").has("Enter an amount such as 1,500.50.", `placeholder="1,500.50"`, `value="x"`)
	b.open("/account/payments?amount_from=%247&currency=RUB").want(400).has("another currency: RUB is chosen")
	b.open("/account/payments?q=1042").has("payments?amount_from=1042&amp;amount_to=1042", "Show payments of 1042")
	b.open("/account/payments?status=lost").want(400).has("There is no such status", `aria-describedby="status-error"`)
	b.open("/account/payments?currency=lost").want(400).has("There is no such currency", `aria-describedby="currency-error"`)
	b.open("/account/payments?cursor=x").want(400).has("out of date")

	file := b.open("/account/payments.csv?q=order").want(200)
	if kind := file.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/csv") {
		t.Error(kind)
	}
	if d := file.Header.Get("Content-Disposition"); !strings.HasPrefix(d, `attachment; filename="payments-`) {
		t.Error(d)
	}
	file.has(ids["green"], ids["black"]).lacks(ids["dollar"], "9 green")
	b.open("/account/payments.csv?currency=USD").has("'=1+1")
	b.open("/account/payments.csv?amount_from=x").want(400)

	// A double click opens it in the reader's spreadsheet, whatever it is filled with.
	for lang, want := range map[string]struct {
		separator rune
		amount    string
	}{"en": {',', "2000.50"}, "ru": {';', "2000,50"}} {
		text, marked := strings.CutPrefix(b.open("/account/payments.csv?amount_from=2000&lang="+lang).want(200).Text, "\ufeff")
		r := csv.NewReader(strings.NewReader(text))
		r.Comma = want.separator
		rows, err := r.ReadAll()
		if err != nil || !marked || len(rows) != 2 || rows[0][2] != "amount" || rows[1][2] != want.amount {
			t.Errorf("%s: %v, %q", lang, err, text)
		}
	}
}

func TestPagesOfPayments(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	for i := range 60 {
		m.pay(fmt.Sprintf(`{"amount":"%d","description":"order %d"}`, i+1, i)).want(201, "")
	}
	b := s.browser().signIn(m)
	first := b.open("/account/payments?q=order").want(200).has("60 payments").lacks(`rel="prev"`)
	second := first.follow("next").want(200)
	third := second.follow("next").want(200).lacks(`rel="next"`)
	seen := make(map[string]bool)
	for _, p := range []*screen{first, second, third} {
		for _, id := range p.rows() {
			if seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d payments on three pages", len(seen))
	}
	back := third.follow("prev")
	if strings.Join(back.rows(), " ") != strings.Join(second.rows(), " ") {
		t.Error("Newer does not lead to the page before")
	}
	if strings.Join(back.follow("prev").rows(), " ") != strings.Join(first.rows(), " ") {
		t.Error("Newer does not lead to the first page")
	}
}

func TestSearchLeadsWhereAnIDBelongs(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10"}`).want(201, "").object()
	id, _ := domain.ParseID(p.ID)
	s.settle(m, id, domain.OutcomePaid)
	r := m.refund(p.ID).want(201, "").object()
	var event string
	for rec, err := range s.store.Scan(t.Context(), 0, filterOf(m.project)) {
		if err != nil {
			t.Fatal(err)
		}
		event = rec.Commit.String()
	}
	find := func(q string) string {
		return b.open("/account/search?q=" + url.QueryEscape(q)).want(303).Header.Get("Location")
	}
	for q, want := range map[string]string{
		p.ID:                  "./payments/" + p.ID,
		" " + p.ID + " ":      "./payments/" + p.ID,
		strings.ToLower(p.ID): "./payments/" + p.ID,
		p.Instructions.URL:    "./payments/" + p.ID,
		r.ID:                  "./payments/" + p.ID + "#" + r.ID,
		event:                 "./payments/" + p.ID + "#" + event,
		"green tea":           "./payments?q=green+tea",
		"":                    "./payments",
		"10":                  "./payments?amount_from=10&amount_to=10", // no description has it
		"₽10.00":              "./payments?amount_from=%E2%82%BD10.00&amount_to=%E2%82%BD10.00&currency=RUB",
		"10,00 ₽":             "./payments?amount_from=10%2C00+%E2%82%BD&amount_to=10%2C00+%E2%82%BD&currency=RUB",
		"11.00 RUB":           "./payments?q=11.00+RUB", // there is none
	} {
		if got := find(q); got != want {
			t.Errorf("%q leads to %s, want %s", q, got, want)
		}
	}
	// A list that was searched for words offers the payments of the amount that they can mean.
	for q, amount := range map[string]string{"10": "amount_from=10&amp;amount_to=10", "10,00 ₽": "currency=RUB", "1042": "amount_from=1042"} {
		b.open("/account/payments?q="+url.QueryEscape(q)).want(200).has(`data-hook="as-amount"`, amount)
	}
	b.open("/account/payments?q=green+tea").want(200).lacks(`data-hook="as-amount"`)
	for _, unknown := range []string{"01M7W78FJBM8T4R7B5N0C1D2E3", "01m7w78fjbm8t4r7b5n0c1d2e3", "%2001M7W78FJBM8T4R7B5N0C1D2E3%20"} {
		b.open("/account/search?q=" + unknown).want(404).has("The id was not found")
	}
	// A merchant's own number may look like an id, too.
	for _, order := range []string{"00000000000000000000001042", "01M7W78FJBM8T4R7B5N0C1D2E4"} {
		mine := m.pay(`{"amount":"10","description":"order `+order+`"}`).want(201, "").object()
		b.open("/account/search?q=" + strings.ToLower(order)).leads("/account/payments?q=" + strings.ToLower(order)).want(200).has("payments/" + mine.ID)
		b.open("/account/payments?match=exact&q=order+" + order).want(200).has("payments/" + mine.ID)
		b.open("/account/payments?match=words&status=failed&q=" + order).leads("/account/search?q=" + order).leads("/account/payments?q=" + order).want(200)
	}
	theirs := s.browser().signIn(s.merchant(""))
	theirs.open("/account/search?q=" + p.ID).want(404)
	b.open("/account/payments/"+p.ID).want(200).has(`id="`+event+`"`, `id="`+r.ID+`"`)
	if got := b.open("/account/payments?q=" + p.ID).want(303).Header.Get("Location"); got != "./search?q="+p.ID {
		t.Error(got)
	}
}

func TestProofsAreProofs(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10","payload":{"x":"\u0416<"}}`).want(201, "").object()
	link := regexp.MustCompile(`href="([^"]+/proof)"`).FindStringSubmatch(b.open("/account/payments/" + p.ID).Text)
	if link == nil {
		t.Fatal("no link to a proof")
	}
	page := b.open("/account/" + strings.TrimPrefix(link[1], "../")).want(200)
	report, err := s.judge([]byte(page.Text))
	if err != nil || report.Payment.String() != p.ID || report.Amount != 1000 {
		t.Errorf("%+v: %v", report, err)
	}
	for _, id := range []string{"nope", domain.ID{1}.String()} {
		b.open("/account/payments/" + id + "/proof").want(404)
	}
	s.browser().signIn(s.merchant("", "read")).open("/account/payments/" + p.ID).want(404)
	reader := s.merchant("", "read", "payments:write")
	q := reader.pay(`{"amount":"10"}`).want(201, "").object()
	r := s.browser().signIn(reader)
	r.open("/account/payments/" + q.ID).want(200).lacks("/proof\"")
}

// A filter of a currency that the project no longer takes stays when the form is sent again.
func TestFilterOfAFormerCurrency(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	m.settle(`{"amount":"5"}`, "paid", "")
	m.settle(`{"amount":"7","currency":"USD"}`, "paid", "")
	b := s.browser().signIn(m)
	for _, left := range []string{`["RUB"]`, `["RUB","EUR"]`} {
		s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":{"currencies":`+left+`}}`).want(200, "")
		b.open("/account?lang=en&currency=USD").want(200).has("payments?status=paid&amp;currency=USD")
		b.open("/account/payments?currency=USD").want(200).has("<option selected>USD</option>", "1 payment")
		b.open("/account/payments?currency=lost").want(400).lacks("<option selected>")
	}
}

func TestPagesAreRefusedAsPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	b := s.browser().signIn(s.merchant(""))
	b.open("/account/nothing").want(404).has("There is no such page")
	b.open("/account/payments/").want(404)
	b.open("/account/payments/nope").want(404).has("no such payment")
	b.open("/account/payments/nope?lang=ru").want(404).has("нет такого платежа", `lang="ru"`)
	b.open("/account/payments").has(`lang="ru"`, "Платежи") // it is remembered
	for path, allow := range map[string]string{
		"session": "GET, HEAD", "signout": "POST", "payments/new": "GET, HEAD, POST", "webhooks/new": "GET, HEAD, POST",
	} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/account/"+path, nil))
		if got := b.send(r).want(405).Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", path, got, allow)
		}
	}
}
