//go:build !race

package uitest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Browser starts a headless Chromium that ends with the test: its headless shell if there
// is one, which draws no window and takes half the CPU time. Where none is installed the
// test is skipped, or fails if PAYLEDGER_REQUIRE_BROWSER is set. The context is for
// chromedp; a tab of its own comes from chromedp.NewContext. more are options of
// Chromium's beside the usual ones.
func Browser(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("the browser is not started with -short")
	}
	path := ""
	for _, name := range []string{headlessShell, "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("PAYLEDGER_REQUIRE_BROWSER") != "" {
			t.Fatal("Chromium is not installed, and PAYLEDGER_REQUIRE_BROWSER is set")
		}
		t.Skip("Chromium is not installed: install the package chromium to run the tests of the pages")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-features", strings.Join(withoutFeatures(), ",")))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), append(options, more...)...)
	t.Cleanup(stop)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx
}

// headlessShell is where Debian has it. The command on the PATH is a script that does not
// pass signals on.
const headlessShell = "/usr/lib/chromium/chromium-headless-shell"

// withoutFeatures lists the features of Chromium that are off: chromedp's own
// two, and three that cost each new window most of its CPU time and change
// nothing on a page: the two pages with suggestions below the address bar, and
// the process that is started ahead for the next site. Fifteen windows took
// 11.6 s of CPU with the three, and take 4.5 s without.
func withoutFeatures() []string {
	return []string{
		"Translate", "BlinkGenPropertyTrees",
		"WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
	}
}
