package checkout

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/peer"
	"payledger/httpapi/ui"
)

//go:embed locales templates
var files embed.FS

// Views are the reads the page needs. Each must show everything that was
// durable when it was called, so that a customer who is sent back after paying
// never sees the state of before.
type Views interface {
	Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error)
	Project(ctx context.Context, id string) (projects.Project, bool, error)
}

// Sandbox plays the provider. SignalPayment returns when the event that the
// outcome led to is durable. The same outcome under the same reference counts once.
type Sandbox interface {
	SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome, reference string) (domain.SignalReply, error)
}

// Config holds the parts that the page uses. Views, Links and Now are required.
type Config struct {
	Views   Views
	Links   *Links
	Now     func() time.Time
	Sandbox Sandbox // nil: the page has no form that decides the outcome

	// Attempts hand customers over to real providers. nil: the page only awaits the
	// payment, or has the sandbox's form.
	Attempts Attempts

	// Limit asks whether a request for a page of the project may pass, and if not, when
	// to come again. The project is zero where the link leads to none. nil: all pass.
	// Files that the page loads are not asked for.
	Limit func(r *http.Request, of projects.Project) (wait time.Duration, ok bool)

	// PublicURL is the address customers use. Forms from its origin are
	// accepted even when a proxy sends another Host.
	PublicURL string
	Log       zerolog.Logger // used where a request has no logger
}

// How long a request waits for others.
const (
	routeWait  = 5 * time.Second  // a sent form, for the payment's route
	readyWait  = time.Second      // the page, so that it rarely shows a payment being prepared
	signalWait = 10 * time.Second // a sent form, for its outcome to be recorded
)

type handler struct {
	Config
	origins   *ui.Origins
	site      *ui.Site
	templates *template.Template
	turns     *turns
}

// New returns the handler of everything below /p/: the page and its status for
// each link, and the files the page loads. It expects the request's path
// unchanged, and is safe for concurrent use.
func New(c Config) (http.Handler, error) {
	if c.Views == nil || c.Links == nil || c.Now == nil {
		return nil, errors.New("payment page: views, links and a clock are required")
	}
	h := &handler{Config: c, turns: newTurns()}
	var err error
	if h.origins, err = ui.NewOrigins(c.PublicURL); err != nil {
		return nil, fmt.Errorf("payment page: %w", err)
	}
	if h.site, err = ui.New(files); err != nil {
		return nil, fmt.Errorf("payment page: %w", err)
	}
	if h.templates, err = h.site.Templates(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("payment page: %w", err)
	}
	return h, nil
}

// ServeHTTP compares the path as it was sent: a token never needs escaping, so an escaped one is
// not found.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ui.Secure(w.Header())
	path, _ := strings.CutPrefix(r.URL.EscapedPath(), pathPrefix)
	if name, ok := strings.CutPrefix(path, ui.AssetFolder); ok && h.site.ServeAsset(w, r, name) {
		return
	}
	v := &visit{request: r, locale: h.site.Locale(r), token: path}
	answer, refuse := h.visit, h.fail
	if token, ok := strings.CutSuffix(path, statusSuffix); ok {
		v.token, answer, refuse = token, h.status, h.failStatus
	}
	err := cmp.Or(peer.Check(r), h.admit(v)) // which finds the payment, to whose page one of failure leads
	if err == nil {
		err = answer(w, v)
	}
	if err != nil {
		refuse(w, v, err)
	}
}

// admit lets a request pass that is within its limit.
func (h *handler) admit(v *visit) error {
	if h.Limit == nil {
		return nil
	}
	var of projects.Project // an error is reported where it is needed
	if p, err := h.paymentBehind(v.request.Context(), v); err == nil {
		of, _ = h.projectOf(v.request.Context(), p)
	}
	wait, ok := h.Limit(v.request, of)
	if ok {
		return nil
	}
	return &failure{status: http.StatusTooManyRequests, why: tooMany, retryAfter: max(1, seconds(wait))}
}

func (h *handler) visit(w http.ResponseWriter, v *visit) error {
	switch {
	case readOnly(v.request):
		return h.show(w, v)
	case v.request.Method == http.MethodPost && h.forms():
		return h.pay(w, v)
	case h.forms():
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: "GET, HEAD, POST"}
	}
	return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
}

// forms reports whether there are payments whose page has a form.
func (h *handler) forms() bool { return h.Sandbox != nil || h.Attempts != nil }

const readMethods = "GET, HEAD"

func readOnly(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
