package checkout

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/peer"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
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

	// Limits are those of projects without limits. Files that the page loads are not counted.
	Limits domain.Limits

	// PublicURL is the address customers use. Forms from its origin are
	// accepted even when a proxy sends another Host.
	PublicURL string
}

// signalWait is how long a sent form waits for its outcome to be recorded.
const signalWait = 10 * time.Second

type handler struct {
	Config
	origins   *http.CrossOriginProtection
	site      *ui.Site
	templates *template.Template
	turn      chan struct{} // holds one: of two of the sandbox's forms the second finds the result of the first

	reads, forms, questions *edge.Limiter
}

// New returns the handler of everything below /p/, which edge.Pages serves: the page and its status
// for each link, and the files the page loads. It expects the request's path
// unchanged, and is safe for concurrent use.
func New(c Config) (func(*edge.Exchange) error, error) {
	h, err := newHandler(c)
	if err != nil {
		return nil, err
	}
	return h.serve, nil
}

func newHandler(c Config) (h *handler, err error) {
	if c.Views == nil || c.Links == nil || c.Now == nil {
		return nil, errors.New("payment page: views, links and a clock are required")
	}
	h = &handler{
		Config: c, turn: make(chan struct{}, 1),
		reads: edge.NewLimiter("page-reads"), forms: edge.NewLimiter("page-forms"), questions: edge.NewLimiter("page-status"),
	}
	if h.origins, err = ui.Origins(c.PublicURL); err != nil {
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

// serve compares the path as it was sent: a token never needs escaping, so an escaped one is
// not found. The error is that of an answer that cannot be completed.
func (h *handler) serve(x *edge.Exchange) error {
	ui.Secure(x.Header())
	path, _ := strings.CutPrefix(x.Request.URL.EscapedPath(), pathPrefix)
	if name, ok := strings.CutPrefix(path, ui.AssetFolder); ok && h.site.ServeAsset(x, x.Request, name) {
		return nil
	}
	v := &visit{x: x, request: x.Request, locale: h.site.Locale(x.Request)}
	answer := h.visit
	if v.token, v.asksStatus = strings.CutSuffix(path, statusSuffix); v.asksStatus {
		answer = h.status
	}
	err := cmp.Or(peer.Check(x.Request), h.admit(v)) // which finds the payment, to whose page one of failure leads
	if err == nil {
		err = answer(v)
	}
	if err != nil && !v.asksStatus {
		err = h.fail(v, err)
	}
	return err
}

// For each request that sends a form there may be formShare that read. The status polls of open pages
// have a separate limit, statusShare times that of reads: many customers share an address, and each
// page asks every two seconds.
const (
	formShare   = 10
	statusShare = 10
)

// admit lets a request pass that is within the limit of its project, which is the server's where the
// link leads to none.
func (h *handler) admit(v *visit) error {
	var of projects.Project // an error is reported where it is needed
	if p, err := h.paymentBehind(v.x.Context(), v); err == nil {
		of, _ = h.projectOf(v.x.Context(), p)
	}
	n, name := of.Settings.LimitsOver(h.Limits).RateCustomers, conns.Visitor(v.request)
	if of.Settings.RateCustomers != nil {
		name = of.ID + " " + name
	}
	limit := h.reads
	switch {
	case !readOnly(v.request):
		limit, n = h.forms, (n+formShare-1)/formShare
	case v.asksStatus:
		limit, n = h.questions, n*statusShare
	}
	refused, ok := errors.AsType[wire.Problem](limit.Allow(name, edge.PerMinute(n), h.Now(), nil))
	if !ok {
		return nil
	}
	seconds, _ := strconv.Atoi(refused.Header.Get("Retry-After")) // the limiter writes it so
	return &failure{status: http.StatusTooManyRequests, why: tooMany, retryAfter: seconds, cause: refused}
}

func (h *handler) visit(v *visit) error {
	switch {
	case readOnly(v.request):
		return h.show(v)
	case v.request.Method == http.MethodPost && h.hasForms():
		return h.pay(v)
	case h.hasForms():
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: "GET, HEAD, POST"}
	}
	return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
}

// hasForms reports whether there are payments whose page has a form.
func (h *handler) hasForms() bool { return h.Sandbox != nil || h.Attempts != nil }

const readMethods = "GET, HEAD"

func readOnly(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
