//go:build !race

package checkout

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"payledger/domain"
	"payledger/httpapi/ui/uitest"
)

// A page that is not seen asks for nothing, and is up to date once it is seen.
func testHidden(t *testing.T, browser context.Context) {
	b := openTab(t, browser, true)
	id := b.world.create(domain.AwaitingPayment)
	b.visit(id, "")
	turn := func(hidden string) {
		eval[chromedp.Void](b, `Object.defineProperty(document, "hidden", {get: () => `+hidden+`, configurable: true}); `+
			`document.dispatchEvent(new Event("visibilitychange")); undefined`)
	}
	turn("true")
	b.Do(chromedp.Sleep(500 * time.Millisecond)) // what was asked for before is answered
	asked := b.Requests("/status")
	b.world.provider(id, domain.OutcomePaid)
	b.Do(chromedp.Sleep(2500 * time.Millisecond)) // longer than a page that is seen waits
	if n := b.Requests("/status") - asked; n != 0 {
		t.Errorf("it asked %d times unseen", n)
	}
	turn("false")
	b.Do(b.shows(paid))
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
