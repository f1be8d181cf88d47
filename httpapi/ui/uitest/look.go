package uitest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Look opens an address in every language, at every width and in both colour
// schemes, and each time checks that nothing is wider than the window, that
// axe-core finds nothing, and keeps a picture. Without PAYLEDGER_AXE and
// PAYLEDGER_SCREENSHOTS there is less to find out, and only the narrow, light
// pages are opened. address is told the language.
func Look(b *Tab, axe *Axe, name string, address func(lang string) string) {
	b.T.Helper()
	widths, schemes := []int64{320}, []bool{false}
	if axe.source+os.Getenv("PAYLEDGER_SCREENSHOTS") != "" {
		widths, schemes = []int64{320, 1280}, []bool{false, true}
	}
	for _, lang := range []string{"ru", "en"} {
		for _, width := range widths {
			for _, dark := range schemes {
				full := fmt.Sprintf("%s %s %d", name, lang, width)
				if dark {
					full += " dark"
				}
				b.Do(chromedp.EmulateViewport(width, 640+width/8))
				b.Dark(dark)
				b.Do(chromedp.Navigate(address(lang)), chromedp.WaitVisible(chromedp.CSS("main")))
				if got := Eval[int64](b, `document.documentElement.scrollWidth`); got > width {
					b.T.Errorf("%s: the page is %d wide", full, got)
				}
				b.Picture(full)
				axe.Check(b, full)
			}
		}
	}
}

// Axe checks pages with axe-core.
type Axe struct{ source string }

// LoadAxe reads the file that PAYLEDGER_AXE names. Without it only this check
// is left out.
func LoadAxe(t *testing.T) *Axe {
	t.Helper()
	path := os.Getenv("PAYLEDGER_AXE")
	if path == "" {
		t.Log("accessibility is not checked: set PAYLEDGER_AXE to axe.min.js of the npm package axe-core")
		return &Axe{}
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("PAYLEDGER_AXE: %v", err)
	}
	return &Axe{string(source)}
}

// Check reports every rule that the present page violates.
func (a *Axe) Check(b *Tab, page string) {
	b.T.Helper()
	if a.source == "" {
		return
	}
	b.Do(chromedp.Evaluate[chromedp.Void](a.source))
	found, err := Run(b, chromedp.Evaluate[string](
		`axe.run().then((r) => JSON.stringify(r.violations.map((v) => ({id: v.id, help: v.help, on: v.nodes.map((n) => n.html + ": " + n.failureSummary)}))))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		b.T.Fatalf("%s: axe: %v", page, err)
	}
	var violations []struct {
		ID   string   `json:"id"`
		Help string   `json:"help"`
		On   []string `json:"on"`
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.T.Fatal(err)
	}
	for _, v := range violations {
		b.T.Errorf("%s: %s: %s: %s", page, v.ID, v.Help, strings.Join(v.On, "\n"))
	}
}
