//go:build !race

package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payledger/httpapi/ui/uitest"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/yookassa/yookassatest"
)

// The buttons that lead to a provider, and those on the providers' pages.
const (
	toProvider    = chromedp.CSS(`form[method="post"] button`)
	payThere      = chromedp.CSS(`#pay, button[name="pay"]`)
	declineThere  = chromedp.CSS(`#decline, button[name="decline"]`)
	pageOfOutcome = chromedp.CSS(`[data-status="paid"]`)
)

// TestCustomerGoesToProviderInBrowser takes customers from the payment page to a
// provider's page and back to the page that says "paid".
func TestCustomerGoesToProviderInBrowser(t *testing.T) {
	t.Parallel()
	tills := make(map[string]*till)
	for name, play := range providers() {
		tills[name] = openTill(t, play(t))
	}
	tills["qr"] = openTill(t, playYooKassa(t, yookassatest.Options{Method: "sbp", QR: true, Pages: "https://qr.yookassa.test.example"}))
	tills["qr"].provider.host = "qr.yookassa.test.example"
	var rules []string
	for _, s := range tills {
		rules = append(rules, "MAP "+s.provider.host+" "+s.provider.pages)
	}
	browser := uitest.Browser(t, chromedp.Flag("host-resolver-rules", strings.Join(rules, ",")), chromedp.Flag("ignore-certificate-errors", true))

	for name, test := range map[string]func(*testing.T, context.Context, *till){
		"stripe": testThere, "yookassa": testLooks, "http": testThere, "http without script": testWithoutScript, "qr": testQRThere,
	} {
		at, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			test(t, browser, tills[at])
		})
	}
}

// openBill opens the page of a new payment.
func (s *till) openBill(t *testing.T, browser context.Context, lang string) (*uitest.Tab, bill) {
	t.Helper()
	w := uitest.OpenTab(t, browser)
	t.Cleanup(func() { // runs before the tab's own, which looks at what is left
		w.Forgive("request to https://" + s.provider.host + "/")
		w.Forgive("https://" + s.provider.host + "/favicon.ico")
	})
	b := s.create(t)
	w.Do(chromedp.Navigate(s.BaseURL+b.page+"?lang="+lang), chromedp.WaitVisible(toProvider), uitest.Loaded())
	return w, b
}

func testThere(t *testing.T, browser context.Context, s *till) {
	w, b := s.openBill(t, browser, "ru")
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(payThere), uitest.Loaded())
	text := pageText(w, chromedp.Click(payThere), chromedp.WaitVisible(pageOfOutcome), uitest.Loaded())
	if at := uitest.Eval[string](w, `location.href`); at != s.BaseURL+b.page+"?returned=1" || !strings.Contains(text, "Оплачено") {
		t.Errorf("the customer ends at %s, in the language that the page had before:\n%s", at, text)
	}
	s.becomes(t, paymentPath(b), "paid")
}

// Without script the page of a returning customer reloads itself.
func testWithoutScript(t *testing.T, browser context.Context, s *till) {
	w, b := s.openBill(t, browser, "en")
	w.WithoutScript()
	w.Do(chromedp.Reload(), chromedp.WaitVisible(toProvider), uitest.Loaded())
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(payThere), uitest.Loaded())
	w.Do(chromedp.Click(payThere), chromedp.WaitVisible(pageOfOutcome))
	s.becomes(t, paymentPath(b), "paid")
}

// testLooks reads the page while the provider cannot be reached, while it has not
// decided, and after it has declined; at last it pays.
func testLooks(t *testing.T, browser context.Context, s *till) {
	looks := uitest.NewLooks(t, long())
	w, b := s.openBill(t, browser, "en")
	look := func(name, shows string) {
		looks.Page(w, name, func(lang string) string { return s.BaseURL + b.page + "?lang=" + lang })
		w.Do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.BaseURL+b.page+"?lang=en"), chromedp.WaitVisible(chromedp.CSS(shows)), uitest.Loaded())
	}
	look("provider open", `[data-state="open"]`)
	s.provider.Fault(connectortest.ErrorBefore, 0, 1)
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(chromedp.CSS(`.problem form button`)), uitest.Loaded())
	looks.Here(w, "provider down")
	w.Forgive("503 (Service Unavailable)")

	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(declineThere))
	look("provider handed", `[data-state="redirected"]`)
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(declineThere), uitest.Loaded())
	w.Do(chromedp.Click(declineThere), chromedp.WaitVisible(chromedp.CSS(`[data-state="declined"]`)))
	look("provider declined", `[data-state="declined"]`)
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(payThere), uitest.Loaded())
	w.Do(chromedp.Click(payThere), chromedp.WaitVisible(pageOfOutcome))
	look("provider paid", `[data-state="paid"]`)
}

// A QR code is shown on our page, with a link to the bank's app; the page follows.
func testQRThere(t *testing.T, browser context.Context, s *till) {
	looks := uitest.NewLooks(t, long())
	w, b := s.openBill(t, browser, "en")
	app := chromedp.CSS(`figure a.button`)
	w.Do(chromedp.Click(toProvider), chromedp.WaitVisible(app), uitest.Loaded())
	looks.Page(w, "provider qr", func(lang string) string { return s.BaseURL + b.page + "?lang=" + lang })
	w.Do(chromedp.EmulateViewport(320, 680), chromedp.Navigate(s.BaseURL+b.page+"?lang=en"), chromedp.WaitVisible(app), uitest.Loaded())
	link := uitest.Eval[string](w, `document.querySelector("figure a.button").href`)
	if !strings.HasPrefix(link, "https://"+s.provider.host+"/") {
		t.Errorf("the link to the bank's app is %s", link)
	}
	shot, err := uitest.Run(w, chromedp.Screenshot(chromedp.CSS(".qr-code")))
	if err != nil {
		t.Fatal(err)
	}
	if says, err := uitest.ReadQR(shot); err != nil {
		t.Logf("reading the code: %v", err) // the reader misses one picture in two hundred
	} else if says != link {
		t.Errorf("the code says %q, want %s", says, link)
	}
	if uitest.Eval[bool](w, `!!document.forms.length`) {
		t.Error("beside the code there is a button that leads to the code")
	}
	// It is paid with the phone that scanned the code, while the page is open here.
	if s.atProvider(t, link, "pay") == "" {
		t.Error("the provider sends the customer nowhere")
	}
	w.Do(chromedp.WaitVisible(pageOfOutcome))
	if a := s.visit(t, http.MethodGet, s.BaseURL+b.page, nil); !strings.Contains(string(a.Body), `data-state="paid"`) {
		t.Errorf("the page: %s", a.Body)
	}
}
