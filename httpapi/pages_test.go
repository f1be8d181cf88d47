package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"payledger/httpapi/docs"
)

func TestProblemPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.send("GET", "/problems/validation_failed", nil).want(200, "")
	page := string(a.Body)
	for _, want := range []string{"422 Unprocessable Entity", `<a href="payload_too_large">`, "Validation failed", `lang="en"`, "viewport"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if strings.Contains(page, "<script") || !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%v", a.Header)
	}
	asset := regexp.MustCompile(`rel="stylesheet" href="\.\.(/[^"]+)"`).FindStringSubmatch(page)
	if asset == nil {
		t.Fatalf("no stylesheet in %s", page)
	}
	s.send("GET", asset[1], nil).want(200, "")
	field := string(s.send("GET", "/problems/payload_too_large", nil).want(200, "").Body)
	if !strings.Contains(field, `<a href="validation_failed">`) {
		t.Error(field)
	}
}

// The type of every problem is the URL of its page.
func TestTypeOfAProblemIsServed(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.send("GET", "/v1/payments", nil).problem()
	path, ok := strings.CutPrefix(p.Type, publicURL)
	if !ok {
		t.Fatalf("type %s", p.Type)
	}
	if a := s.send("GET", path, nil).want(200, ""); !strings.Contains(string(a.Body), p.Title) {
		t.Errorf("%s", a.Body)
	}
}

// The reader of the API's document runs the scripts that its policy names by their
// digests, and no other.
func TestPolicyOfTheDocumentation(t *testing.T) {
	t.Parallel()
	a := start(t).send("GET", "/docs", nil).want(200, "")
	_, policy, _ := strings.Cut(a.Header.Get("Content-Security-Policy"), "script-src ")
	policy, _, _ = strings.Cut(policy, ";")
	scripts := regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`).FindAllStringSubmatch(string(a.Body), -1)
	inline := 0
	for _, script := range scripts {
		if strings.Contains(script[1], "src=") {
			continue
		}
		inline++
		digest := sha256.Sum256([]byte(script[2]))
		if want := "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("script-src %s has no %s, of\n%s", policy, want, script[2])
		}
	}
	if inline == 0 || strings.Count(policy, "sha256-") != inline || strings.Contains(policy, "unsafe") || regexp.MustCompile(`\son[a-z]+=`).Match(a.Body) {
		t.Errorf("%d scripts in the page, script-src %s", inline, policy)
	}
}

func TestDocumentation(t *testing.T) {
	t.Parallel()
	s := start(t)
	doc := s.send("GET", "/openapi.yaml", nil)
	if doc.Code != 200 || !bytes.Equal(doc.Body, docs.OpenAPI) || doc.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %v", doc.Code, doc.Header)
	}
	if compressed := s.send("GET", "/openapi.yaml", nil, header{"Accept-Encoding", "gzip"}); len(compressed.Body) > len(docs.OpenAPI)/3 {
		t.Errorf("compressed the document has %d bytes", len(compressed.Body))
	}
	for name, value := range map[string]string{
		"Range": "bytes=999999999-", "If-Match": `"x"`, "If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT",
	} {
		if a := s.send("GET", "/openapi.yaml", nil, header{name, value}).want(200, ""); !bytes.Equal(a.Body, docs.OpenAPI) {
			t.Errorf("%s: %d bytes", name, len(a.Body))
		}
	}
	s.send("GET", "/openapi.yaml", nil, header{"If-None-Match", doc.Header.Get("ETag")}).want(304, "")
	for line, status := range map[string]int{"Expect: foo": 417, "Transfer-Encoding: gzip, chunked": 501} { // of net/http
		a := s.raw("POST /v1/payments HTTP/1.1\r\nHost: x\r\n" + line + "\r\n\r\n")
		if text := string(docs.OpenAPI); a.Code != status || a.Header.Get("Content-Type") == "application/problem+json" || !strings.Contains(text, fmt.Sprintf(" %d", status)) {
			t.Errorf("%s: %d %v", line, a.Code, a.Header)
		}
	}
	for _, prefix := range []string{"", "/base"} {
		behind := s.again(func(c *settings) { c.PublicURL = publicURL + prefix })
		page := string(behind.send("GET", "/docs", nil).want(200, "").Body)
		// The page adds scheme and host to this address.
		if !strings.Contains(page, `"swaggerJsonUrl":"`+prefix+`/openapi.yaml"`) {
			t.Errorf("%s", page)
		}
		assets := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page, -1)
		if len(assets) < 3 {
			t.Fatalf("%s", page)
		}
		for _, m := range assets {
			path, ours := strings.CutPrefix(m[1], prefix+"/docs/")
			if !ours {
				t.Errorf("%s is loaded from elsewhere", m[1])
				continue
			}
			a := behind.send("GET", "/docs/"+path, nil)
			if a.Code != 200 || len(a.Body) == 0 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d %v", m[1], a.Code, a.Header)
			}
			compressed := behind.send("GET", "/docs/"+path, nil, header{"Accept-Encoding", "gzip"})
			if compressed.Header.Get("Content-Encoding") != "gzip" || len(compressed.Body) > len(a.Body)+64 || compressed.Header.Get("ETag") == "" {
				t.Errorf("%s: %d of %d bytes, %v", m[1], len(compressed.Body), len(a.Body), compressed.Header)
			}
			_, file, _ := strings.Cut(path, "/")
			older := behind.send("GET", "/docs/0123456789abcdef/"+file, nil)
			if !bytes.Equal(older.Body, a.Body) || older.Header.Get("Cache-Control") != "public, no-cache" {
				t.Errorf("%s of another version: %d %v", file, older.Code, older.Header)
			}
		}
	}
}

// Only one status is written when a client leaves in the middle of a file: net/http
// would log a second one in its own log.
func TestOneStatusWhenClientLeaves(t *testing.T) {
	t.Parallel()
	s := start(t)
	page := string(s.send("GET", "/docs", nil).want(200, "").Body)
	assets := regexp.MustCompile(`(?:src|href)="(/docs/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(assets) == 0 {
		t.Fatal(page)
	}
	for _, m := range assets {
		for _, encoding := range []string{"", "gzip"} {
			w := &gone{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, m[1], nil)
			r.Header.Set("Accept-Encoding", encoding)
			s.public.ServeHTTP(w, r)
			if w.statuses > 1 {
				t.Errorf("%s %s: %d statuses", m[1], encoding, w.statuses)
			}
		}
	}
}

// gone is a client that reads nothing.
type gone struct {
	*httptest.ResponseRecorder
	statuses int
}

func (w *gone) WriteHeader(int) { w.statuses++ }

func (w *gone) Write([]byte) (int, error) {
	w.statuses = max(w.statuses, 1)
	return 0, io.ErrClosedPipe
}
