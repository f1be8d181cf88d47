//go:build !race

package checkout

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/ui/uitest"
)

func testKeyboard(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	const focus = `document.activeElement.value || document.activeElement.hreflang || document.activeElement.tagName`
	var order []string
	for range 3 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		order = append(order, eval[string](b, focus))
		outline := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth`)
		if outline != "solid3px" {
			t.Errorf("the focus on %s is drawn as %s", order[len(order)-1], outline)
		}
	}
	if got := strings.Join(order, " "); got != "pay decline ru" {
		t.Fatalf("the focus goes through %s", got)
	}
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Do(chromedp.WaitReady(chromedp.CSS(`html[lang="ru"]`)), b.shows(open), uitest.Loaded(), chromedp.KeyEvent(kb.Tab))
	b.Do(chromedp.KeyEvent(" "), b.shows(paid))
	if got := b.last(id); got != domain.TypePaymentPaid {
		t.Errorf("the last event is %s", got)
	}
}

// Pressing twice sends one form.
func testDoublePress(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.Do(chromedp.DoubleClick(payButton), b.shows(paid))
	if n := len(b.world.events(id)); n != 3 {
		t.Errorf("events %v", b.world.events(id))
	}
}

// Going back after paying shows the result, not the form.
func testBack(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id, other := b.world.create(domain.AwaitingPayment), b.world.create(domain.Paid)
	b.visit(id, "")
	b.visit(other, "")
	b.world.provider(id, domain.OutcomePaid)
	b.Back()
	// The page may come back from memory as it was left, with the form; it must
	// look at the payment at once.
	b.Do(uitest.Poll(fmt.Sprintf(`location.pathname + document.querySelector("main")?.dataset.state === %q`, b.world.path(id)+string(paid))))
	if n := eval[int](b, `document.forms.length`); n != 0 {
		t.Error("the form is back")
	}
}

// On plain http to an address a browser sends no Sec-Fetch-Site and, asked for
// no referrer, names the form's origin "null".
func testPlainHTTP(t *testing.T, browser context.Context) {
	address := uitest.OwnAddress()
	if address == "" {
		t.Skip("this machine has no address but loopback")
	}
	b := openTab(t, browser, true)
	listener, err := net.Listen("tcp4", address+":0")
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	server := httptest.NewUnstartedServer(b.server.Config.Handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	b.server = server
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	if eval[bool](b, `window.isSecureContext`) {
		t.Skip("the browser takes this address for secure")
	}
	b.Do(chromedp.Click(payButton), b.shows(paid))
	b.Forgive("The Cross-Origin-Opener-Policy header has been ignored")
}

// testEveryPage looks at the page in each of its states, with names and amounts
// of every length. With PAYLEDGER_LONG axe-core judges each in every language,
// width and colour scheme.
func testEveryPage(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	looks := uitest.NewLooks(t, os.Getenv("PAYLEDGER_LONG") != "")
	links := make(map[string]string)
	for s, arrange := range situations() {
		if s != closed { // it moves the clock that all share
			links[string(s)] = b.server.URL + b.world.path(arrange(b.world))
		}
	}
	links["unknown"] = b.server.URL + "/p/x"
	awaiting := httptest.NewServer(b.world.handler(false))
	t.Cleanup(awaiting.Close)
	links["awaiting"] = awaiting.URL + b.world.path(b.world.create(domain.AwaitingPayment))
	large := b.world.ids.Next()
	b.world.do(large, domain.CreatePayment{
		At: domain.IDTime(large), Amount: domain.MaxAmount, Currency: domain.DefaultCurrency, Settings: domain.DefaultSettings(),
		Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 2, Render: 1},
	})
	b.world.route(large)
	links["large"] = b.server.URL + b.world.path(large)
	look := func(name, link string) {
		looks.Page(b.Tab, name, func(lang string) string { return link + "?lang=" + lang })
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		look(name, links[name])
	}
	for _, merchant := range []struct{ name, text string }{
		{"long word", strings.Repeat("W", projects.MaxProjectName)},
		{"long words", strings.Repeat("Торговый дом ", 10)[:projects.MaxProjectName]},
		{"other way", "חנות התה \u202e(Tea)"},
	} {
		b.world.project(projects.ChangeProject{Name: strings.ToValidUTF8(merchant.text, ""), Settings: domain.DefaultSettings()})
		look(merchant.name, links["large"])
		look(merchant.name+" paid", links["paid"])
	}
	b.world.pass(time.Hour)
	look("closed", links["open"])
	b.Forgive("404 (Not Found)")
}
