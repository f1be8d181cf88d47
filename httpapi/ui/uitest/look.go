//go:build !race

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
	pairs bool
	pages int // how many were checked
}

// NewLooks reads axe-core from the file that PAYLEDGER_AXE names; without it
// accessibility is not checked. With pairs, axe-core judges each page in four
// combinations of language, width and colour scheme, in which each two of the three meet.
// Else a page is opened in one language, which is another one for the next page, at both
// widths, and is not judged: that takes more time than all else in a window.
func NewLooks(t *testing.T, pairs bool) *Looks {
	t.Helper()
	l := &Looks{pairs: pairs}
	path := os.Getenv("PAYLEDGER_AXE")
	switch {
	case !pairs:
		return l
	case path == "":
		t.Log("accessibility is not checked: set PAYLEDGER_AXE to axe.min.js of the npm package axe-core")
		return l
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("PAYLEDGER_AXE: %v", err)
	}
	l.axe = string(source)
	return l
}

// Page opens a page once in each language and checks in the combinations that
// nothing is wider than the window and that axe-core finds nothing.
// PAYLEDGER_SCREENSHOTS gets a picture of every combination. Where the address is
// the same in both languages there is only one.
func (l *Looks) Page(b *Tab, name string, address func(lang string) string) {
	b.T.Helper()
	languages := []string{"ru", "en"}
	if address("ru") == address("en") {
		languages = languages[1:]
	}
	chosen := languages[l.pages%len(languages)]
	l.pages++
	opened := ""
	for _, lang := range languages {
		for _, k := range []look{{lang, 320, false}, {lang, 320, true}, {lang, 1280, false}, {lang, 1280, true}} {
			judge := l.pairs && (len(languages) == 1 || k.dark == ((lang == "en") == (k.width == 320)))
			plain := !l.pairs && lang == chosen && !k.dark // a colour makes nothing wider
			if !judge && !plain && !pictured() {
				continue
			}
			full := name + " " + k.String()
			b.Do(chromedp.EmulateViewport(k.width, 640+k.width/8))
			b.Dark(k.dark)
			if lang != opened {
				b.Do(chromedp.Navigate(address(lang)), chromedp.WaitVisible(chromedp.CSS("main")))
				opened = lang
			}
			b.Do(Poll(fmt.Sprintf(`innerWidth === %d && matchMedia("(prefers-color-scheme: dark)").matches === %t`, k.width, k.dark)))
			if got := Eval[int64](b, `document.documentElement.scrollWidth`); got > k.width {
				b.T.Errorf("%s: the page is %d wide", full, got)
			}
			b.Picture(full)
			if judge && l.axe != "" {
				l.judge(b, full)
			}
		}
	}
}

// Here checks the page that is open, which has no address, in both widths and colour schemes.
func (l *Looks) Here(b *Tab, name string) {
	b.T.Helper()
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{320, 1280} {
			full := name + " " + look{"here", width, dark}.String()
			b.Do(chromedp.EmulateViewport(width, 640+width/8))
			b.Dark(dark)
			b.Do(Poll(fmt.Sprintf(`innerWidth === %d && matchMedia("(prefers-color-scheme: dark)").matches === %t`, width, dark)))
			if got := Eval[int64](b, `document.documentElement.scrollWidth`); got > width {
				b.T.Errorf("%s: the page is %d wide", full, got)
			}
			b.Picture(full)
			if l.axe != "" {
				l.judge(b, full)
			}
		}
	}
}

// look is one of the ways to see a page.
type look struct {
	lang  string
	width int64
	dark  bool
}

func (k look) String() string {
	if k.dark {
		return fmt.Sprintf("%s %d dark", k.lang, k.width)
	}
	return fmt.Sprintf("%s %d", k.lang, k.width)
}

// judge reports every rule of axe-core that the page violates as it is now. Style sheets and media
// are not loaded once more for it, which takes as long as the rest: only rules on audio, which no
// page has, and an experimental one need them.
func (l *Looks) judge(b *Tab, page string) {
	b.T.Helper()
	if !Eval[bool](b, `"axe" in window`) {
		b.Do(chromedp.Evaluate[chromedp.Void](l.axe))
	}
	found, err := Run(b, chromedp.Evaluate[string](
		`axe.run({resultTypes: ["violations"], selectors: false, preload: false}).then((r) => JSON.stringify(r.violations.map((v) => (
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
