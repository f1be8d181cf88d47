package checkout

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"payledger/domain"
)

func newServer(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/p/", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment))
	form := formToken(t, h, path)
	always := map[string]string{
		"Referrer-Policy":              "no-referrer",
		"X-Robots-Tag":                 "noindex, nofollow",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	}
	for name, rec := range map[string]*httptest.ResponseRecorder{
		"page":             get(h, path),
		"status":           get(h, path+"/status"),
		"refused form":     send(h, path, "", "pay"),
		"form":             send(h, path, form, "pay"),
		"result":           get(h, path),
		"unknown link":     get(h, "/p/x"),
		"unknown status":   get(h, "/p/x/status"),
		"unknown stream":   get(h, "/p/x/events"),
		"unknown asset":    get(h, "/p/assets/x.css"),
		"method":           call(h, http.MethodDelete, path, ""),
		"method of status": call(h, http.MethodDelete, path+"/status", ""),
	} {
		for field, want := range always {
			if got := rec.Header().Values(field); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s %q, want %q", name, field, got, want)
			}
		}
		csp := rec.Header().Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'", "connect-src 'self'",
			"form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: no %s in %q", name, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") {
			t.Errorf("%s: lax policy %q", name, csp)
		}
		if p := rec.Header().Get("Permissions-Policy"); !strings.Contains(p, "camera=()") || !strings.Contains(p, "payment=()") {
			t.Errorf("%s: Permissions-Policy %q", name, p)
		}
		if c := rec.Header()["Set-Cookie"]; c != nil {
			t.Errorf("%s: cookies %q", name, c)
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	body := get(h, w.path(w.create(domain.Paid))).Body.String()
	found := regexp.MustCompile(`"\./assets/(\w+)\.[0-9a-f]{16}\.(\w+)"`).FindAllStringSubmatch(body, -1)
	if len(found) != 3 {
		t.Fatalf("%d assets in\n%s", len(found), body)
	}
	types := map[string]string{
		"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
	}
	for _, m := range found {
		path := "/p/" + strings.Trim(m[0], `"./`)
		rec := get(h, path)
		if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != types[m[2]] ||
			rec.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || rec.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, rec.Code, rec.Header())
		}
		if strings.Contains(rec.Body.String(), "http://") && m[2] != "svg" || strings.Contains(rec.Body.String(), "https://") {
			t.Errorf("%s names another host", path)
		}
		if rec := call(h, http.MethodHead, path, ""); rec.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, rec.Code)
		}
	}
}

var tag = regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)((?:\s[^<>]*)?)>`)

// wellFormed checks what holds of every page: elements are closed in order,
// ids are unique, and there is one title, one main and one first heading.
func wellFormed(t *testing.T, body string) {
	t.Helper()
	if !strings.HasPrefix(body, "<!doctype html>\n<html lang=") {
		t.Errorf("no doctype and language in\n%s", body)
	}
	void := map[string]bool{"meta": true, "link": true, "input": true, "circle": true, "path": true, "rect": true}
	var stack []string
	count := make(map[string]int)
	ids := make(map[string]bool)
	for _, m := range tag.FindAllStringSubmatch(body, -1) {
		closing, name, attributes := m[1] == "/", m[2], m[3]
		if id := regexp.MustCompile(`\sid="([^"]*)"`).FindStringSubmatch(attributes); id != nil {
			if ids[id[1]] {
				t.Errorf("id %q twice", id[1])
			}
			ids[id[1]] = true
		}
		switch {
		case void[name]:
		case !closing:
			count[name]++
			stack = append(stack, name)
		case len(stack) == 0 || stack[len(stack)-1] != name:
			t.Fatalf("</%s> closes %v in\n%s", name, stack, body)
		default:
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) > 0 {
		t.Errorf("%v is never closed in\n%s", stack, body)
	}
	for _, once := range []string{"html", "head", "title", "body", "main", "h1"} {
		if count[once] != 1 {
			t.Errorf("%d times <%s> in\n%s", count[once], once, body)
		}
	}
}
