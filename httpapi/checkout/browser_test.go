package checkout

import (
	"context"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"payledger/domain"
)

// startBrowser starts a headless Chromium that ends with the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("the browser is not started with -short")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("PAYLEDGER_REQUIRE_BROWSER") != "" {
			t.Fatal("Chromium is not installed, and PAYLEDGER_REQUIRE_BROWSER is set")
		}
		t.Skip("Chromium is not installed: install the package chromium to run the tests of the payment page")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx
}

// tab is one customer's window on a server of its own. When its test ends it
// must have asked no other host and written nothing to the console.
type tab struct {
	t      *testing.T
	ctx    context.Context
	world  *world
	server *httptest.Server

	mu    sync.Mutex
	noise []string
}

func openTab(t *testing.T, browser context.Context, sandbox bool) *tab {
	t.Helper()
	w := newWorld(t)
	b := &tab{t: t, world: w, server: newServer(t, w.handler(sandbox))}
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
		func() error { _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); return err },
		func() error { _, err := chromedp.Call(ctx, runtime.Enable, cdp.Empty{}); return err },
	} {
		if err := enable(); err != nil {
			t.Fatal(err)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 800))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, n := range b.noise {
			t.Error(n)
		}
	})
	return b
}

func (b *tab) hear(event any) {
	noise := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Hostname() != "127.0.0.1" && !isOwnAddress(u.Hostname()) {
			noise = "request to " + e.Request.URL
		}
	case *log.EventEntryAdded:
		noise = "browser log: " + e.Entry.Text + " " + e.Entry.URL
	case *runtime.EventConsoleAPICalled:
		noise = "console: " + string(e.Type)
	case *runtime.EventExceptionThrown:
		noise = "exception: " + e.ExceptionDetails.Text
	}
	if noise == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.noise, noise) {
		b.noise = append(b.noise, noise)
	}
}

// forgive forgets the noise that the test itself has asked for.
func (b *tab) forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noise = slices.DeleteFunc(b.noise, func(n string) bool { return strings.Contains(n, part) })
}

func isOwnAddress(host string) bool { return host == ownAddress() }

// ownAddress is an address of this machine that is not loopback, or nothing.
func ownAddress() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v; the page is\n%s", err, b.html())
	}
}

func (b *tab) html() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 5*time.Second)
	defer cancel()
	s, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.documentElement.outerHTML`))
	return s
}

func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) visit(id domain.ID, query string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.server.URL+b.world.path(id)+query), b.shows(""))
}

// shows waits until the page is in the state; empty: in any.
func (b *tab) shows(s state) chromedp.Action[chromedp.Void] {
	if s == "" {
		return chromedp.WaitVisible(chromedp.CSS("main"))
	}
	return chromedp.WaitVisible(chromedp.CSS(`main[data-state="` + string(s) + `"] h1`))
}

func call1[P, R any](b *tab, c cdp.Command[P, R], p P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, p); err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
}

func (b *tab) withoutScript() {
	call1(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

func (b *tab) dark(yes bool) {
	scheme := "light"
	if yes {
		scheme = "dark"
	}
	call1(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// picture keeps a screenshot when PAYLEDGER_SCREENSHOTS names a folder.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("PAYLEDGER_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
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
	browser := startBrowser(t)
	for name, test := range map[string]func(*testing.T, context.Context){
		"pay":                   testPay,
		"decline":               testDecline,
		"without script":        testWithoutScript,
		"refresh, no script":    testRefreshWithoutScript,
		"live":                  testLive,
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

func testPay(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "?lang=ru")
	b.do(chromedp.Click(payButton), b.shows(paid))
	if got := b.last(id); got != domain.TypePaymentPaid {
		t.Errorf("the last event is %s", got)
	}
	if got := eval[string](b, `document.querySelector("h1").textContent + location.search`); got != "Оплачено?lang=ru" {
		t.Errorf("after paying: %s", got)
	}
}

func testDecline(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.do(chromedp.Click(declineButton), b.shows(failed))
	if got := b.last(id); got != domain.TypePaymentFailed {
		t.Errorf("the last event is %s", got)
	}
}

func testWithoutScript(t *testing.T, browser context.Context) {
	for choice, want := range map[chromedp.CSS]state{payButton: paid, declineButton: failed} {
		b := openTab(t, browser, true)
		b.withoutScript()
		id := b.world.create(domain.AwaitingPayment)
		b.visit(id, "")
		if got := eval[string](b, `document.getElementById("left").textContent`); got != "1 h 0 min" {
			t.Errorf("without script the time left is %q", got)
		}
		b.do(chromedp.Click(choice), b.shows(want))
	}
}

// The page comes to its end by itself: prepared, open, and paid elsewhere.
func testRefreshWithoutScript(t *testing.T, browser context.Context) {
	b := openTab(t, browser, false)
	b.withoutScript()
	id := b.world.create(domain.Created)
	b.visit(id, "?lang=ru")
	b.do(b.shows(preparing))
	b.world.route(id)
	b.do(b.shows(open))
	b.world.provider(id, domain.OutcomePaid)
	b.do(b.shows(paid))
	if got := eval[int](b, `document.querySelectorAll("noscript").length`); got != 0 {
		t.Error("the result refreshes itself")
	}
	if got := eval[string](b, `document.documentElement.lang`); got != "ru" {
		t.Errorf("after refreshing the language is %s", got)
	}
}

// With script the same page changes in place and tells screen readers.
func testLive(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.Created)
	b.visit(id, "")
	b.do(b.shows(preparing))
	eval[int](b, `window.same = 1`)
	b.world.route(id)
	b.do(b.shows(open), chromedp.Focus(payButton))
	b.world.provider(id, domain.OutcomePaid)
	b.do(b.shows(paid))
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
	if eval[int](b, `document.querySelectorAll("form, button, #left").length`) != 0 {
		t.Error("the form is still there")
	}
}

func testLiveDeadline(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.world.pass(time.Hour - 90*time.Second)
	b.visit(id, "")
	b.do(pollJS(`document.getElementById("left").textContent === "1:29"`))
	b.world.pass(90 * time.Second)
	b.do(b.shows(closed))
	b.world.do(id, domain.ExpirePayment{At: domain.InstantOf(b.world.now().Add(domain.Grace))})
	b.do(b.shows(expired))
}

func pollJS(predicate string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](predicate, chromedp.WithPollingInterval(20*time.Millisecond))
}

func testOutOfReach(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.world.breakViews(errBroken)
	b.do(chromedp.WaitVisible(chromedp.CSS(`#live:not(:empty)`)))
	if got := eval[string](b, `document.getElementById("live").textContent`); !strings.HasPrefix(got, "No connection") {
		t.Errorf("announced: %q", got)
	}
	b.world.breakViews(nil)
	b.world.provider(id, domain.OutcomePaid)
	b.do(b.shows(paid))
	b.forgive("500 (Internal Server Error)")
}
