package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Site is the look and the texts of a handler's pages. It is immutable and
// safe for concurrent use.
type Site struct {
	assets    map[string]asset // by file: ui.css
	languages []*Locale
	match     func(acceptLanguage string) *Locale
}

// New makes a site with this package's texts and those in locales/ of each
// file system.
func New(texts ...fs.FS) (*Site, error) {
	assets, err := loadAssets()
	if err != nil {
		return nil, err
	}
	s := &Site{assets: assets}
	if err := s.loadLanguages(texts); err != nil {
		return nil, err
	}
	return s, nil
}

// Templates parses the files that match the patterns together with those of
// this package.
func (s *Site) Templates(files fs.FS, patterns ...string) (*template.Template, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"asset": func(file string) (string, error) {
			a, ok := s.assets[file]
			if !ok {
				return "", fmt.Errorf("there is no asset %q", file)
			}
			return AssetFolder + a.path(), nil
		},
		"qr": QR,
	}).ParseFS(static, "static/*.html")
	if err != nil {
		return nil, err
	}
	return t.ParseFS(files, patterns...)
}

// Page is the data of every page.
type Page struct {
	*Locale
	Title   string
	Root    string // relative address below which the assets are served, ends in a slash
	Refresh int    // without script: reload the page after this many seconds; 0: never
	Switch  bool   // offer the other languages
	Here    string // relative address of the page in another language, "" for its own
	Plain   bool   // no script

	languages []*Locale
	query     url.Values
}

// Page makes the Page of a request. root is the path, from the program's own
// root, below which the assets are served, and ends in a slash. The switch of
// languages is on where following a link shows the same page again: on GET.
func (s *Site) Page(r *http.Request, l *Locale, root, title string) Page {
	return Page{
		Locale: l, Title: title, Root: Root(r, root), Switch: readOnly(r), languages: s.languages, query: r.URL.Query(),
	}
}

// Choice is a link of the switch of languages.
type Choice struct {
	Lang, Name, Address string
}

// Choices are the other languages, for the switch.
func (p Page) Choices() []Choice {
	var all []Choice
	for _, l := range p.languages {
		if l.Lang == p.Lang {
			continue
		}
		q := maps.Clone(p.query)
		q.Set(langParameter, l.Lang)
		all = append(all, Choice{Lang: l.Lang, Name: l.Name, Address: p.Here + "?" + q.Encode()})
	}
	return all
}

// Root is the relative address of a path (which ends in a slash) as seen from
// the request's. The program does not know under which path a proxy shows it,
// so every address on a page is relative.
func Root(r *http.Request, path string) string {
	here := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(here, path); ok {
		if n := strings.Count(rest, "/"); n > 0 {
			return strings.Repeat("../", n)
		}
		return "./"
	}
	// The request's path is a sibling or a parent: go up to the root and down again.
	up := max(0, strings.Count(here, "/")-1)
	if up == 0 {
		return "./" + strings.TrimPrefix(path, "/")
	}
	return strings.Repeat("../", up) + strings.TrimPrefix(path, "/")
}

// Render fills the template before the status is sent, so that a page comes
// whole or not at all.
func Render(w http.ResponseWriter, status int, t *template.Template, name string, data any) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader may have left
	return nil
}

func readOnly(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
