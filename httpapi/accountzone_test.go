package httpapi

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// settle creates a payment and decides its outcome, then that of its refund; ""
// leaves it open or not refunded.
func (m shop) settle(body, outcome, refund string) string {
	m.s.t.Helper()
	m.s.clock.advance(time.Millisecond)
	id := m.pay(body).want(201, "").object().ID
	if outcome == "" {
		return id
	}
	m.route(id)
	m.post("/v1/sandbox/payments/"+id, fmt.Sprintf(`{"outcome":%q}`, outcome)).want(200, "")
	if refund != "" {
		r := m.refund(id).want(201, "").object().ID
		if refund != "pending" {
			m.post("/v1/sandbox/refunds/"+r, fmt.Sprintf(`{"outcome":%q}`, refund)).want(200, "")
		}
	}
	return id
}

// TestDaysOfAnyZone adds up the rows of each day, filtered by that day, in zones
// with offsets of half and quarter hours and around days of 23, 24 and 25 hours. The
// sums are those of the overview and the list, and each row is on the day it was
// filtered by.
func TestDaysOfAnyZone(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	in := m.session()
	random := rand.New(rand.NewPCG(11, 20))
	s.clock.ms.Store(time.Date(2027, 3, 25, 22, 0, 0, 0, time.UTC).UnixMilli()) // clocks change on the 28th in Europe
	begin := s.clock.Now()
	for i := range 150 {
		s.clock.advance(time.Duration(random.IntN(90)) * time.Minute)
		outcome := []string{"", "paid", "paid", "failed"}[random.IntN(4)]
		refund := []string{"", "succeeded", "failed", "pending"}[random.IntN(4)]
		if outcome != "paid" {
			refund = ""
		}
		m.settle(fmt.Sprintf(`{"amount":"%d.07","currency":%q}`, 1+i, []string{"RUB", "RUB", "USD"}[random.IntN(3)]), outcome, refund)
	}
	for _, zone := range []string{"", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Pacific/Niue", "Africa/Cairo", "Australia/Lord_Howe"} {
		s.adminDo("POST", "/admin/projects/"+m.project, fmt.Sprintf(`{"settings":{"time_zone":%q}}`, zone)).want(200, "")
		days := must(merchant.LoadCalendar(zone))
		first, last := days.Day(domain.InstantOf(begin)), days.Day(domain.InstantOf(s.clock.Now()))
		v := must(in.api.Overview(t.Context(), in.caller(), values(fmt.Sprintf("from=%s&to=%s", first, last))))
		var found int
		for d := first; d <= last; d++ {
			from, to := days.Start(d), days.Start(d+1)
			filter := url.Values{"created_from": {from.String()}, "created_to": {to.String()}, "limit": {"100"}}
			created := make(map[domain.Currency]wire.Tally)
			for _, p := range must(merchant.PageOf(in.api.Payments)(t.Context(), in.caller(), filter)).Data {
				created[p.Currency] = created[p.Currency].Plus(wire.Tally{Count: 1, Sum: domain.SumOf(p.Amount)})
				if got := p.CreatedAt.Time().In(days.Zone()).Format(time.DateOnly); got != d.String() {
					t.Errorf("%s: a payment of %s is among those of %s", zone, got, d)
				}
				found++
			}
			filter.Del("limit")
			totals := make(map[domain.Currency]wire.Tally)
			for _, row := range must(in.api.Totals(t.Context(), in.caller(), filter)).Data {
				totals[row.Currency] = totals[row.Currency].Plus(row.Tally)
			}
			for _, c := range v.Currencies {
				if got := c.Days[d-first]; got.Date != d.String() || got.Created != created[c.Currency] || totals[c.Currency] != created[c.Currency] {
					t.Errorf("%s, %s: overview %+v, totals %+v, rows %+v", zone, d, got, totals[c.Currency], created[c.Currency])
				}
			}
		}
		if found != 150 {
			t.Errorf("%s: %d payments found", zone, found)
		}
		if want := days.Zone().String(); v.TimeZone != want {
			t.Errorf("zone %s, want %s", v.TimeZone, want)
		}
	}
}

// The chart names no day with its year, although the year begins earlier in the project's zone
// than in UTC.
func TestChartOnNewYear(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	s.clock.ms.Store(time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC).UnixMilli())
	m := s.merchant(`{"time_zone":"Asia/Kolkata"}`)
	m.settle(`{"amount":"77.70"}`, "paid", "")
	b := s.browser()
	b.signIn(m)
	b.open("/account?lang=en&from=2027-01-01&to=2027-01-02").want(200).has(">01\u00a0Jan<", ">02\u00a0Jan<").lacks(">01\u00a0Jan\u00a02027<")
}

// A payment made at 23:30 UTC is on the day of the project's zone in lists, files
// and the overview, and that day finds it.
func TestAccountInZone(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	s.clock.ms.Store(time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC).UnixMilli())
	m := s.merchant(`{"time_zone":"Asia/Kolkata"}`)
	id := m.settle(`{"amount":"77.70","description":"late tea"}`, "paid", "")
	b := s.browser()
	b.signIn(m)
	b.open("/account/payments?lang=en&from=2026-11-21&to=2026-11-21").want(200).
		has(id, "21\u00a0Nov\u00a02026,\u00a005:00", "Asia/Kolkata, UTC&#43;5:30")
	if p := b.open("/account/payments?from=2026-11-20&to=2026-11-20").want(200); strings.Contains(p.Text, id) {
		t.Error("it is shown under the day of UTC as well")
	}
	b.open("/account/payments.csv?from=2026-11-21&to=2026-11-21").want(200).has(id, "2026-11-21T05:00:00.001+05:30")
	b.open("/account?lang=en&from=2026-11-21&to=2026-11-21").want(200).has("21\u00a0November\u00a02026", "₽77.70")
	b.open("/account/balance?lang=en&from=2026-11-21&to=2026-11-21").want(200).has("21\u00a0Nov\u00a02026,\u00a005:00", "₽77.70")
	b.open("/account/settings?lang=en").want(200).has("Asia/Kolkata, UTC&#43;5:30")
	if _, rows := m.csv("/v1/payments"); rows[0][6] != "2026-11-21T05:00:00.001+05:30" {
		t.Errorf("%q", rows)
	}
}

// A list that goes on with the days of another time zone than it began with says so: no filter is
// wrong.
func TestZoneChangesBetweenPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	for range 26 {
		m.settle(`{"amount":"1"}`, "paid", "")
	}
	b := s.browser().signIn(m)
	filter := "from=" + s.clock.Now().Format(time.DateOnly)
	for _, list := range []string{"payments", "balance"} {
		s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":{"time_zone":"UTC"}}`).want(200, "")
		first := b.open("/account/" + list + "?lang=en&" + filter)
		first.follow("next").want(200)
		s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":{"time_zone":"Europe/Berlin"}}`).want(200, "")
		first.follow("next").want(400).has("out of date", filter[len("from="):]).lacks("cannot be used", "Write a day", "Nothing matches")
	}
}

// TestRefundsShow: every state of a refund in the API's list, the account's list and
// the totals.
func TestRefundsShow(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	byRefund := map[string]string{
		"none":      m.settle(`{"amount":"1"}`, "paid", ""),
		"pending":   m.settle(`{"amount":"10"}`, "paid", "pending"),
		"succeeded": m.settle(`{"amount":"100"}`, "paid", "succeeded"),
		"failed":    m.settle(`{"amount":"1000"}`, "paid", "failed"),
	}
	again := m.settle(`{"amount":"10000"}`, "paid", "failed")
	retried := m.refund(again).want(201, "").object().ID
	b := s.browser()
	b.signIn(m)
	marks := map[string]string{"pending": "Refund pending", "succeeded": "Refunded", "failed": "Refund failed"}
	for status, id := range byRefund {
		want := []string{id}
		if status == "pending" {
			want = []string{again, id}
		}
		if got := m.list("/v1/payments?status=paid&refund_status=" + status).ids(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", status, got, want)
		}
		_, rows := m.csv("/v1/payments?refund_status=" + status)
		if len(rows) != len(want) || rows[0][7] != strings.TrimPrefix(status, "none") {
			t.Errorf("%s: %q", status, rows)
		}
		page := b.open("/account/payments?lang=en&refund=" + status).want(200).has(want...)
		if n := strings.Count(page.Text, "data-id="); n != len(want) {
			t.Errorf("%s: %d rows", status, n)
		}
		if mark := marks[status]; mark != "" {
			page.has(`data-refund="`+status+`"`, mark+"</span>")
			b.open("/account/payments/" + id + "?lang=en").want(200).has(mark + "</span></h1>")
		}
	}
	m.post("/v1/sandbox/refunds/"+retried, `{"outcome":"succeeded"}`).want(200, "")
	b.open("/account/payments?lang=en").want(200).has("paid ₽11,111.00", "refunded ₽10,100.00", "after refunds ₽1,011.00")
	b.open("/account/payments?lang=en&amount_from=5000").want(200).has("paid ₽10,000.00", "refunded ₽10,000.00", "after refunds ₽0.00")
	b.open("/account?lang=en").want(200).has("₽11,111.00", "₽10,100.00", "₽1,011.00", "of these refunded")

	if p := m.get("/v1/payments?refund_status=refunded").want(400, domain.InvalidParameter).problem(); p.Detail == "" || p.Parameter != "refund_status" ||
		!strings.Contains(string(m.get("/v1/payments?refund_status=refunded").Body), "succeeded") {
		t.Errorf("%+v", p)
	}
	b.open("/account/payments?lang=en&refund=maybe").want(400).has("There is no such value.", `id="refund-error"`)
}

// TestRefundsAtProviderShow: money that was returned at the provider outside
// payledger, all or part of it, with and without a failed refund of ours.
func TestRefundsAtProviderShow(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	byHand := func(payment string, amount domain.Amount) {
		t.Helper()
		id, _ := domain.ParseID(payment)
		p, _, err := eventstore.Fold(t.Context(), s.cfg.Ledger, eventstore.PaymentStream(m.project, id), domain.Payment{Project: m.project, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.decide(t.Context(), m.project, id, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
			Reference: p.PaidReference, RefundReference: fmt.Sprint("by hand ", len(p.ProviderRefunds)), Amount: amount, Currency: "RUB",
		}}); err != nil {
			t.Fatal(err)
		}
	}
	whole := m.settle(`{"amount":"100"}`, "paid", "failed")
	part := m.settle(`{"amount":"1000"}`, "paid", "")
	kept := m.settle(`{"amount":"10"}`, "paid", "")
	byHand(whole, 100_00)
	byHand(part, 100_00)
	byHand(part, 50_50)
	if got := m.list("/v1/payments?refund_status=refunded_at_provider").ids(); !slices.Equal(got, []string{part, whole}) {
		t.Errorf("%v", got)
	}
	if got := m.list("/v1/payments?status=paid&refund_status=none").ids(); !slices.Equal(got, []string{kept}) {
		t.Errorf("%v", got)
	}
	if _, rows := m.csv("/v1/payments"); rows[0][7] != "" || rows[1][7] != "refunded_at_provider" || rows[2][7] != "refunded_at_provider" {
		t.Errorf("%q", rows)
	}
	b := s.browser()
	b.signIn(m)
	b.open("/account/payments?lang=en&refund=refunded_at_provider").want(200).
		has(">Refunded by the provider</span>", ">Partly refunded by the provider</span>", "paid ₽1,100.00", "refunded ₽250.50", "after refunds ₽849.50")
	b.open("/account/payments?lang=en").want(200).has("paid ₽1,110.00", "refunded ₽250.50", "after refunds ₽859.50")
	b.open("/account/payments?lang=en&amount_from=500").want(200).has("paid ₽1,000.00", "refunded ₽150.50", "after refunds ₽849.50")
	b.open("/account?lang=en").want(200).has("₽250.50", "₽859.50", "of these refunded").
		has("The provider returned money without our request:</strong> ₽250.50", `>Returned by the provider</span><strong class="value">₽250.50<`).
		lacks("Money arrived that does not count", "Late funds")
	overview := b.open("/account?lang=en").Text
	found := 0
	for _, link := range regexp.MustCompile(`href="\./account/(payments\?refund=[^"]+)"|href="\./(payments\?refund=[^"]+)"`).FindAllStringSubmatch(overview, -1) {
		found += len(b.open("/account/" + html.UnescapeString(link[1]+link[2])).want(200).rows())
	}
	if !strings.Contains(overview, `<td class="num">2</td><td class="num">₽250.50</td>`) || found != 2 {
		t.Errorf("the overview counts other refunds than the %d that it leads to", found)
	}
	b.open("/account/balance?lang=en").want(200).has(`>Returned by the provider</span><strong class="value">₽250.50<`).lacks(">Late funds</span>")
	b.open("/account/payments/"+whole+"?lang=en").want(200).
		has("Refunded by the provider</span></h1>", "The provider has returned ₽100.00 without our request.")
	b.open("/account/payments/"+part+"?lang=en").want(200).
		has("Partly refunded by the provider</span></h1>", "The provider has returned ₽150.50 without our request.")
	b.open("/account/payments/"+part+"/refund?lang=en").want(200).has("without our request", "refuse")
	m.refund(part).want(201, "")
	b.open("/account/payments/"+part+"?lang=ru").want(200).has("Возврат в обработке</span></h1>", "без нашего запроса")
	b.open("/account/payments?lang=ru&refund=refunded_at_provider").want(200).has("Возвращён провайдером</span>")
	b.open("/account/payments?lang=en").want(200).has("refunded ₽250.50")
	m.refund(whole).want(201, "") // the provider is asked whether it returns the whole amount once more
}

// TestOverviewByCurrency: the overview shows one currency at a time, first the one
// with most money.
func TestOverviewByCurrency(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant(`{"currencies":["EUR","RUB","USD"]}`)
	m.settle(`{"amount":"5","currency":"EUR"}`, "paid", "")
	m.settle(`{"amount":"300"}`, "paid", "")
	b := s.browser()
	b.signIn(m)
	page := b.open("/account?lang=en").want(200).has(`aria-current="page">RUB</a>`, "₽300.00", `currency=EUR`)
	if strings.Contains(page.Text, "€") || strings.Contains(page.Text, ">USD<") {
		t.Errorf("it shows the other currencies too:\n%s", page.Text)
	}
	if rub, eur := strings.Index(page.Text, ">RUB</a>"), strings.Index(page.Text, ">EUR</a>"); rub < 0 || eur < rub {
		t.Errorf("EUR comes before RUB, which has more money: %d, %d", eur, rub)
	}
	b.open("/account?lang=en&currency=EUR").want(200).has(`aria-current="page">EUR</a>`, "€5.00", `name="currency" value="EUR"`, "currency=EUR&amp;from=")
	b.open("/account?lang=en&currency=GBP").want(200).has(`aria-current="page">RUB</a>`)
}
