package httpapi

import (
	"context"
	"html"
	"iter"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// made sends a form of a page, which is answered with the secret that it makes.
func (s *screen) made(hook, path string, fields url.Values) *screen {
	s.b.t.Helper()
	fields.Set("form", s.token(hook))
	return s.b.post(path, fields).want(http.StatusOK)
}

// complete sends a form of a page and opens the page it redirects to.
func (s *screen) complete(hook, path string, fields url.Values) *screen {
	s.b.t.Helper()
	if fields == nil {
		fields = url.Values{}
	}
	fields.Set("form", s.token(hook))
	sent := s.b.post(path, fields)
	sent.want(http.StatusSeeOther)
	base, err := url.Parse(s.b.s.url + path)
	if err != nil {
		s.b.t.Fatal(err)
	}
	to, err := base.Parse(sent.Header.Get("Location"))
	if err != nil {
		s.b.t.Fatal(err)
	}
	return s.b.open(to.RequestURI())
}

var secretOnPage = regexp.MustCompile(`<p class="secret"><code>([^<]+)</code>`)

// secret is the secret that a page shows once.
func (s *screen) secret() string {
	s.b.t.Helper()
	m := secretOnPage.FindStringSubmatch(s.want(http.StatusOK).Text)
	if m == nil {
		s.b.t.Fatalf("no secret on\n%s", s.Text)
	}
	return html.UnescapeString(m[1])
}

// Every page of an empty account opens in both languages and says what to do first.
func TestEmptyAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	for path, want := range map[string]string{
		"": "Create the first payment", "refunds": "No refunds yet", "webhooks": "No endpoints yet", "keys": "you are signed in with it",
		"balance": "Nothing is booked yet", "events": "No events yet", "settings": "Limits of payments",
		"keys/new": "The key is shown once", "webhooks/new": "Events of payments",
		"refunds?status=pending": "Nothing matches", "events?payment_id=x": "Nothing matches",
	} {
		b.open("/account/"+path).want(200).has(want, `<html lang="en">`, `aria-current="page"`)
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		b.open("/account/" + path + sep + "lang=ru").want(200).has(`<html lang="ru">`).lacks(want)
		b.open("/account/" + path + sep + "lang=en")
	}
	for path, status := range map[string]int{
		"webhooks/we_x": 404, "webhooks/we_x/rotate": 404, "keys/key_x/revoke": 404, "nosuch": 404,
		"refunds?status=x": 400, "refunds?cursor=x": 400, "?from=x": 400, "balance?from=x": 400, "events?before=x": 400, "events?before=0": 400,
	} {
		b.open("/account/" + path).want(status)
	}
	b.open("/account/refunds?status=x").want(400).has(`role="alert"`, "The filter “Status” has a value").lacks("Nothing matches")
	b.open("/account/refunds?cursor=x").want(400).has("out of date").lacks("No refunds yet")
	b.open("/account/events?before=x").want(400).has("out of date").lacks("No events yet")
	b.open("/account/?from=2026-13-40").has(`role="alert"`, "The filter “From day” has a value")
	for query, label := range map[string]string{"account=x": "Счёт", "from=x": "С дня", "to=x": "По день"} {
		b.open("/account/balance?lang=ru&" + query).want(400).has("Неверное значение фильтра «" + label + "»")
	}
	b.open("/account/webhooks/" + m.newEndpoint() + "?lang=ru&state=x").want(400).has("Неверное значение фильтра «Статус»")
}

func TestOverviewPage(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	paid := m.paid() // 1500.00
	r := m.refund(paid).want(201, "").object().ID
	m.post("/v1/sandbox/refunds/"+r, `{"outcome":"succeeded"}`).want(200, "")
	open := m.pay(`{"amount":"7.50"}`).want(201, "").object().ID
	failed := m.pay(`{"amount":"2"}`).want(201, "").object().ID
	m.route(failed)
	m.post("/v1/sandbox/payments/"+failed, `{"outcome":"failed"}`).want(200, "")

	page := b.open("/account").want(200)
	page.has(`role="img"`, "<title id=", "<desc id=", "chart-paid", "chart-back", "chart-grid", "₽1,500.00", "1 payment", "1 refund", "50.0%", "₽1,500.00 paid and").
		lacks("<style", ` style="`) // which the policy of the pages forbids
	b.open("/account/?from=2026-11-20&to=2026-11-20&lang=ru").has("1\u00a0500,00\u00a0₽", "20\u00a0ноября\u00a02026", "50,0\u00a0%")
	b.open("/account/?from=2026-01-01&to=2026-01-02&lang=en").has("Nothing was paid or refunded on these days").lacks("chart-paid ")

	// Each alert says what the merchant can do.
	s.clock.advance(2 * time.Minute)
	b.open("/account").has(`data-hook="alert-payments_not_routed"`, open, "Its customer cannot pay yet")
	e := b.addEndpoint("https://hooks.example.com/a")
	s.hooks.mu.Lock()
	s.hooks.failing = map[string]domain.Instant{e: domain.InstantOf(s.clock.Now())}
	s.hooks.mu.Unlock()
	b.open("/account").has(`data-hook="alert-endpoint_failing"`, "https://hooks.example.com/a", "/webhooks/"+e)
	failing := `<span class="badge bad">Failing</span>`
	b.open("/account/webhooks").has(failing, "Refused with 503")
	at := b.open("/account/webhooks/"+e).has(failing, "Failing since", "Last failed attempt:", "Refused with 503", "&lt;b&gt;busy").lacks("<b>busy")
	at.complete("toggle", "/account/webhooks/"+e+"/disable", nil).has("The endpoint is disabled. Notifications are kept.", "disabled by hand")
	b.open("/account").has(`data-hook="alert-endpoint_disabled"`)
	b.open("/account/webhooks/"+e).complete("toggle", "/account/webhooks/"+e+"/enable", nil).has("The endpoint is enabled.")
}

// addEndpoint adds an endpoint with the kinds that are preselected, and returns its
// id.
func (b *browser) addEndpoint(address string) string {
	b.t.Helper()
	shown := b.open("/account/webhooks/new").made("endpoint", "/account/webhooks/new", url.Values{
		"url": {address}, "about": {"orders"}, "kinds": {"payment.paid", "refund.succeeded"},
	})
	if secret := shown.secret(); !strings.HasPrefix(secret, "whsec_") {
		b.t.Errorf("secret %q", secret)
	}
	shown.has("shown only once", "data-copy=")
	b.open(shown.at).lacks("data-copy=")
	id := regexp.MustCompile(`webhooks/(we_\w+)`).FindStringSubmatch(shown.Text)
	if id == nil {
		b.t.Fatal(shown.Text)
	}
	return id[1]
}

func TestWebhookPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)

	for _, c := range []struct {
		fields url.Values
		want   string
	}{
		{url.Values{"url": {"ftp://x"}, "kinds": {"payment.paid"}}, "must begin with https://"},
		{url.Values{"url": {"https://x.example"}}, "Choose at least one"},
		{url.Values{"url": {"https://x.example"}, "kinds": {"nosuch"}}, `role="alert"`},
		{url.Values{"url": {"https://x.example"}, "kinds": {"payment.paid"}, "about": {strings.Repeat("x", 129)}}, "This is too long."},
	} {
		c.fields.Set("form", b.open("/account/webhooks/new").token("endpoint"))
		answer := b.post("/account/webhooks/new", c.fields).want(422).has(c.want, c.fields.Get("url"))
		if c.fields.Has("about") {
			answer.has(`aria-describedby="about-hint about-error" aria-invalid="true"`)
		}
	}

	id := b.addEndpoint("https://hooks.example.com/a")
	path := "/account/webhooks/" + id
	b.open("/account/webhooks").has("https://hooks.example.com/a", "orders", "2 kinds")
	b.open(path).has("Payment paid", "Nothing was sent yet")
	b.open(path+"/edit").has(`value="payment.paid" checked`, `value="https://hooks.example.com/a"`).
		complete("endpoint", path+"/edit", url.Values{"url": {"https://hooks.example.com/b"}, "about": {hostile}, "kinds": {"payment.failed"}}).
		has("The endpoint is changed.", "https://hooks.example.com/b", "Payment failed").lacks("<script>alert", "Payment paid")

	rotated := b.open(path+"/rotate").has("Rotate the signing secret?", `value="86400" checked`).made("rotate", path+"/rotate", url.Values{"overlap": {"3600"}, "generation": {"1"}})
	if !strings.HasPrefix(rotated.secret(), "whsec_") {
		t.Error(rotated.Text)
	}
	b.open(path).has("The previous secret is valid until")

	b.open(path).complete("test", path+"/test", nil).has("The test is being sent", "Test notification")
	pay, _ := domain.ParseID(m.paid())
	answer := domain.DeliveryObject{
		EndpointID: id, Type: domain.KindPaymentPaid, PaymentID: &pay, Sequence: 3, Position: 9, State: domain.DeliveryGivenUp,
		Attempts: []domain.AttemptObject{
			{At: domain.InstantOf(s.clock.Now()), Error: "timeout", DurationMS: 15000},
			{At: domain.InstantOf(s.clock.Now()), Status: 500, Error: "status", DurationMS: 12, Answer: "<script>alert(1)</script>"},
		},
	}
	d := s.hooks.add(answer)
	s.hooks.mu.Lock()
	s.hooks.newest[pay] = d.EventID
	s.hooks.mu.Unlock()
	b.open(path+"?state=given_up").has("Refused with 500", d.EventID.String(), pay.String()).lacks("Test notification</a>")
	b.open(path + "?state=delivered").has("Nothing matches")
	event := path + "/deliveries/" + d.EventID.String()
	b.open(event).has("No answer within 15 s", "Refused with 500", "Every attempt failed", "&lt;script&gt;").lacks("<script>alert").
		complete("resend", event+"/resend", nil).has("The notification will be sent again now.")
	b.post(event+"/resend", url.Values{"form": {b.open(path).token("test")}, "back": {"https://evil.example"}}).want(303).lacks("evil")
	b.open(path).complete("recover", path+"/recover", url.Values{"since": {"2026-11-20T00:00"}}).has("7 notifications are on their way.")
	b.open(path).complete("recover", path+"/recover", url.Values{"since": {"soon"}}).has("Choose a day and a time")
	b.open(path+"/remove").has("Remove this endpoint?").complete("remove", path+"/remove", nil).has("The endpoint is removed.", "No endpoints yet")

	other := s.browser().signIn(s.merchant(""))
	other.open(path).want(404)
	reader := s.browser().signIn(s.merchant("", "read"))
	reader.post("/account/webhooks/new", url.Values{
		"form": {reader.open("/account/webhooks/new").token("endpoint")}, "url": {"https://x.example"}, "kinds": {"payment.paid"},
	}).want(403).has("does not have this scope")
}

func TestKeyPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	b.post("/account/keys/new", url.Values{"form": {b.open("/account/keys/new").token("create-key")}}).want(422).has("Choose at least one")
	shown := b.open("/account/keys/new").made("create-key", "/account/keys/new", url.Values{"name": {" Warehouse <2> "}, "scopes": {"read"}})
	shown.has("Warehouse &lt;2&gt;")
	secret := shown.secret()
	made := m
	made.secret = secret
	made.get("/v1/payments").want(200, "")
	made.pay(`{"amount":"1"}`).want(403, domain.ScopeMissing)
	long := url.Values{"form": {b.open("/account/keys/new").token("create-key")}, "name": {strings.Repeat("x", 65)}, "scopes": {"read"}}
	b.post("/account/keys/new", long).want(422).has("This is too long.", `id="name-error"`, strings.Repeat("x", 65))
	if keys := b.open("/account/keys").has("<bdi>Warehouse &lt;2&gt;</bdi>", "No name"); strings.Contains(keys.Text, secret) {
		t.Error("the secret is shown again")
	}

	// A key can pass on only scopes it has.
	reader := s.browser().signIn(made)
	reader.open("/account/session").has("Warehouse &lt;2&gt;")
	reader.open("/account/keys/new").has("your own key does not have this scope")
	reader.post("/account/keys/new", url.Values{"form": {reader.open("/account/session").token("signout")}, "scopes": {"audit"}}).want(403)
	reader.open("/account/events").has("Your key may not read the log")

	// The page does not offer it what its scopes do not allow.
	hooked := b.addEndpoint("https://hooks.example.com/a")
	b.open("/account/keys").has(m.keyID + "/revoke")
	reader.open("/account/keys").lacks("/revoke", `data-hook="new-key"`) // not of the own key either, which has the same scopes
	b.open("/account/webhooks/"+hooked).has("/test", "/edit", "/remove")
	reader.open("/account/webhooks/"+hooked).has("hooks.example.com").lacks("/test", "/edit", "/remove", "/recover")
	reader.open("/account/webhooks").has("hooks.example.com").lacks("webhooks/new")
	reader.open("/account").has("How to begin").lacks("webhooks/new")

	// Only a key with all its scopes can rename a key.
	reader.open("/account/keys").lacks("/rename")
	rename := "/account/" + regexp.MustCompile(`keys/key_\w+/rename`).FindString(b.open("/account/keys").Text)
	b.post(rename, url.Values{"form": {b.open(rename).has(`value="Warehouse &lt;2&gt;"`).token("rename-key")}, "name": {strings.Repeat("x", 65)}}).
		want(422).has("This is too long.", `id="name-error"`)
	reader.post(rename, url.Values{"form": {reader.open("/account/session").token("signout")}, "name": {"mine"}}).want(403)
	b.open(rename).complete("rename-key", rename, url.Values{"name": {" Till "}}).has("The key is renamed.", "<bdi>Till</bdi>").lacks("Warehouse")
	b.open(rename).complete("rename-key", rename, url.Values{"name": {""}}).has("The key is renamed.").lacks("Till")
	b.open(rename).complete("rename-key", rename, url.Values{"name": {"Warehouse <2>"}})
	made.get("/v1/payments").want(200, "")

	id := regexp.MustCompile(`keys/(key_\w+)/revoke`).FindStringSubmatch(b.open("/account/keys").Text)[1]
	asked := b.open("/account/keys/"+id+"/revoke").has("Revoke this key?", "Warehouse &lt;2&gt;").lacks("last live key", "signed in with this key")
	b.open("/account/keys").has("Live")
	asked.complete("revoke", "/account/keys/"+id+"/revoke", nil).has("The key is revoked.", "Revoked")
	made.get("/v1/payments").want(401, domain.Unauthorized)
	reader.open("/account").want(303)

	b.open("/account/keys/"+m.keyID+"/revoke").has("last live key").
		complete("revoke", "/account/keys/"+m.keyID+"/revoke", nil).has("You are signed out.")
	m.get("/v1/payments").want(401, domain.Unauthorized)
}

func TestListPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	var refunds []string
	for range 26 {
		s.clock.advance(time.Millisecond) // what is created later is listed before
		refunds = append(refunds, m.refund(m.paid()).want(201, "").object().ID)
	}
	first := b.open("/account/refunds?status=pending").has(refunds[25], refunds[1]).lacks(refunds[0])
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(first.Text)
	if next == nil {
		t.Fatal(first.Text)
	}
	base, _ := url.Parse(s.url + "/account/refunds")
	to, _ := base.Parse(html.UnescapeString(next[1]))
	b.open(to.RequestURI()).has(refunds[0], "status=pending").lacks(refunds[1])
	csv := b.open("/account/refunds.csv?status=pending").want(200)
	if got := csv.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") || strings.Count(csv.Text, "\n") != 27 {
		t.Errorf("%s: %s", got, csv.Text)
	}
	if got := csv.Header.Get("Content-Disposition"); !strings.Contains(got, "refunds.csv") {
		t.Error(got)
	}
	b.open("/account/refunds.csv?status=x").want(400).has("<html")

	own := b.open("/account/balance").has("Owed to you", "₽0.00", "Provider: ", `rel="next"`, "−₽1,500.00").lacks("Position", "#1")
	if posted := entries(own); len(posted) != 25 || posted[0] != "Refund −₽1,500.00 ₽0.00" || posted[1] != "Payment +₽1,500.00 ₽1,500.00" {
		t.Errorf("postings %q", posted)
	}
	other := entries(b.open("/account/balance?account=refunds_in_flight&from=2026-11-20&to=2026-11-20").lacks("Newest"))
	if len(other) != 25 || other[0] != "Refund +₽1,500.00 ₽39,000.00" {
		t.Errorf("postings %q", other)
	}
	both := entries(b.open("/account/balance?account=all"))
	if len(both) != 25 || both[0] != "Refund Refunds in flight −₽1,500.00 −₽39,000.00" || both[1] != "Refund Owed to you +₽1,500.00 ₽0.00" {
		t.Errorf("postings %q", both)
	}
	b.open("/account/balance?account=merchant_payable&to=2026-11-19").has("Nothing matches")
	if n := strings.Count(b.open("/account/balance.csv?account=refunds_in_flight").want(200).Text, "\n"); n != 27 {
		t.Errorf("%d lines", n)
	}
	for query, lines := range map[string]int{"": 1 + 2*26, "account=all": 1 + 4*26} { // as on the page
		if n := strings.Count(b.open("/account/balance.csv?"+query).want(200).Text, "\n"); n != lines {
			t.Errorf("%s: %d lines", query, n)
		}
	}
	if n := strings.Count(b.open("/account/balance.csv?account=refunds_in_flight&to=2026-11-19").want(200).Text, "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}

	// The id of a payment may be pasted as into the search.
	one := m.paid()
	id := m.refund(one).want(201, "").object().ID
	pasted := "?payment_id=+" + strings.ToLower(one) + "%09"
	b.open("/account/refunds"+pasted).want(200).has(`data-id="`+id+`"`, `value="`+one+`"`)
	b.open("/account/refunds.csv" + pasted).want(200).has(id)
	b.open("/account/events"+pasted).want(200).has("Refund requested", `value="`+one+`"`)
	endpoint := b.addEndpoint("https://hooks.example.com/a")
	of, _ := domain.ParseID(one)
	s.hooks.add(domain.DeliveryObject{EndpointID: endpoint, PaymentID: &of, Type: "payment.paid"})
	b.open("/account/webhooks/"+endpoint+pasted).want(200).has(`data-hook="delivery"`, "payments/"+one)
}

// entries are the rows of a statement: type, account (if there are several), change,
// and balance after it.
func entries(s *screen) (rows []string) {
	tag := regexp.MustCompile(`<[^>]*>`)
	_, table, _ := strings.Cut(s.Text, `aria-label="Statement of postings"`)
	for _, row := range regexp.MustCompile(`(?s)<tr><td class="nowrap" data-label="When">.*?</tr>`).FindAllString(table, -1) {
		var cells []string
		for _, cell := range regexp.MustCompile(`(?s)<td[^>]*>(.*?)</td>`).FindAllStringSubmatch(row, -1)[1:] {
			what, _, _ := strings.Cut(cell[1], "<br>")
			cells = append(cells, strings.TrimSpace(html.UnescapeString(tag.ReplaceAllString(what, ""))))
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return rows
}

// Rows show names that the reader knows: the description of a payment, the note of
// an endpoint. The id is on the page behind the row.
func TestRowsNameTheirSubject(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	e := b.addEndpoint("https://hooks.example.com/a")
	p := m.pay(`{"amount":"1500","description":"order <1042>"}`).want(201, "").object().ID
	id, _ := domain.ParseID(p)
	m.route(p)
	m.post("/v1/sandbox/payments/"+p, `{"outcome":"paid"}`).want(200, "")
	m.refund(p).want(201, "")
	bare := m.paid()
	bareID, _ := domain.ParseID(bare)
	m.refund(bare).want(201, "")
	for _, of := range []domain.ID{id, bareID} {
		s.hooks.add(domain.DeliveryObject{EndpointID: e, Type: domain.KindPaymentPaid, PaymentID: &of, Sequence: 3, Position: 9, State: domain.DeliveryDelivered})
	}
	for _, path := range []string{"refunds", "balance", "events", "webhooks/" + e} {
		b.open("/account/"+path).has("<bdi>order &lt;1042&gt;</bdi>", "No description", "…"+bare[20:]).lacks("#1")
	}
	b.open("/account/payments/"+p).has(">orders</a>", "<details>", "Position in the log")
	s.browser().signIn(s.merchant("")).open("/account/events?payment_id=" + p).lacks("order &lt;")
}

// TestFormsSentAgainWithOtherContent: a browser that goes back shows the form as it was sent. What it
// made is not taken for what is asked for now, and its secret is not shown under another name.
func TestFormsSentAgainWithOtherContent(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	for path, c := range map[string]struct {
		hook string
		sent url.Values
		then []url.Values
	}{
		"keys/new": {"create-key", url.Values{"name": {"till"}, "scopes": {"read", "payments:write"}}, []url.Values{
			{"name": {"till"}, "scopes": {"read"}}, {"name": {"shop"}, "scopes": {"read", "payments:write"}},
		}},
		"webhooks/new": {"endpoint", url.Values{"url": {"https://old.example.com/"}, "kinds": {"payment.paid"}, "about": {"a"}}, []url.Values{
			{"url": {"https://new.example.com/"}, "kinds": {"payment.paid"}, "about": {"a"}},
			{"url": {"https://old.example.com/"}, "kinds": {"payment.failed"}, "about": {"a"}},
			{"url": {"https://old.example.com/"}, "kinds": {"payment.paid"}, "about": {"b"}},
		}},
	} {
		form := b.open("/account/" + path + "?lang=en").token(c.hook)
		post := func(fields url.Values) *screen {
			fields.Set("form", form)
			return b.post("/account/"+path, fields)
		}
		made := post(c.sent).want(200)
		secret := regexp.MustCompile(`(sk|whsec)_[^<"]+`).FindString(made.Text)
		post(c.sent).want(200).has(secret)
		for _, other := range c.then {
			post(other).want(422).has("already been sent with other content").lacks(secret)
		}
	}
}

// TestMoreEventsThanAPage is about a payment with more events than are read at once.
func TestMoreEventsThanAPage(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	payment := m.paid()
	id, _ := domain.ParseID(payment)
	p, _, err := s.cfg.Views.Payment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	const more = "There are more events"
	b.open("/account/events?payment_id=" + payment).has("Payment created").lacks(more)
	for n := range domain.MaxLateFunds {
		if _, err := s.decide(t.Context(), m.project, id, domain.ApplySignal{Signal: domain.Signal{
			Route: p.Route, Outcome: domain.OutcomePaid, Reference: "late-" + strconv.Itoa(n), Amount: p.Amount, Currency: p.Currency,
			StartedAt: domain.InstantOf(s.clock.Now()),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	b.open("/account/payments/" + payment).has(more)
	b.open("/account/events?payment_id=" + payment).has(more)
}

// scanned is a store that notes the least position from which a project's events were read. Its log
// goes on with so many events of others.
type scanned struct {
	eventstore.Store
	from   eventstore.Position
	others atomic.Uint64
}

func (s *scanned) Last(ctx context.Context) (eventstore.Position, error) {
	last, err := s.Store.Last(ctx)
	return last + eventstore.Position(s.others.Load()), err
}

func (s *scanned) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	if f.Project != "" {
		s.from = min(s.from, after)
	}
	return s.Store.Scan(ctx, after, f)
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	var store *scanned
	s := start(t, withAccount(t), func(c *settings) {
		store = &scanned{Store: c.Ledger.Store}
		c.Ledger.Store = store
	})
	m, noise := s.merchant(""), s.merchant("")
	b := s.browser().signIn(m)
	first := m.pay(`{"amount":"1","description":"<script>alert(1)</script>"}`).want(201, "").object().ID
	for range 30 {
		noise.pay(`{"amount":"1"}`).want(201, "")
	}
	var last string
	for range 55 {
		last = m.pay(`{"amount":"1"}`).want(201, "").object().ID
	}
	page := b.open("/account/events").want(200).has(last, "Payment created", " data-feed=", "Older").lacks(first)
	if n := strings.Count(page.Text, `<li id="e`); n != 50 {
		t.Errorf("%d events on the page", n)
	}
	older := regexp.MustCompile(`\?before=\d+`).FindString(page.Text)
	b.open("/account/events"+older).has(first, "&lt;script&gt;").lacks(" data-feed", last, "<script>alert", noise.project)
	b.open("/account/events?payment_id="+first).has(first, "&#34;sequence&#34;: 1").lacks(last)

	// The page's script asks for what came after it, which reads nothing before, and then for the page
	// again: the first rows are then the newest.
	following := regexp.MustCompile(` data-feed="(\d+)"`)
	after := following.FindStringSubmatch(page.Text)[1]
	store.from = math.MaxUint64
	b.open("/account/events?after=" + after).want(200).has(` data-feed="` + after + `"`).lacks("<li id")
	noise.pay(`{"amount":"1"}`).want(201, "")
	fresh := m.pay(`{"amount":"2","description":"</li><script>alert(2)</script>"}`).want(201, "").object().ID
	page = b.open("/account/events?after="+after).want(200).has("payments/"+fresh).lacks(last, ` data-feed="`+after+`"`)
	if got := strconv.FormatUint(uint64(store.from), 10); got != after {
		t.Errorf("events after %s were read, and those after %s are on the page", got, after)
	}
	b.open("/account/events?after=" + following.FindStringSubmatch(page.Text)[1]).lacks("<li id")
	b.open("/account/events").has("payments/"+fresh, last).lacks("<script>alert")

	// A page that reads others' events alone does not say that there are none.
	b.open("/account/events?before=2").want(200).has("No events of yours in this part").lacks("No events yet", "Older", "<li id")
	store.others.Store(100_000)
	b.open("/account/events").want(200).has("No events of yours in this part", "Older").lacks("No events yet", "<li id")
	store.others.Store(0)

	// Who may read the log alone sees it without descriptions, as over the API.
	auditor := s.merchant("", "audit", "payments:write")
	seen := auditor.pay(`{"amount":"1","description":"for Ann"}`).want(201, "").object().ID
	b = s.browser().signIn(auditor)
	b.open("/account/events").want(200).has("payments/"+seen, "Payment created").lacks("for Ann")
	if to := b.open("/account").want(303).Header.Get("Location"); !strings.HasSuffix(to, "events") {
		t.Errorf("it begins at %q", to)
	}
}

// The account shows the limits of its project.
func TestLimitsInTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t), func(c *settings) { c.Limits.RateReads = 100 })
	m := s.merchant("")
	b := s.browser().signIn(m)
	b.open("/account/settings").has("Requests that may change something</dt><dd>no limit", "100 a second, 200 at once", "30 minutes", "12 hours")
	s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":{"rate_writes":5,"session_idle_seconds":5400}}`).want(200, "")
	b.open("/account/settings").has("5 a second, 10 at once", "1 hour 30 minutes")
	b.open("/account/session").has("1 hour 30 minutes")
	b.open("/account/settings?lang=ru").has("5 в секунду, до 10 сразу")
}
