//go:build !race

package uitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Patience is how long one step in a window may take. Steps are fast, except
// on a machine that is busy with all the other tests.
const Patience = 2 * time.Minute

// Tab is a window of the browser. When its test ends, a request to another
// machine, a console message or an exception fails the test, unless it was
// forgiven.
type Tab struct {
	T   *testing.T
	ctx context.Context

	mu    sync.Mutex
	noise []string
	asked []string // the address of every request the window sent
}

// OpenTab opens a window of the browser, 1280 pixels wide, with separate cookies. Start the server
// it is for first: cleanups run backward, and a server waits for the streams that a window holds
// open.
func OpenTab(t *testing.T, browser context.Context) *Tab { //nolint:revive // t comes first in tests
	t.Helper()
	b := &Tab{T: t}
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.ctx = ctx
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	Call(b, network.Enable, network.EnableParams{})
	Call(b, log.Enable, cdp.Empty{})
	Call(b, runtime.Enable, cdp.Empty{})
	b.Do(chromedp.EmulateViewport(1280, 800))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, n := range b.noise {
			t.Error(n)
		}
	})
	return b
}

func (b *Tab) hear(event any) {
	noise := ""
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
		u, err := url.Parse(e.Request.URL)
		// The browser draws its own controls from data: URLs.
		if err != nil || u.Scheme != "data" && u.Hostname() != "127.0.0.1" && u.Hostname() != OwnAddress() {
			noise = "request to " + e.Request.URL
		}
	case *log.EventEntryAdded:
		noise = "browser log: " + e.Entry.Text + " " + e.Entry.URL
	case *runtime.EventConsoleAPICalled:
		noise = "console: " + string(e.Type)
	case *runtime.EventExceptionThrown:
		noise = "exception: " + e.ExceptionDetails.Text
	}
	if noise != "" && !slices.Contains(b.noise, noise) {
		b.noise = append(b.noise, noise)
	}
}

// Forgive forgets the noise that the test itself has asked for.
func (b *Tab) Forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noise = slices.DeleteFunc(b.noise, func(n string) bool { return strings.Contains(n, part) })
}

// Requests counts the requests whose address has the part.
func (b *Tab) Requests(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, u := range b.asked {
		if strings.Contains(u, part) {
			n++
		}
	}
	return n
}

// OwnAddress is an address of this machine that is not loopback, or nothing.
func OwnAddress() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// Run takes one step and returns its error.
func Run[T any](b *Tab, step chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	return chromedp.Run(ctx, step)
}

// Do takes the steps, or ends the test with what the page was.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	if _, err := Run(b, chromedp.Steps(steps...)); err != nil {
		b.T.Fatalf("%v; the page is\n%s", err, b.HTML())
	}
}

// HTML is the page as it is.
func (b *Tab) HTML() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	s, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.documentElement.outerHTML`))
	return s
}

// Eval is the value of a JavaScript expression. What may be taken away by a
// navigation is a matter for Poll.
func Eval[T any](b *Tab, expression string) T {
	b.T.Helper()
	v, err := Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.T.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Call sends a command of the DevTools protocol.
func Call[P, R any](b *Tab, c cdp.Command[P, R], p P) R {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	r, err := chromedp.Call(ctx, c, p)
	if err != nil {
		b.T.Fatalf("%s: %v", c.Method, err)
	}
	return r
}

// Poll waits until a JavaScript expression is true, on whichever page the
// window is by then: an evaluation that a navigation takes away is made again.
func Poll(predicate string) chromedp.Action[chromedp.Void] {
	ask := chromedp.Evaluate[bool]("Boolean(" + predicate + ")")
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for {
			yes, err := ask(ctx, target)
			if lost := new(cdproto.Error); yes || err != nil && !errors.As(err, &lost) {
				return err
			}
			select {
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("waiting for %s: %w", predicate, ctx.Err()), err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// Back presses the button that goes to the page before. That may come back
// from memory without a load event, so nothing is waited for; and it is no
// script of the page, whose answer the navigation might take away.
func (b *Tab) Back() {
	b.T.Helper()
	history := Call(b, page.GetNavigationHistory, cdp.Empty{})
	before := history.Entries[history.CurrentIndex-1]
	Call(b, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: before.ID})
}

// Loaded waits until the page is whole: until then scripts and styles still
// move what is on it, also from under a click.
func Loaded() chromedp.Action[chromedp.Void] { return Poll(`document.readyState === "complete"`) }

// WithoutScript turns JavaScript off.
func (b *Tab) WithoutScript() {
	b.T.Helper()
	Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// Dark asks for dark pages, or for light ones.
func (b *Tab) Dark(yes bool) {
	b.T.Helper()
	scheme := "light"
	if yes {
		scheme = "dark"
	}
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// Picture saves a screenshot of the whole page when PAYLEDGER_SCREENSHOTS names a folder.
func (b *Tab) Picture(name string) {
	b.T.Helper()
	if !pictured() {
		return
	}
	png, err := Run(b, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Getenv("PAYLEDGER_SCREENSHOTS"), strings.ReplaceAll(name, " ", "-")+".png"), png, 0o600)
	}
	if err != nil {
		b.T.Error(err)
	}
}

// pictured reports whether screenshots are saved.
func pictured() bool { return os.Getenv("PAYLEDGER_SCREENSHOTS") != "" }
