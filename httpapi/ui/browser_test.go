//go:build !race

package ui

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"payledger/httpapi/ui/uitest"
)

// TestBrowserSpecimen looks at every component there is, on one page, in every
// language, width and colour scheme.
func TestBrowserSpecimen(t *testing.T) {
	t.Parallel()
	browser := uitest.Browser(t)
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := s.Templates(os.DirFS("testdata"), "specimen.html")
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Secure(w.Header())
		if name, ok := strings.CutPrefix(r.URL.Path, "/"+AssetFolder); ok && s.ServeAsset(w, r, name) {
			return
		}
		if r.Method == http.MethodPost {
			sent.Add(1)
			w.WriteHeader(http.StatusNoContent) // the page stays, as when the navigation is stopped
			return
		}
		data := struct {
			Page
			Rows []string
		}{s.Page(r, s.Locale(r), "/", "Specimen"), []string{"created", "awaiting_payment", "paid", "expired", "failed", "succeeded"}}
		if err := Render(w, http.StatusOK, pages, "specimen.html", data); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	b := uitest.OpenTab(t, browser)
	uitest.NewLooks(t, true).Page(b, "specimen", func(lang string) string { return server.URL + "/?lang=" + lang })

	// A row is a card where there is no room, and each value has its name then.
	b.Do(chromedp.EmulateViewport(320, 640))
	if got := uitest.Eval[string](b, `getComputedStyle(document.querySelector("td"), "::before").content`); got != `"Created"` {
		t.Errorf("on a small screen a value is named %s", got)
	}

	// A form is sent once, and again once it is clear that the first led nowhere.
	const press = `for (let n = 0; n < 2; n++) document.querySelector("form[method=post]").requestSubmit()`
	uitest.Eval[chromedp.Void](b, `{const real = setTimeout; window.setTimeout = (act, ms) => real(act, ms / 50)}; `+press)
	if !uitest.Eval[bool](b, `document.querySelector("form.sent") !== null`) {
		t.Error("a form that is under way can be sent again")
	}
	b.Do(uitest.Poll(`document.querySelector("form.sent") === null`))
	uitest.Eval[chromedp.Void](b, press)
	b.Do(uitest.Poll(`document.querySelector("form.sent") === null`))
	if n := sent.Load(); n != 2 {
		t.Errorf("two forms of which each is pressed twice are sent %d times", n)
	}
}
