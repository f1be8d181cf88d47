//go:build !race

package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"payledger/httpapi/wire"

	"github.com/chromedp/cdproto/cdp"

	cdpnetwork "github.com/chromedp/cdproto/network"

	"payledger/domain"
	"payledger/httpapi/ui/uitest"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestBrowser uses the merchants' pages as a merchant does. All parts share one
// Chromium and one server; each part has its own window and, where it changes
// something, its own project.
func TestBrowser(t *testing.T) {
	t.Parallel()
	chrome := uitest.Browser(t)
	s := start(t, withAccount(t))
	for name, part := range map[string]func(*testing.T, context.Context, *server){
		"every page":     testEveryAccountPage,
		"live events":    testLiveEvents,
		"secret":         testSecretInBrowser,
		"hostile text":   testHostileTextInBrowser,
		"other sites":    testOtherSites,
		"keyboard":       testAccountByKeyboard,
		"replayed forms": testReplayedForm,
		"documents":      testDocuments,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, chrome, s)
		})
	}
}

// window is the window of a signed-in merchant.
type window struct {
	*uitest.Tab
	s *server
	m shop
}

func (s *server) window(t *testing.T, chrome context.Context, m shop) *window {
	t.Helper()
	w := &window{uitest.OpenTab(t, chrome), s, m}
	form := url.Values{"project": {m.project}, "key": {m.secret}}
	r := httptest.NewRequest(http.MethodPost, s.url+"/account/signin", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rec := httptest.NewRecorder()
	s.public.ServeHTTP(rec, r)
	for _, c := range rec.Result().Cookies() {
		uitest.Call(w.Tab, cdpnetwork.SetCookie, cdpnetwork.SetCookieParams{Name: c.Name, Value: c.Value, URL: s.url})
	}
	return w
}

func (w *window) visit(path string) {
	w.T.Helper()
	w.Do(chromedp.Navigate(w.s.url+"/account"+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

func (w *window) text(selector string) string {
	w.T.Helper()
	return uitest.Eval[string](w.Tab, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// shows waits until a part of the page has the text.
func shows(selector, text string) chromedp.Action[chromedp.Void] {
	return uitest.Poll(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, text))
}

// testEveryAccountPage opens each page with much to show and with nothing. With
// PAYLEDGER_LONG axe-core checks each in every language, width and colour scheme.
func testEveryAccountPage(t *testing.T, chrome context.Context, s *server) {
	full, empty := s.merchant(""), s.merchant("")
	pages := s.furnish(t, full)
	for name, m := range map[string]shop{"full": full, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.window(t, chrome, m)
			looks := uitest.NewLooks(t, os.Getenv("PAYLEDGER_LONG") != "")
			for _, title := range slices.Sorted(maps.Keys(pages)) {
				path := pages[title]
				aboutSomething := strings.Count(path, "/") > 1 && !strings.HasSuffix(path, "/new")
				if aboutSomething && name == "empty" {
					continue
				}
				sep := "?"
				if strings.Contains(path, "?") {
					sep = "&"
				}
				looks.Page(w.Tab, "account "+name+" "+title, func(lang string) string { return s.url + "/account" + path + sep + "lang=" + lang })
			}
			w.Forgive("404 (Not Found)")
		})
	}
}

// furnish fills a project so that every page shows something, and returns the paths
// of all pages by name.
func (s *server) furnish(t *testing.T, m shop) map[string]string {
	t.Helper()
	settle := func(amount, description, outcome string) string {
		id := m.pay(fmt.Sprintf(`{"amount":%q,"description":%q,"payload":{"cart":7,"note":"<b>"}}`, amount, description)).want(201, "").object().ID
		if outcome != "" {
			m.route(id)
			m.post("/v1/sandbox/payments/"+id, fmt.Sprintf(`{"outcome":%q}`, outcome)).want(200, "")
		}
		return id
	}
	for i := range 9 {
		settle(fmt.Sprintf("%d.50", 731*(i+1)), fmt.Sprintf("order-%d чай", 1000+i), "paid")
	}
	open := settle("999999999.99", strings.Repeat("длинное слово ", 9), "")
	paid := settle("4200", strings.Repeat("W", 128), "paid")
	settle("75.10", "", "expired")
	settle("12", "order-2001", "failed")
	refunded := settle("990", "order-2003 Petrov", "paid")
	for i, id := range []string{refunded, settle("15", "order-2004", "paid"), settle("16", "order-2005", "paid")} {
		refund := m.refund(id).want(201, "").object().ID
		if i < 2 {
			m.post("/v1/sandbox/refunds/"+refund, fmt.Sprintf(`{"outcome":%q}`, []string{"succeeded", "failed"}[i])).want(200, "")
		}
	}
	var endpoint, second wire.Endpoint
	m.post("/v1/webhook-endpoints", `{"url":"https://hooks.example.com/payments/a-rather-long-path-that-has-to-break-somewhere/on-a-phone","description":"orders"}`).
		want(201, "").decode(&endpoint)
	m.post("/v1/webhook-endpoints", `{"url":"https://hooks.example.com/b"}`).want(201, "").decode(&second)
	m.post("/v1/webhook-endpoints/"+second.ID+"/disable", `{}`).want(200, "")
	m.post("/v1/webhook-endpoints/"+endpoint.ID+"/rotate-secret", `{}`).want(200, "")
	now := domain.InstantOf(s.clock.Now())
	of, _ := domain.ParseID(paid)
	var event domain.ID
	for i, state := range domain.DeliveryStates() {
		d := domain.DeliveryObject{EndpointID: endpoint.ID, Type: domain.Kinds()[i], PaymentID: &of, Sequence: uint64(i + 1), Position: uint64(i + 9), State: state}
		if state == domain.DeliveryPending {
			d.NextAttemptAt = &now
		} else {
			d.Attempts = []domain.AttemptObject{
				{At: now, Error: "timeout", DurationMS: 15000},
				{At: now, Status: 500, Error: "status", DurationMS: 12, Answer: strings.Repeat("no", 99)},
			}
		}
		if d = s.hooks.add(d); state == domain.DeliveryGivenUp {
			event = d.EventID
		}
	}
	s.hooks.mu.Lock()
	if s.hooks.failing == nil {
		s.hooks.failing = make(map[string]domain.Instant)
	}
	s.hooks.failing[endpoint.ID] = now
	s.hooks.mu.Unlock()
	hook := "/webhooks/" + endpoint.ID
	return map[string]string{
		"overview": "", "payments": "/payments", "no payments": "/payments?q=nosuch", "payment": "/payments/" + refunded,
		"open payment": "/payments/" + open, "long payment": "/payments/" + paid, "refund": "/payments/" + paid + "/refund", "new payment": "/payments/new",
		"refunds": "/refunds", "no refunds": "/refunds?payment_id=x", "webhooks": "/webhooks", "new webhook": "/webhooks/new",
		"webhook": hook, "disabled webhook": "/webhooks/" + second.ID, "change webhook": hook + "/edit", "rotate secret": hook + "/rotate",
		"remove webhook": hook + "/remove", "delivery": hook + "/deliveries/" + event.String(),
		"keys": "/keys", "new key": "/keys/new", "rename key": "/keys/" + m.keyID + "/rename", "revoke key": "/keys/" + m.keyID + "/revoke",
		"balance": "/balance", "no postings": "/balance?to=2020-01-01", "events": "/events", "events of payment": "/events?payment_id=" + refunded,
		"settings": "/settings", "session": "/session", "not found": "/nosuch",
	}
}

// testDocuments opens the pages that explain the API.
func testDocuments(t *testing.T, chrome context.Context, s *server) {
	b, looks := uitest.OpenTab(t, chrome), uitest.NewLooks(t, os.Getenv("PAYLEDGER_LONG") != "")
	for _, path := range []string{"/problems/validation_failed", "/problems/amount_format", "/docs/webhooks", "/docs/clients", "/"} {
		looks.Page(b, cmp.Or(strings.ReplaceAll(path[1:], "/", " "), "landing"), func(string) string { return s.url + path })
	}
}

// New events appear without a reload. While they are held none appears, afterwards
// all do.
func testLiveEvents(t *testing.T, chrome context.Context, s *server) {
	m := s.merchant("")
	w := s.window(t, chrome, m)
	w.visit("/events?lang=en")
	w.Do(shows(".empty", "No events yet"))
	id := m.pay(`{"amount":"1"}`).want(201, "").object().ID
	w.Do(shows("[data-feed]", id[20:]))
	if uitest.Eval[bool](w.Tab, `document.querySelector(".empty") !== null`) {
		t.Error("it still says that nothing happened")
	}
	w.Do(chromedp.Click(chromedp.CSS("[data-feed] summary")), shows("[data-feed] pre", `"type": "payment.created"`))
	pause := chromedp.CSS("[data-feed-pause]")
	w.Do(chromedp.Click(pause), shows("[data-feed-pause]", "Resume"))
	held := m.pay(`{"amount":"2"}`).want(201, "").object().ID
	if strings.Contains(w.text("[data-feed]"), held[20:]) {
		t.Error("it goes on while it is held")
	}
	w.Do(chromedp.Click(pause), shows("[data-feed]", held[20:]), shows("[data-feed-pause]", "Pause"))
	if n := uitest.Eval[int](w.Tab, `document.querySelectorAll("[data-feed] > li").length`); n != 2 {
		t.Errorf("%d events, want 2", n)
	}

	// Without script there is a link that loads what is new.
	plain := s.window(t, chrome, m)
	plain.WithoutScript()
	plain.visit("/events?lang=en")
	third := m.pay(`{"amount":"3"}`).want(201, "").object().ID
	plain.Do(chromedp.Click(chromedp.CSS(`[data-hook="newer"]`)), chromedp.WaitVisible(chromedp.CSS(`a[href$="`+third+`"]`)))

	// When the session ends the page leads to where somebody signs in.
	s.adminDo("POST", "/admin/projects/"+m.project+"/sign-out", "").want(200, "")
	w.Do(chromedp.WaitVisible(chromedp.CSS(`input[name="key"]`)))
}

// A secret is shown once, also when the merchant reloads or goes back.
func testSecretInBrowser(t *testing.T, chrome context.Context, s *server) {
	w := s.window(t, chrome, s.merchant(""))
	w.visit("/keys/new?lang=en")
	w.Do(chromedp.DoubleClick(chromedp.CSS(`[data-hook="create-key"] button`)), chromedp.WaitVisible(chromedp.CSS(`[data-hook="secret"] h1`)))
	if got := w.text(".secret"); !strings.HasPrefix(got, "sk_") {
		t.Errorf("secret %q", got)
	}
	w.Do(chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS(`[data-hook="create-key"]`)))
	w.visit("/keys?lang=en")
	w.Do(chromedp.NavigateBack(), chromedp.WaitVisible(chromedp.CSS(`[data-hook="create-key"]`)))
	w.visit("/keys?lang=en")
	if n := uitest.Eval[int](w.Tab, `document.querySelectorAll("main tbody tr").length`); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
}

func testHostileTextInBrowser(t *testing.T, chrome context.Context, s *server) {
	m := s.merchant("")
	id := m.pay(`{"amount":"10","description":"<script>document.title='taken'</script>\"'><img src=/x onerror=\"document.title='taken'\">",`+
		`"payload":{"x":"</pre><script>document.title='taken'</script>"}}`).want(201, "").object().ID
	m.post("/v1/webhook-endpoints", `{"url":"https://x.example/%3Cscript%3E","description":"<img src=/x onerror=\"document.title='taken'\">"}`).want(201, "")
	w := s.window(t, chrome, m)
	for _, path := range []string{
		"", "/payments", "/payments/" + id, "/payments/" + id + "/refund", "/events", "/webhooks", "/events?payment_id=" + id,
		"/refunds?payment_id=" + url.QueryEscape(hostile), "/payments?q=" + url.QueryEscape(hostile),
	} {
		w.visit(path)
		w.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
		if got := uitest.Eval[string](w.Tab, `(document.title === "taken") + " " + document.querySelectorAll("main script, main img").length`); got != "false 0" {
			t.Errorf("%s: %s", path, got)
		}
	}
	if n := w.Requests("/x"); n > 0 {
		t.Errorf("%d requests for what the text names", n)
	}
}

// Requests of another site to the account have no effect. That site is on the same
// host, so the cookie is sent with them.
func testOtherSites(t *testing.T, chrome context.Context, s *server) {
	m := s.merchant("")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/frame" {
			fmt.Fprintf(w, `<main>framed</main><iframe src="%s/account"></iframe>`, s.url)
			return
		}
		fmt.Fprintf(w, `<main><form method="post" action="%s/account/keys/new"><input name="scopes" value="read"><button>Win a prize</button></form></main>`, s.url)
	}))
	t.Cleanup(evil.Close)
	w := s.window(t, chrome, m)
	w.Do(chromedp.Navigate(evil.URL+"/frame"), uitest.Poll(`document.readyState === "complete"`))
	tree := uitest.Call(w.Tab, cdppage.GetFrameTree, cdp.Empty{}).FrameTree
	for _, child := range tree.ChildFrames {
		if !strings.HasPrefix(child.Frame.URL, "chrome-error:") {
			t.Errorf("the frame shows %s", child.Frame.URL)
		}
	}
	if len(tree.ChildFrames) != 1 {
		t.Errorf("%d frames", len(tree.ChildFrames))
	}
	w.Forgive("frame")
	w.Forgive("ERR_BLOCKED_BY_RESPONSE")

	w.Do(chromedp.Navigate(evil.URL), chromedp.Click(chromedp.CSS("button")), chromedp.WaitVisible(chromedp.CSS(`[data-hook="failure"]`)))
	w.Forgive("403 (Forbidden)")
	w.visit("/keys")
	if n := uitest.Eval[int](w.Tab, `document.querySelectorAll("main tbody tr").length`); n != 1 {
		t.Errorf("%d keys, want the first alone", n)
	}
}

func testAccountByKeyboard(t *testing.T, chrome context.Context, s *server) {
	w := s.window(t, chrome, s.merchant(""))
	w.visit("/keys/new?lang=en")
	const focus = `document.activeElement.getAttribute("href") ?? document.activeElement.name ?? document.activeElement.tagName`
	w.Do(chromedp.KeyEvent(kb.Tab))
	if got := uitest.Eval[string](w.Tab, focus); got != "#main" {
		t.Fatalf("the first way leads to %q, want past the navigation", got)
	}
	w.Do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if got := uitest.Eval[string](w.Tab, focus); got != "name" {
		t.Fatalf("behind it is %q", got)
	}
	w.Do(chromedp.KeyEvent(kb.Tab))
	if outline := uitest.Eval[string](w.Tab, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is drawn as %s", outline)
	}
	w.Do(chromedp.KeyEvent(" "), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS(`[data-hook="secret"] h1`)))

	// The key / opens the search, except while somebody types into a field.
	w.visit("/payments/new")
	w.Do(chromedp.Focus(chromedp.CSS("#description")), chromedp.KeyEvent("/"))
	if got := uitest.Eval[string](w.Tab, `document.activeElement.name + document.activeElement.value`); got != "description/" {
		t.Errorf("/ in a field leads to %q", got)
	}
	uitest.Eval[bool](w.Tab, `document.activeElement.blur() === undefined`)
	w.Do(chromedp.KeyEvent("/"))
	if got := uitest.Eval[string](w.Tab, `document.activeElement.name`); got != "q" {
		t.Errorf("/ leads to %q", got)
	}
}

// A form that is sent twice, at once or later, counts once.
func testReplayedForm(t *testing.T, chrome context.Context, s *server) {
	m := s.merchant("")
	w := s.window(t, chrome, m)
	w.visit("/payments/new?lang=en")
	const sendAll = `(async () => {
		const body = new URLSearchParams(new FormData(document.querySelector("main form")));
		body.set("amount", "12.50");
		const send = async () => (await fetch(document.querySelector("main form").action, {method: "POST", body})).status;
		const first = await Promise.all([send(), send(), send()]);
		return [...first, await send()].join(" ");
	})()`
	got, err := uitest.Run(w.Tab, chromedp.Evaluate[string](sendAll, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if got != "200 200 200 200" {
		t.Errorf("answers %s", got)
	}
	if all := strings.Join(s.events(m.project), " "); all != "payment.created" {
		t.Errorf("events %s", all)
	}
	w.Forgive("409 (Conflict)")
}
