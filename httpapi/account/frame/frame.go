// Package frame is what all pages of the account share: a request for a page with its language and
// session, forms that count once, secrets that are shown once, pages of failure, lists and files,
// and the pages to sign in.
//
// It finds the page in a table of routes. Before a route is called, the key of the
// session was found live, and of a form the origin and the token were checked.
// Anyone not signed in is sent to the sign-in page. Templates and texts of all
// pages are in the folder above.
package frame

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/peer"
	"payledger/httpapi/ui"
	"payledger/httpapi/webhooks"
)

// Path is where the handler is mounted; everything below it is the account's.
const Path = "/account"

// Route is one row of the table of pages.
type Route struct {
	Method string // GET, which HEAD goes with, or POST
	Path   string // below Path, "" for Path itself; {name} matches one segment
	Serve  func(*Visit) error

	open bool // also without being signed in
}

// Tab is an entry of the navigation of every page: a path of the table and the id of its text. One
// whose path is not in the table is left out.
type Tab struct{ Path, Word string }

// Pages are the pages of the account besides the frame's own. In the table, a path with a fixed
// segment comes before one with a variable at the same position.
type Pages struct {
	Files  fs.FS // templates/*.html and locales/*.toml of all pages
	Routes []Route
	Tabs   []Tab
}

// Config is what the account works with. Everything but Visits and
// Webhooks is needed.
type Config struct {
	API       *merchant.API
	Keys      *Keys
	Webhooks  *webhooks.API    // nil: there are no pages about webhooks
	Visits    int              // requests for pages a minute and address; 0: no limit
	Now       func() time.Time // the clock
	PublicURL string           // where the world reaches this program, without a trailing slash
	Sandbox   bool             // payments can be settled by hand
	Log       zerolog.Logger
}

type handler struct {
	Config
	site      *ui.Site
	templates *template.Template
	origins   *http.CrossOriginProtection
	byAddress *edge.Limiter // of requests for pages
	byProject *edge.Limiter
	table     []Route
	tabs      []Tab
	prefix    string // path of the public URL
	secure    bool   // the public URL is one of https
}

// New returns the handler of everything at and below Path, which edge.Pages
// serves. It expects the request's path unchanged, and is safe for concurrent
// use.
//
// Pages are limited by address as the payment page and by project as reads of the API, each with
// separate tokens. Files that pages load are not counted.
func New(c Config, p Pages) (func(*edge.Exchange) error, error) {
	h, err := newHandler(c, p)
	if err != nil {
		return nil, err
	}
	return h.serve, nil
}

func newHandler(c Config, p Pages) (*handler, error) {
	if c.API == nil || c.Keys == nil || c.Now == nil {
		return nil, errors.New("account: the API, keys and a clock are needed")
	}
	base, err := url.Parse(c.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("account: public URL %q: %w", c.PublicURL, err)
	}
	h := &handler{
		Config: c, prefix: base.EscapedPath(), secure: base.Scheme == "https", origins: http.NewCrossOriginProtection(),
		byAddress: edge.NewLimiter("account-visits"), byProject: edge.NewLimiter("account-pages"),
	}
	if base.Host != "" {
		if err := h.origins.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
			return nil, fmt.Errorf("account: public URL %q: %w", c.PublicURL, err)
		}
	}
	if h.site, err = ui.New(p.Files); err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	if h.templates, err = h.site.Templates(p.Files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	h.table, h.tabs = append([]Route{
		{Method: "GET", Path: "signin", open: true, Serve: (*Visit).showSignIn},
		{Method: "POST", Path: "signin", open: true, Serve: (*Visit).signIn},
		{Method: "GET", Path: "session", Serve: (*Visit).showSession},
		{Method: "POST", Path: "signout", Serve: (*Visit).signOut},
		{Method: "POST", Path: "signout-everywhere", Serve: (*Visit).signOutEverywhere},
	}, p.Routes...), p.Tabs
	return h, nil
}

// serve finds the page. Paths match as they were sent: no id needs escaping.
// The error is that of an answer that cannot be completed.
func (h *handler) serve(x *edge.Exchange) error {
	r := x.Request
	ui.Secure(x.Header())
	// Browsers send the origin of a form to the account itself and to no other site.
	x.Header().Set("Referrer-Policy", "same-origin")
	rest := strings.TrimPrefix(r.URL.EscapedPath(), Path)
	rest = strings.TrimPrefix(rest, "/")
	if name, ok := strings.CutPrefix(rest, ui.AssetFolder); ok && h.site.ServeAsset(x, r, name) {
		return nil
	}
	v := &Visit{handler: h, X: x, Request: r, Locale: h.site.RememberedLocale(x, r, h.prefix+Path)}
	if err := h.answer(v, rest); err != nil {
		return v.fail(err)
	}
	return nil
}

func (h *handler) answer(v *Visit, path string) error {
	if err := peer.Check(v.Request); err != nil {
		return err
	}
	if err := h.byAddress.Allow(conns.Visitor(v.Request), edge.PerMinute(h.Visits), h.Now(), nil); err != nil {
		return err
	}
	if err := v.loadSession(); err != nil {
		return err
	}
	if v.signedIn() {
		rate := edge.PerSecond(h.API.Limits(v.Caller.Project).RateReads)
		if err := h.byProject.Allow(v.session.Project, rate, h.Now(), nil); err != nil {
			return err
		}
	}
	var allowed []string
	for i := range h.table {
		p := &h.table[i]
		vars, ok := match(p.Path, path)
		if !ok {
			continue
		}
		if p.Method != v.Request.Method && (p.Method != http.MethodGet || v.Request.Method != http.MethodHead) {
			allowed = append(allowed, p.Method)
			continue
		}
		v.route, v.Vars = p, vars
		return v.serve()
	}
	if len(allowed) > 0 {
		v.X.Header().Set("Allow", strings.Join(allowed, ", "))
		return &Failure{Status: http.StatusMethodNotAllowed, Why: "method"}
	}
	return &Failure{Status: http.StatusNotFound, Why: "page"}
}

// match compares a path with a pattern and answers its variables.
func match(pattern, path string) (map[string]string, bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	vars := make(map[string]string)
	for i, w := range want {
		if name, ok := strings.CutPrefix(w, "{"); ok && have[i] != "" {
			vars[strings.TrimSuffix(name, "}")] = have[i]
		} else if w != have[i] {
			return nil, false
		}
	}
	return vars, true
}
