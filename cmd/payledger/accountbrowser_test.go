//go:build !race

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"payledger/httpapi/ui/uitest"
)

// A merchant signs in, finds a payment by its description, refunds it and sees that
// the shop's program was notified: with script and without.
func TestMerchantRefundsInBrowser(t *testing.T) {
	t.Parallel()
	browser := uitest.Browser(t)
	var told atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "refund.pending") {
			told.Add(1)
		}
	}))
	t.Cleanup(receiver.Close)
	s := start(t, "demo", "--webhook-url", receiver.URL)
	for _, script := range []bool{true, false} {
		name := map[bool]string{true: "with script", false: "without"}[script]
		t.Run(name, func(t *testing.T) {
			before := told.Load()
			w := uitest.OpenTab(t, browser)
			if !script {
				w.WithoutScript()
			}
			description := "order-1042 " + name
			id := s.do(t, 201, "POST", "/v1/payments", fmt.Sprintf(`{"amount":"1500.00","description":%q}`, description)).text(t, "id")
			s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)

			css := func(selector string) chromedp.CSS { return chromedp.CSS(selector) }
			w.Do(chromedp.Navigate(s.BaseURL+"/account?lang=en"), chromedp.WaitVisible(css("#project")),
				chromedp.SendKeys(css("#project"), s.ProjectID), chromedp.SendKeys(css("#key"), s.APIKey), chromedp.Click(css(`[data-hook="signin"] button`)),
				chromedp.WaitVisible(css(`[data-hook="per-day"]`)))
			w.Do(uitest.Loaded(), chromedp.SendKeys(css("#find"), description), chromedp.Click(css(`[data-hook="search"] button`)),
				chromedp.WaitVisible(css(`[data-hook="payments"] a[href$="`+id+`"]`)))
			w.Do(uitest.Loaded(), chromedp.Click(css(`[data-hook="payments"] a[href$="`+id+`"]`)))
			w.Do(chromedp.WaitVisible(css(`a[data-hook="refund"]`)), uitest.Loaded(), chromedp.Click(css(`a[data-hook="refund"]`)),
				chromedp.WaitVisible(css(`form[data-hook="refund"] button`)))
			w.Do(uitest.Loaded(), chromedp.Click(css(`form[data-hook="refund"] button`)),
				chromedp.WaitVisible(css(`[data-hook="refunds"] [data-status="pending"]`)))

			// The notification is delivered asynchronously; the merchant reloads the page.
			eventually(t, "the delivery is shown", func() bool {
				w.Do(chromedp.Reload(), chromedp.WaitVisible(css(`[data-hook="deliveries"]`)))
				texts := uitest.Eval[string](w,
					`[...document.querySelectorAll('[data-hook="deliveries"] [data-state="delivered"]')].map((r) => r.innerText).join(" ")`)
				return strings.Contains(texts, "refund.pending")
			})
			w.Do(chromedp.Click(css(`[data-hook="deliveries"] [data-state="delivered"] a`)), chromedp.WaitVisible(css(`.timeline .what`)))
			if told.Load() == before {
				t.Error("the receiver was not told")
			}
			if got := w.HTML(); !strings.Contains(got, "Accepted with 20") {
				t.Errorf("the delivery is not shown:\n%s", got)
			}
		})
	}
}
