package checkout

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/text/language"

	"payledger/domain"
)

// Views are the reads the page needs. Each must show everything that was
// durable when it was called, so that a customer who is sent back after paying
// never sees the state of before.
type Views interface {
	Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error)
	Project(ctx context.Context, id string) (domain.Project, bool, error)
}

// Sandbox plays the provider. SignalPayment answers once what the outcome led
// to is durable. The same outcome under the same reference counts once.
type Sandbox interface {
	SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome, reference string) (domain.SignalReply, error)
}

// Config is what the page is made of. All members but Sandbox, PublicURL and
// Log are required.
type Config struct {
	Views   Views
	Links   *Links
	Now     func() time.Time
	Sandbox Sandbox // nil: the page has no form and only awaits the payment

	// PublicURL is the address customers use. Forms from its origin are
	// accepted even when a proxy tells another Host.
	PublicURL string
	Log       zerolog.Logger // used where a request carries no logger of its own
}

// How long a request waits for others.
const (
	routeWait  = 5 * time.Second  // a sent form, for the payment's route
	readyWait  = time.Second      // the page, so that it rarely shows a payment being prepared
	signalWait = 10 * time.Second // a sent form, for its outcome to be recorded
)

type handler struct {
	Config
	origins   *http.CrossOriginProtection
	templates *template.Template
	assets    map[string]asset
	languages []locale
	matcher   language.Matcher
}

// New returns the handler of everything below /p/: the page and its status for
// each link, and the files the page loads. It expects the request's path
// unchanged, and is safe for concurrent use.
func New(c Config) (http.Handler, error) {
	if c.Views == nil || c.Links == nil || c.Now == nil {
		return nil, errors.New("payment page: views, links and a clock are required")
	}
	h := &handler{Config: c, origins: http.NewCrossOriginProtection(), languages: locales()}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err == nil {
			err = h.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host)
		}
		if err != nil {
			return nil, fmt.Errorf("payment page: public URL %q: %w", c.PublicURL, err)
		}
	}
	var err error
	if h.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("payment page: %w", err)
	}
	if h.templates, err = parseTemplates(h.assets); err != nil {
		return nil, fmt.Errorf("payment page: %w", err)
	}
	tags := make([]language.Tag, len(h.languages))
	for i, l := range h.languages {
		tags[i] = l.tag
	}
	h.matcher = language.NewMatcher(tags)
	return h, nil
}

// ServeHTTP compares the path as it was sent: a token never needs escaping, so
// an escaped spelling of one leads nowhere.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	path, _ := strings.CutPrefix(r.URL.EscapedPath(), pathPrefix)
	if name, ok := strings.CutPrefix(path, assetFolder); ok {
		if a, ok := h.assets[name]; ok && readOnly(r) {
			a.ServeHTTP(w, r)
			return
		}
	}
	token, isStatus := strings.CutSuffix(path, "/status")
	if isStatus {
		h.status(w, r, token)
		return
	}
	v := &visit{request: r, locale: h.locale(r), token: token}
	if err := h.visit(w, v); err != nil {
		h.fail(w, v, err)
	}
}

func (h *handler) visit(w http.ResponseWriter, v *visit) error {
	switch {
	case readOnly(v.request):
		return h.show(w, v)
	case v.request.Method == http.MethodPost && h.Sandbox != nil:
		return h.pay(w, v)
	case h.Sandbox != nil:
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: "GET, HEAD, POST"}
	}
	return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
}

const readMethods = "GET, HEAD"

func readOnly(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// setHeaders keeps the page out of caches, frames, indexes and referrers, and
// lets it load nothing but its own files. The link is a secret of the
// customer's, so no request may tell it to anybody.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), "+
		"publickey-credentials-get=(), serial=(), usb=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
