//go:build !race

package checkout

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"payledger/domain"
	"payledger/httpapi/ui/uitest"
)

// tab is one customer's window on a server of its own.
type tab struct {
	*uitest.Tab
	world   *world
	server  *httptest.Server
	handler *handler
}

func openTab(t *testing.T, browser context.Context, sandbox bool) *tab {
	t.Helper()
	w := newWorld(t)
	h := w.handler(sandbox)
	server := newServer(t, h) // ends after the window, which may hold a stream open
	return &tab{uitest.OpenTab(t, browser), w, server, h.handler}
}

func (b *tab) visit(id domain.ID, query string) {
	b.T.Helper()
	b.Do(chromedp.Navigate(b.server.URL+b.world.path(id)+query), b.shows(""))
}

// shows waits until the page is in the state; empty: in any.
func (b *tab) shows(s state) chromedp.Action[chromedp.Void] {
	selector := "main"
	if s != "" {
		selector = fmt.Sprintf("main[data-state=%s] h1", s)
	}
	return uitest.Poll(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
}

func eval[T any](b *tab, expression string) T {
	b.T.Helper()
	return uitest.Eval[T](b.Tab, expression)
}

const (
	payButton     = chromedp.CSS(`button[value="pay"]`)
	declineButton = chromedp.CSS(`button[value="decline"]`)
)

// last answers the newest event of the payment.
func (b *tab) last(id domain.ID) string {
	all := b.world.events(id)
	return all[len(all)-1]
}

func TestBrowser(t *testing.T) {
	browser := uitest.Browser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"pay and decline":       testPayAndDecline,
		"without script":        testWithoutScript,
		"refresh, no script":    testRefreshWithoutScript,
		"result, no script":     testRefreshToTheResultWithoutScript,
		"live":                  testLive,
		"hidden":                testHidden,
		"receipt in print":      testPrint,
		"code of the link":      testQR,
		"copy":                  testCopy,
		"live to the deadline":  testLiveDeadline,
		"out of reach":          testOutOfReach,
		"keyboard":              testKeyboard,
		"double press":          testDoublePress,
		"back after paying":     testBack,
		"plain http by address": testPlainHTTP,
		"every page":            testEveryPage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, browser)
		})
	}
}

func testPayAndDecline(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "?lang=ru")
	b.Do(chromedp.Click(payButton), b.shows(paid))
	if got := b.last(id); got != domain.TypePaymentPaid {
		t.Errorf("the last event is %s", got)
	}
	if got := eval[string](b, `document.querySelector("h1").textContent + location.search`); got != "Оплачено?lang=ru" {
		t.Errorf("after paying: %s", got)
	}

	id = b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.Do(chromedp.Click(declineButton), b.shows(failed))
	if got := b.last(id); got != domain.TypePaymentFailed {
		t.Errorf("the last event is %s", got)
	}
}

func testWithoutScript(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	b.WithoutScript()
	for choice, want := range map[chromedp.CSS]state{payButton: paid, declineButton: failed} {
		id := b.world.create(domain.AwaitingPayment)
		b.visit(id, "")
		if got := eval[string](b, `document.getElementById("left").textContent`); got != "1 hour" {
			t.Errorf("without script the time left is %q", got)
		}
		b.Do(chromedp.Click(choice), b.shows(want))
	}
}

// The page comes to its end by itself: prepared and open, and paid elsewhere.
func testRefreshWithoutScript(t *testing.T, browser context.Context) {
	b := openTab(t, browser, false)
	b.WithoutScript()
	id := b.world.create(domain.Created)
	b.visit(id, "?lang=ru")
	b.Do(b.shows(preparing))
	b.world.route(id)
	b.Do(b.shows(open))
	if got := eval[string](b, `document.documentElement.lang`); got != "ru" {
		t.Errorf("after refreshing the language is %s", got)
	}
}

func testRefreshToTheResultWithoutScript(t *testing.T, browser context.Context) {
	b := openTab(t, browser, false)
	b.WithoutScript()
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "?lang=ru")
	b.Do(b.shows(open))
	b.world.provider(id, domain.OutcomePaid)
	b.Do(b.shows(paid))
	if got := eval[int](b, `document.querySelectorAll("noscript").length`); got != 0 {
		t.Error("the result refreshes itself")
	}
	if got := eval[string](b, `document.documentElement.lang`); got != "ru" {
		t.Errorf("after refreshing the language is %s", got)
	}
}

// With script the same page changes in place and announces that to screen
// readers.
func testLive(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.Created)
	b.visit(id, "")
	b.Do(b.shows(preparing))
	eval[int](b, `window.same = 1`)
	b.world.route(id)
	b.Do(b.shows(open), chromedp.Focus(payButton))
	b.world.provider(id, domain.OutcomePaid)
	b.Do(b.shows(paid))
	if eval[int](b, `window.same || 0`) != 1 {
		t.Error("the page was loaded anew")
	}
	if got := eval[string](b, `document.getElementById("live").textContent`); got != "Paid" {
		t.Errorf("announced: %q", got)
	}
	if got := eval[string](b, `document.title`); !strings.HasPrefix(got, "Paid") {
		t.Errorf("title %q", got)
	}
	if got := eval[string](b, `document.activeElement.tagName`); got != "H1" {
		t.Errorf("the focus went from the button to %s", got)
	}
	if eval[int](b, `document.querySelectorAll("form, [name=outcome], #left").length`) != 0 {
		t.Error("the form is still there")
	}
}

func testLiveDeadline(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.world.pass(time.Hour - 90*time.Second)
	b.visit(id, "")
	b.Do(uitest.Poll(`document.getElementById("left")?.textContent === "1:29"`))
	b.world.pass(90 * time.Second)
	b.Do(b.shows(closed))
	b.world.do(id, domain.ExpirePayment{At: domain.InstantOf(b.world.now().Add(domain.Grace))})
	b.Do(b.shows(expired))
}

func testOutOfReach(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.world.breakViews(errBroken)
	b.Do(chromedp.WaitVisible(chromedp.CSS(`#live:not(:empty)`)))
	if got := eval[string](b, `document.getElementById("live").textContent`); !strings.HasPrefix(got, "No connection") {
		t.Errorf("announced: %q", got)
	}
	b.world.breakViews(nil)
	b.world.provider(id, domain.OutcomePaid)
	b.Do(b.shows(paid))
	b.Forgive("500 (Internal Server Error)")
}
