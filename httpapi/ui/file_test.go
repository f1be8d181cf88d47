package ui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"payledger/httpapi/edge"
)

// askFile asks a site for one of its files.
func askFile(t *testing.T, s *Site, name string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/assets/"+name, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	if !s.ServeAsset(rec, r, name) {
		rec.Code = http.StatusNotFound
	}
	return rec
}

// An asset is kept for a year under its own name, travels compressed to clients
// that take that, and is asked for again by its tag.
func TestAssets(t *testing.T) {
	t.Parallel()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for file, a := range s.assets {
		want, _ := static.ReadFile("static/" + file)
		plain := askFile(t, s, a.path())
		if plain.Code != 200 || !bytes.Equal(plain.Body.Bytes(), want) || plain.Header().Get("Content-Encoding") != "" ||
			plain.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || plain.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", file, plain.Code, plain.Header())
		}
		small := askFile(t, s, a.path(), "Accept-Encoding", "br, gzip;q=0.8, *;q=0.1")
		if small.Header().Get("Content-Encoding") != "gzip" || small.Header().Get("ETag") == plain.Header().Get("ETag") || small.Body.Len() >= len(want) {
			t.Errorf("%s: %d bytes of %d, %v", file, small.Body.Len(), len(want), small.Header())
		}
		r, err := gzip.NewReader(small.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: other content when compressed: %v", file, err)
		}
		for _, of := range []*httptest.ResponseRecorder{plain, small} {
			accept := of.Header().Get("Content-Encoding")
			if same := askFile(t, s, a.path(), "Accept-Encoding", accept, "If-None-Match", of.Header().Get("ETag")); same.Code != http.StatusNotModified {
				t.Errorf("%s %q: asked again by its tag: %d", file, accept, same.Code)
			}
		}
		older := askFile(t, s, a.name+".0123456789abcdef"+a.ext)
		if older.Code != 200 || !bytes.Equal(older.Body.Bytes(), want) || older.Header().Get("Cache-Control") != "public, no-cache" {
			t.Errorf("%s by the name of another version: %d %v", file, older.Code, older.Header())
		}
		for _, none := range []string{file, a.name + ".0123" + a.ext, a.name + "." + strings.ToUpper(a.Digest) + "x" + a.ext, "other." + a.Digest + a.ext} {
			if got := askFile(t, s, none); got.Code != http.StatusNotFound {
				t.Errorf("%s: %d", none, got.Code)
			}
		}
	}
}

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate, gzip, br": true, "gzip;q=0": false, "gzip; q=0.000": false, "gzip;q=0.001": true,
		"gzip ; Q=1": true, "identity": false, "xgzip": false, "*": false,
	} {
		if got := edge.Accepts([]string{accept}, "gzip"); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
	if !edge.Accepts([]string{"br", "gzip"}, "gzip") {
		t.Error("two lines")
	}
}
