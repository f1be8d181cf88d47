package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestCustomerPaysInBrowser takes a payment from its link in a real browser to
// paid and refunded, against the real program.
func TestCustomerPaysInBrowser(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	s := start(t, "demo")
	created := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00","description":"order-1042 internal","payload":{"secret":"cart"}}`)
	id := created.text(t, "id")
	link, ok := created.object(t)["instructions"].(map[string]any)["url"].(string)
	if !ok {
		t.Fatalf("no link: %s", created.Body)
	}

	ctx, cancel := context.WithTimeout(browser, 60*time.Second)
	defer cancel()
	before := pageText(ctx, t, chromedp.Navigate(link), chromedp.WaitVisible(`button[value="pay"]`))
	after := pageText(ctx, t, chromedp.Click(`button[value="pay"]`), chromedp.WaitVisible(`[data-status="paid"]`))
	for _, page := range []string{before, after} {
		if !strings.Contains(page, "Demo shop") || strings.Contains(page, "internal") || strings.Contains(page, "cart") {
			t.Errorf("page: %s", page)
		}
	}
	if got := s.do(t, 200, "GET", "/v1/payments/"+id, "").text(t, "status"); got != "paid" {
		t.Errorf("the page says paid, the ledger %s", got)
	}
	refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id)).text(t, "id")
	if got := s.do(t, 200, "POST", "/v1/sandbox/refunds/"+refund, `{"outcome":"succeeded"}`).text(t, "status"); got != "succeeded" {
		t.Errorf("refund: %s", got)
	}
}

// pageText takes the steps and answers the text of the page they lead to.
func pageText(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) string {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(ctx, chromedp.Text("body"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newBrowser starts a headless Chromium that ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
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
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(60*time.Second))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	return ctx
}
