package uitest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Looks checks pages in both languages, narrow and wide, light and dark.
type Looks struct {
	axe   string // the source of axe-core, or nothing
	every bool
	pages int // how many were checked
}

// NewLooks reads axe-core from the file that PAYLEDGER_AXE names. Without it
// only accessibility is not checked. With every, axe-core judges each page in
// every combination of language, width and colour scheme, else in one, which
// is the next one with each page.
func NewLooks(t *testing.T, every bool) *Looks {
	t.Helper()
	path := os.Getenv("PAYLEDGER_AXE")
	if path == "" {
		t.Log("accessibility is not checked: set PAYLEDGER_AXE to axe.min.js of the npm package axe-core")
		return &Looks{}
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("PAYLEDGER_AXE: %v", err)
	}
	return &Looks{axe: string(source), every: every}
}

// Page opens a page once in each language that changes its address, and checks
// that nothing is wider than the window, whether that is narrow or wide, and
// that axe-core finds nothing. PAYLEDGER_SCREENSHOTS gets a picture of each
// combination.
func (l *Looks) Page(b *Tab, name string, address func(lang string) string) {
	b.T.Helper()
	var ways []way
	opened := ""
	for _, lang := range []string{"ru", "en"} {
		if address(lang) == opened {
			break
		}
		opened = address(lang)
		for _, width := range []int64{320, 1280} {
			ways = append(ways, way{lang, width, false}, way{lang, width, true})
		}
	}
	judged := l.pages % len(ways)
	l.pages++
	opened = ""
	for i, w := range ways {
		judge := l.axe != "" && (l.every || i == judged)
		if w.dark && !judge && !pictured() {
			continue // a colour makes nothing wider
		}
		full := name + " " + w.String()
		b.Do(chromedp.EmulateViewport(w.width, 640+w.width/8))
		b.Dark(w.dark)
		if w.lang != opened {
			b.Do(chromedp.Navigate(address(w.lang)), chromedp.WaitVisible(chromedp.CSS("main")))
			opened = w.lang
		}
		b.Do(Poll(fmt.Sprintf(`innerWidth === %d && matchMedia("(prefers-color-scheme: dark)").matches === %t`, w.width, w.dark)))
		if got := Eval[int64](b, `document.documentElement.scrollWidth`); got > w.width {
			b.T.Errorf("%s: the page is %d wide", full, got)
		}
		b.Picture(full)
		if judge {
			l.judge(b, full)
		}
	}
}

// way is one of the ways to look at a page.
type way struct {
	lang  string
	width int64
	dark  bool
}

func (w way) String() string {
	if w.dark {
		return fmt.Sprintf("%s %d dark", w.lang, w.width)
	}
	return fmt.Sprintf("%s %d", w.lang, w.width)
}

// judge reports every rule of axe-core that the page violates as it is now.
func (l *Looks) judge(b *Tab, page string) {
	b.T.Helper()
	if !Eval[bool](b, `"axe" in window`) {
		b.Do(chromedp.Evaluate[chromedp.Void](l.axe))
	}
	found, err := Run(b, chromedp.Evaluate[string](
		`axe.run({resultTypes: ["violations"], selectors: false}).then((r) => JSON.stringify(r.violations.map((v) => (
			{id: v.id, help: v.help, on: v.nodes.map((n) => n.html + ": " + n.failureSummary)}))))`,
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
