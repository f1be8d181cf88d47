package ui

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"payledger/httpapi/ui/uitest"
)

func TestWords(t *testing.T) {
	t.Parallel()
	uitest.Words(t, os.DirFS("."))
}

// A page with every part there is comes out whole.
func TestPage(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"locales/own.en.toml": {Data: []byte("[own]\ntitle = \"Hello {{.Name}}\"\n")},
		"locales/own.ru.toml": {Data: []byte("[own]\ntitle = \"Привет, {{.Name}}\"\n")},
		"page.html": {Data: []byte(`{{template "ui-head" .}}<body>{{.T "own.title" "Name" "<b>"}} {{.Time 0}} {{.Badge "paid"}} ` +
			`{{.Badge "<x>"}} {{.Copyable "a\"b"}} {{qr "x"}} {{template "ui-languages" .}}{{template "ui-live" .}}</body></html>`)},
	}
	s, err := New(files)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := s.Templates(files, "*.html")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/account/payments/x?status=paid&lang=ru", nil)
	rec := httptest.NewRecorder()
	if err := Render(rec, http.StatusOK, pages, "page.html", s.Page(r, s.Locale(r), "/account/", "A & B")); err != nil {
		t.Fatal(err)
	}
	body := rec.Body.String()
	for _, want := range []string{
		`<html lang="ru">`, `<title>A &amp; B</title>`, `href="../assets/ui.`, `src="../assets/ui.`,
		"Привет, &lt;b&gt;", `<time datetime="1970-01-01T00:00:00.000Z" data-local="moment">`,
		`<span class="badge good">Оплачен</span>`, `<span class="badge quiet">&lt;x&gt;</span>`,
		`data-copy="a&#34;b"`, `<svg class="qr-code"`, `<a href="?lang=en&amp;status=paid" hreflang="en" lang="en">`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

func TestUnknownWordIsAnError(t *testing.T) {
	t.Parallel()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"page.html": {Data: []byte(`{{.T "no.such"}}`)}}
	pages, err := s.Templates(files, "*.html")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	err = Render(httptest.NewRecorder(), http.StatusOK, pages, "page.html", s.Page(r, s.Locale(r), "/", ""))
	if err == nil || !strings.Contains(err.Error(), "no.such") {
		t.Errorf("error %v", err)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"/p/x", "/p/", "./"},
		{"/p/x/y", "/p/", "../"},
		{"/account", "/account/", "./account/"},
		{"/account/", "/account/", "./"},
		{"/account/payments", "/account/", "./"},
		{"/account/payments/1", "/account/", "../"},
		{"/problems/x", "/account/", "../account/"},
	} {
		if got := Root(httptest.NewRequest(http.MethodGet, c[0], nil), c[1]); got != c[2] {
			t.Errorf("%s as seen from %s: %s, want %s", c[1], c[0], got, c[2])
		}
	}
}
