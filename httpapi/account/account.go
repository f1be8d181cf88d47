package account

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/peer"
	"payledger/httpapi/ui"
	"payledger/httpapi/webhooks"
)

//go:embed templates locales
var files embed.FS

// Path is where the handler is mounted; everything below it is the account's.
const Path = "/account"

type handler struct {
	API       *merchant.API
	Keys      *Keys
	Webhooks  *webhooks.API
	config    merchant.Config // of API
	site      *ui.Site
	templates *template.Template
	origins   *http.CrossOriginProtection
	byAddress *edge.Limiter // of requests for pages
	byProject *edge.Limiter
	table     []page
	prefix    string // path of the public URL
	secure    bool   // the public URL is one of https
}

// New returns the handler of everything at and below Path, which edge.Pages
// serves. It expects the request's path unchanged, and is safe for concurrent
// use.
//
// Pages are limited by address as the payment page and by project as reads of the API, each with
// separate tokens. Files that pages load are not counted.
func New(m *merchant.API, keys *Keys) (func(*edge.Exchange) error, error) {
	h, err := newHandler(m, keys)
	if err != nil {
		return nil, err
	}
	return h.serve, nil
}

func newHandler(m *merchant.API, keys *Keys) (h *handler, err error) {
	c := m.Config()
	h = &handler{
		API: m, Keys: keys, Webhooks: webhooks.New(m), config: c, table: pages(), prefix: c.Prefix(), secure: strings.HasPrefix(strings.ToLower(c.PublicURL), "https:"),
		byAddress: edge.NewLimiter("account-visits"), byProject: edge.NewLimiter("account-pages"),
	}
	if h.origins, err = ui.Origins(c.PublicURL); err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	if h.site, err = ui.New(files); err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	if h.templates, err = h.site.Templates(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
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
	v := &visit{handler: h, X: x, Request: r, Locale: h.site.RememberedLocale(x, r, h.prefix+Path)}
	if err := h.answer(v, rest); err != nil {
		return v.fail(err)
	}
	return nil
}

func (h *handler) answer(v *visit, path string) error {
	if err := peer.Check(v.Request); err != nil {
		return err
	}
	if err := h.byAddress.Allow(conns.Visitor(v.Request), edge.PerMinute(h.config.Limits.RateCustomers), h.config.Now(), nil); err != nil {
		return err
	}
	if err := v.loadSession(); err != nil {
		return err
	}
	if v.signedIn() {
		rate := edge.PerSecond(h.API.Limits(v.Caller.Project).RateReads)
		if err := h.byProject.Allow(v.session.Project, rate, h.config.Now(), nil); err != nil {
			return err
		}
	}
	var allowed []string
	for i := range h.table {
		p := &h.table[i]
		vars, ok := match(p.path, path)
		if !ok {
			continue
		}
		if p.method != v.Request.Method && (p.method != http.MethodGet || v.Request.Method != http.MethodHead) {
			if allowed = append(allowed, p.method); p.method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
			continue
		}
		v.route, v.Vars = p, vars
		return v.serve()
	}
	if len(allowed) > 0 {
		slices.Sort(allowed) // two rows can match: payments/new is an id, too
		v.X.Header().Set("Allow", strings.Join(slices.Compact(allowed), ", "))
		return &failure{Status: http.StatusMethodNotAllowed, Why: "method"}
	}
	return &failure{Status: http.StatusNotFound, Why: "page"}
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
