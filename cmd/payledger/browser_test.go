//go:build !race

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payledger/httpapi/ui/uitest"
)

// TestCustomerPaysInBrowser takes a payment from its link in a real browser to
// paid and refunded, against the real program.
func TestCustomerPaysInBrowser(t *testing.T) {
	t.Parallel()
	browser := uitest.Browser(t)
	s := start(t, "demo")
	created := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00","description":"order-1042 internal","payload":{"secret":"cart"}}`)
	id := created.text(t, "id")
	link, ok := created.object(t)["instructions"].(map[string]any)["url"].(string)
	if !ok {
		t.Fatalf("no link: %s", created.Body)
	}

	w := uitest.OpenTab(t, browser)
	before := pageText(w, chromedp.Navigate(link), chromedp.WaitVisible(`button[value="pay"]`))
	after := pageText(w, chromedp.Click(`button[value="pay"]`), chromedp.WaitVisible(`[data-status="paid"]`), uitest.Loaded())
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

// pageText runs the steps and returns the text of the page they lead to.
func pageText(w *uitest.Tab, steps ...chromedp.Action[chromedp.Void]) string {
	w.T.Helper()
	w.Do(steps...)
	return uitest.Eval[string](w, `document.body.innerText`)
}
