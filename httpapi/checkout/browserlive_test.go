package checkout

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"payledger/domain"
	"payledger/httpapi/ui/uitest"
)

// The stream alone keeps a page true: nothing is asked for in between.
func testLiveByStream(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	b.handler.heartbeat = time.Hour
	id := b.world.create(domain.Created)
	b.noteStreams()
	b.visit(id, "")
	eval[int](b, `window.same = 1`)
	b.awaitStreams(1)
	b.Do(hearing())
	questions := b.Requests("/status")
	b.Do(chromedp.Sleep(2500 * time.Millisecond)) // longer than a page without stream waits
	b.world.route(id)
	b.Do(b.shows(open))
	b.world.provider(id, domain.OutcomePaid)
	b.Do(b.shows(paid))
	if streams, more := b.Requests("/events"), b.Requests("/status")-questions; streams != 1 || more != 0 {
		t.Errorf("%d streams, and %d questions beside them", streams, more)
	}
	if eval[int](b, `window.same || 0`) != 1 {
		t.Error("the page was loaded anew")
	}
	b.awaitStreams(0)
}

// awaitStreams waits until the server has so many streams open.
func (b *tab) awaitStreams(want int) {
	b.T.Helper()
	for deadline := time.Now().Add(uitest.Patience); ; time.Sleep(5 * time.Millisecond) {
		b.handler.changes.mu.Lock()
		got := b.handler.changes.total
		b.handler.changes.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("%d streams, want %d", got, want)
		}
	}
}

// noteStreams makes the pages that are visited from now on list their streams
// in window.streams.
func (b *tab) noteStreams() {
	b.T.Helper()
	uitest.Call(b.Tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.streams = [];
			window.EventSource = class extends EventSource { constructor(...args) { super(...args); streams.push(this); } };`,
	})
}

// hearing waits until the page, too, has its stream open: from then on it does
// not poll.
func hearing() chromedp.Action[chromedp.Void] {
	return uitest.Poll(`streams.some((s) => s.readyState === EventSource.OPEN)`)
}

// A change is not lost when its event arrives while the page still fetches the
// result of the change before.
func testLiveInABurst(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	b.handler.heartbeat = time.Hour
	id := b.world.create(domain.Created)
	b.noteStreams()
	b.visit(id, "")
	b.awaitStreams(1)
	b.Do(hearing())
	through := b.server.Config.Handler
	var once sync.Once
	b.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != b.world.path(id) {
			through.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		through.ServeHTTP(rec, r)
		once.Do(func() { // the customer's browser hears of the second change, then gets the page of the first
			b.world.provider(id, domain.OutcomePaid)
			time.Sleep(300 * time.Millisecond)
		})
		maps.Copy(w.Header(), rec.Header())
		_, _ = w.Write(rec.Body.Bytes())
	})
	questions := b.Requests("/status")
	b.world.route(id)
	b.Do(b.shows(paid))
	if n := b.Requests("/status") - questions; n != 0 {
		t.Errorf("it was found out by %d questions", n)
	}
}

// Where no stream gets through the page asks.
func testLiveWithoutStream(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	through := b.server.Config.Handler
	b.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			http.Error(w, "no streams here", http.StatusBadGateway)
			return
		}
		through.ServeHTTP(w, r)
	})
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	b.world.provider(id, domain.OutcomePaid)
	b.Do(b.shows(paid))
	if n := b.Requests("/status"); n == 0 {
		t.Error("it never asked, so this proves nothing")
	}
	b.Forgive("502 (Bad Gateway)")
}

// A window nobody sees holds no stream, and is up to date once it is seen.
func testHidden(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	turn := func(hidden string) {
		eval[chromedp.Void](b, `Object.defineProperty(document, "hidden", {get: () => `+hidden+`, configurable: true}); `+
			`document.dispatchEvent(new Event("visibilitychange")); undefined`)
	}
	b.awaitStreams(1)
	turn("true")
	b.awaitStreams(0)
	b.world.provider(id, domain.OutcomePaid)
	turn("false")
	b.Do(b.shows(paid))
	b.awaitStreams(0)
}

// A receipt in print is black on white and has what a receipt needs, and no
// buttons.
func testPrint(t *testing.T, browser context.Context) {
	b := openTab(t, browser, false)
	b.Dark(true)
	id := b.world.create(domain.Paid)
	b.visit(id, "")
	if !eval[bool](b, `[...document.querySelectorAll("[data-print]")].every((e) => e.checkVisibility())`) {
		t.Error("there is no button to print with")
	}
	uitest.Call(b.Tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.Picture("receipt print")
	for _, want := range []string{"Чайная лавка", "₽1,500.00", "20 Nov 2026", id.String()} {
		if text := strings.ReplaceAll(eval[string](b, `document.body.innerText`), "\u00a0", " "); !strings.Contains(text, want) {
			t.Errorf("no %q in print:\n%s", want, text)
		}
	}
	if left := eval[string](b, `[...document.querySelectorAll("button, a, footer")].filter((e) => e.checkVisibility()).map((e) => e.outerHTML).join()`); left != "" {
		t.Errorf("in print too: %s", left)
	}
	if got := eval[string](b, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("h1")).color`); got != "rgb(255, 255, 255)rgb(0, 0, 0)" {
		t.Errorf("colours in print: %s", got)
	}
	if pdf := uitest.Call(b.Tab, cdppage.PrintToPDF, cdppage.PrintToPDFParams{}); len(pdf.Data) == 0 {
		t.Error("nothing is printed")
	}
}

// The code on the page leads where the link leads, in both colour schemes.
func testQR(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	b.Do(chromedp.EmulateViewport(320, 640))
	for _, dark := range []bool{false, true} {
		b.Dark(dark)
		// The reader misses one picture in two hundred, so it may try others.
		var says, want string
		for tries := 0; tries < 4 && says == ""; tries++ {
			id := b.world.create(domain.AwaitingPayment)
			b.visit(id, "?lang=ru")
			shot, err := uitest.Run(b.Tab, chromedp.Screenshot(chromedp.CSS(".qr-code")))
			if err != nil {
				t.Fatal(err)
			}
			want = b.world.links.URL("https://pay.example.com", 2, id)
			if says, err = uitest.ReadQR(shot); err != nil {
				t.Logf("dark %v: reading the code: %v", dark, err)
			}
		}
		if says != want {
			t.Errorf("dark %v: the code says %q, want %s", dark, says, want)
		}
	}
}

// The payment's number can be copied, also where there is no clipboard API.
func testCopy(t *testing.T, browser context.Context) {
	b := openTab(t, browser, false)
	id := b.world.create(domain.Paid)
	b.visit(id, "")
	// What the page says and marks for two seconds it does for good.
	eval[chromedp.Void](b, `window.setTimeout = () => 0; Object.defineProperty(navigator, "clipboard", {value: undefined}); `+
		`document.addEventListener("copy", () => { window.copied = String(document.activeElement.value); }); undefined`)
	b.Do(chromedp.Click(chromedp.CSS(".copy")), chromedp.WaitVisible(chromedp.CSS(".copy.done")))
	if got := eval[string](b, `window.copied || ""`); got != id.String() {
		t.Errorf("copied %q", got)
	}
	if got := eval[string](b, `document.getElementById("live").textContent`); got != "Copied" {
		t.Errorf("announced %q", got)
	}
}
