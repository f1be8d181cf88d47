package checkout

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

// counter is where customers are handed over: the provider of all routes.
type counter struct {
	*world

	name   string
	hand   *domain.HandOff // of each attempt; nil: the customer only waits
	shown  bool            // whether it is at hand later
	refuse error           // what Begin answers
	woken  int
}

func (c *counter) Provider(string) (string, bool) { return c.name, true }

func (c *counter) Obstacle(domain.Payment) Obstacle { return "" }

func (c *counter) Begin(_ context.Context, id domain.ID, language, merchant string) (*domain.HandOff, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	c.do(id, domain.BeginAttempt{At: domain.InstantOf(c.now()), Language: language, Merchant: merchant})
	p, _, err := c.Payment(context.Background(), id)
	n := len(p.Attempts)
	if c.hand == nil || n == 0 {
		return nil, err
	}
	c.do(id, domain.OfferAttempt{Number: n, Reference: "prv-" + p.Attempts[n-1].BegunAt.String(), HandOff: c.hand.Kind})
	return c.hand, err
}

func (c *counter) Shown(domain.ID, int) *domain.HandOff {
	if !c.shown {
		return nil
	}
	return c.hand
}

func (c *counter) Wake(domain.ID) { c.woken++ }

func newCounter(t *testing.T) (*counter, http.Handler) {
	t.Helper()
	c := &counter{world: newWorld(t), name: "Stripe", hand: &domain.HandOff{Kind: domain.HandOffRedirect, URL: "https://pay.example.net/1"}}
	h := c.serve(Config{Views: c.world, Links: c.links, Now: c.now, PublicURL: "https://pay.example.com", Attempts: c})
	return c, h
}

// refreshes finds after how many seconds the page is loaded again without script.
func refreshes(after string) string {
	return `<noscript><meta http-equiv="refresh" content="` + after + `"`
}

// TestCustomersAreHandedOver: the button names the provider, the browser may follow
// to it, and the page follows what comes of it.
func TestCustomersAreHandedOver(t *testing.T) {
	t.Parallel()
	c, h := newCounter(t)
	id := c.create(domain.AwaitingPayment)
	path := c.path(id)
	words := localeOf(t, "ru")
	rec := get(h, path, "Accept-Language", "ru")
	button := words.T("checkout.pay_at", "Amount", words.Amount(150000, domain.DefaultCurrency), "Provider", "Stripe")
	if body := rec.Body.String(); !strings.Contains(body, button) || !strings.Contains(body, refreshes("15")) ||
		!strings.Contains(rec.Header().Get("Content-Security-Policy"), "form-action 'self' https:") {
		t.Error(page(rec))
	}
	rec = send(h, path, formToken(t, h, path), "", "Accept-Language", "ru")
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != c.hand.URL {
		t.Fatal(page(rec))
	}
	rec = get(h, path, "Accept-Language", "ru")
	if body := rec.Body.String(); !strings.Contains(body, words.T("checkout.go_on")) || !strings.Contains(body, refreshes("15")) || c.woken != 0 {
		t.Error(page(rec))
	}

	// The provider ends the attempt; another leads to another page.
	c.do(id, domain.FailAttempt{Number: 1, Reason: "card_declined"})
	c.hand = &domain.HandOff{Kind: domain.HandOffRedirect, URL: "https://pay.example.net/2"}
	c.pass(time.Second)
	rec = get(h, path)
	if !strings.Contains(rec.Body.String(), `data-state="declined"`) || !strings.Contains(rec.Body.String(), "Stripe") {
		t.Error(page(rec))
	}
	if rec = send(h, path, formToken(t, h, path), ""); rec.Header().Get("Location") != c.hand.URL {
		t.Error(page(rec))
	}
}

// TestCustomersComeBack: in the language in which they left, unless they have chosen
// another since; the provider is asked at once, and the page follows every 5 s.
func TestCustomersComeBack(t *testing.T) {
	t.Parallel()
	c, h := newCounter(t)
	id := c.create(domain.AwaitingPayment)
	path := c.path(id)
	for _, query := range []string{"?returned=1", "?returned", "?returned=paid&status=succeeded"} { // nothing was begun
		if rec := get(h, path+query, "Accept-Language", "en"); !strings.Contains(rec.Body.String(), `<html lang="en">`) || !strings.Contains(rec.Body.String(), `data-state="open"`) {
			t.Error(page(rec))
		}
	}
	if c.woken != 0 {
		t.Errorf("the provider is asked %d times of nothing", c.woken)
	}
	send(h, path+"?lang=ru", formToken(t, h, path), "", "Accept-Language", "en")
	for _, come := range []struct {
		query, language string
		returned        bool
	}{
		{"?returned=1", "ru", true},
		{"?returned", "ru", true},
		{"?returned=1&lang=en", "en", true},
		{"?lang=ru", "ru", false},
		{"", "en", false},
	} {
		before := c.woken
		rec := get(h, path+come.query, "Accept-Language", "en")
		body := rec.Body.String()
		after := "15"
		if come.returned {
			after = "5"
		}
		if !strings.Contains(body, `<html lang="`+come.language+`">`) || !strings.Contains(body, refreshes(after)) || (c.woken > before) != come.returned {
			t.Errorf("%s: asked %d times\n%s", come.query, c.woken-before, page(rec))
		}
		if come.language == "ru" && !strings.Contains(body, `?lang=ru"`) {
			t.Errorf("%s: the form leads to another language\n%s", come.query, body)
		}
		if !strings.Contains(body, `data-state="redirected"`) {
			t.Errorf("%s: what the query says is believed\n%s", come.query, body)
		}
	}
	c.provider(id, domain.OutcomePaid)
	before := c.woken
	rec := get(h, path+"?returned=1", "Accept-Language", "en")
	if body := rec.Body.String(); !strings.Contains(body, `<html lang="ru">`) || !strings.Contains(body, "<h1>Оплачено</h1>") || strings.Contains(body, "http-equiv") || c.woken != before {
		t.Error(page(rec))
	}
}

// TestCustomersScan: the QR code of a hand-off stands on the page itself, which has no
// form then and follows every 5 s.
func TestCustomersScan(t *testing.T) {
	t.Parallel()
	c, h := newCounter(t)
	c.hand, c.shown = &domain.HandOff{Kind: domain.HandOffQR, URL: "https://qr.example.net/AS1?type=01&sum=150000"}, true
	id := c.create(domain.AwaitingPayment)
	path := c.path(id)
	rec := send(h, path, formToken(t, h, path), "")
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != c.links.URL("", c.links.Current(), id)[len(pathPrefix):] {
		t.Fatal(page(rec))
	}
	rec = get(h, path)
	body := rec.Body.String()
	if strings.Contains(body, "<form") || !strings.Contains(body, `href="https://qr.example.net/AS1?type=01&amp;sum=150000"`) || !strings.Contains(body, refreshes("5")) ||
		!strings.Contains(body, `<figure class="qr no-print">`) || strings.Contains(body, `<figure class="qr elsewhere`) {
		t.Error(page(rec))
	}
	c.shown = false // after a restart, until the provider has been asked for it
	if rec = get(h, path); !strings.Contains(rec.Body.String(), "<form") || !strings.Contains(rec.Body.String(), refreshes("15")) {
		t.Error(page(rec))
	}
}

// TestCustomersCannotBeHandedOver: the page says why, and offers what helps.
func TestCustomersCannotBeHandedOver(t *testing.T) {
	t.Parallel()
	c, h := newCounter(t)
	path := c.path(c.create(domain.AwaitingPayment))
	for _, test := range []struct {
		err    error
		status int
		again  bool // the same form may be sent again
	}{
		{errors.New("the provider is away"), http.StatusServiceUnavailable, true},
		{&domain.AttemptError{Reason: domain.AttemptTooMany}, http.StatusConflict, false},
		{&domain.AttemptError{Reason: domain.AttemptTooLate}, http.StatusSeeOther, false},
		{&domain.AttemptError{Reason: domain.AttemptEnded}, http.StatusSeeOther, false},
	} {
		c.refuse = test.err
		rec := send(h, path, formToken(t, h, path), "")
		again := strings.Contains(rec.Body.String(), `name="form"`)
		if rec.Code != test.status || again != test.again || test.again && rec.Header().Get("Retry-After") == "" {
			t.Errorf("%v: %s", test.err, page(rec))
		}
		if test.status == http.StatusSeeOther && strings.Contains(rec.Header().Get("Location"), "//") {
			t.Errorf("%v: %s", test.err, page(rec))
		}
	}
	c.refuse = nil
	c.hand = nil // the provider needs nothing more of the customer
	if rec := send(h, path, formToken(t, h, path), ""); rec.Code != http.StatusSeeOther || strings.Contains(rec.Header().Get("Location"), "//") {
		t.Error(page(rec))
	}
	c.name = ""
	if rec := get(h, path); strings.Contains(rec.Body.String(), "Stripe") || !strings.Contains(rec.Body.String(), "<form") {
		t.Error(page(rec))
	}
}
