package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"payledger/domain"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
)

// route is one row of the table of routes. Every HEAD goes where GET goes.
type route struct {
	method    string
	path      string // exact; {name} stands for one segment, {name:.+} for the rest
	operation string // operationId in openapi.yaml, and label of logs and metrics
	scope     domain.Scope
	body      bool // takes a JSON object
	optional  bool // and goes without: no body stands for {}
	endless   bool // may take as long as the client stays
	handle    func(*exchange) error
}

// api is the public handler.
type api struct {
	*edge
	cfg      Config
	router   *mux.Router
	inner    *mux.Router // of requests from this process
	nobody   domain.Project
	writes   *limiter
	reads    *limiter
	failures *limiter
	pages    *pages
	feeds    openStreams
	settler
}

// routes is the table of routes of the public handler. The router tries one
// path after the other, so what is asked for most stands first.
func (a *api) routes() []route {
	table := []route{
		{method: "POST", path: paymentsPath, operation: "createPayment", scope: domain.PaymentsWrite, body: true, handle: a.createPayment},
		{method: "GET", path: paymentsPath, operation: "listPayments", scope: domain.Read, handle: a.listPayments},
		{method: "GET", path: paymentsPath + "/{id}", operation: "getPayment", scope: domain.Read, handle: a.getPayment},
		{method: "GET", path: paymentsPath + "/{id}/events", operation: "listPaymentEvents", scope: domain.Read, handle: a.listPaymentEvents},
		{method: "POST", path: refundsPath, operation: "createRefund", scope: domain.RefundsWrite, body: true, handle: a.createRefund},
		{method: "GET", path: refundsPath, operation: "listRefunds", scope: domain.Read, handle: a.listRefunds},
		{method: "GET", path: refundsPath + "/{id}", operation: "getRefund", scope: domain.Read, handle: a.getRefund},
	}
	if a.cfg.Webhooks != nil {
		table = append(table, a.webhookRoutes()...)
	}
	table = append(table, []route{
		{method: "GET", path: "/v1/balance", operation: "getBalance", scope: domain.Read, handle: a.balance},
		{method: "GET", path: "/v1/balance/statement", operation: "listPostings", scope: domain.Read, handle: a.statement},
		{method: "GET", path: "/v1/events", operation: "listEvents", scope: domain.Audit, endless: true, handle: a.feed},
		{method: "GET", path: "/problems/{code}", operation: "getProblem", handle: a.pages.problem},
		{method: "GET", path: "/openapi.yaml", operation: "getOpenAPI", handle: a.pages.openAPI},
		{method: "GET", path: "/docs", operation: "getDocs", handle: a.pages.docs},
		{method: "GET", path: "/docs/{asset}", operation: "getDocsAsset", handle: a.pages.docs},
		{method: "GET", path: "/livez", operation: "livez", handle: a.livez},
		{method: "GET", path: "/readyz", operation: "readyz", handle: a.readyz},
	}...)
	table = append(table, a.logRoutes()...)
	if a.cfg.Sandbox != nil {
		table = append(
			table,
			route{method: "POST", path: "/v1/sandbox/payments/{id}", operation: "settlePayment", scope: domain.PaymentsWrite, body: true, handle: a.settlePayment},
			route{method: "POST", path: "/v1/sandbox/refunds/{id}", operation: "settleRefund", scope: domain.RefundsWrite, body: true, handle: a.settleRefund},
		)
	}
	return table
}

// New returns the public handler: the merchants' API, the payment page, the
// account, the problem pages, the documentation, /livez and /readyz.
func New(cfg Config) (http.Handler, error) {
	a, err := newAPI(cfg)
	if err != nil {
		return nil, err
	}
	return a.wrap(a.serve), nil
}

func newAPI(cfg Config) (*api, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	e, err := newEdge(cfg, "public")
	if err != nil {
		return nil, err
	}
	a := &api{
		edge: e, cfg: cfg, nobody: nobody(), settler: settler{cfg: cfg},
		writes: newLimiter("writes", cfg.Limits.Writes),
		reads:  newLimiter("reads", cfg.Limits.Reads),
		feeds:  openStreams{byProject: make(map[string]int)},
	}
	if n := cfg.Limits.FailedAuthPerMinute; n > 0 {
		a.failures = newLimiter("failed-authentication", Rate{PerSecond: float64(n) / 60, Burst: n})
	}
	if a.pages, err = newPages(cfg); err != nil {
		return nil, err
	}
	page, err := checkout.New(checkoutConfig(cfg))
	if err != nil {
		return nil, err
	}
	a.router = newRouter(a.routes(), a.enter)
	a.router.PathPrefix("/p/").Handler(labelled("payPage", page))
	a.inner = newRouter(slices.Concat(a.routes(), a.accountRoutes()), a.enter)
	if cfg.Account != nil {
		pages, err := account.New(account.Config{
			Call: a.call, Stream: a.stream, SignIn: a.signIn, File: cfg.Account, Now: cfg.Now, PublicURL: cfg.PublicURL,
			Webhooks: cfg.Webhooks != nil, Log: cfg.Log, Limit: accountLimit(cfg),
		})
		if err != nil {
			return nil, err
		}
		h := labelled("account", asPage(pages))
		a.router.Path(account.Path).Handler(h)
		a.router.PathPrefix(account.Path + "/").Handler(h)
	}
	return a, nil
}

func newEdge(cfg Config, listener string) (*edge, error) {
	m, err := newMetrics(cfg.Metrics, listener)
	if err != nil {
		return nil, err
	}
	return &edge{
		now:        cfg.Now,
		requestIDs: domain.NewIDs(cfg.Now, cfg.Entropy, domain.ID{}),
		problems:   newProblems(cfg.PublicURL),
		metrics:    m,
		log:        cfg.Log,
		rooms:      sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

// serve asks for credentials before it says what exists: under a version of
// the API every path is closed to strangers.
func (a *api) serve(x *exchange) {
	if _, versioned := version(x.r.URL.EscapedPath()); versioned {
		if err := a.authenticate(x); err != nil {
			x.fail(err)
			return
		}
	}
	x.dispatch(a.router)
}

// version is the first segment of a path when it is that of an API version.
func version(path string) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	digits, ok := strings.CutPrefix(first, "v")
	ok = ok && digits != "" && strings.Trim(digits, "0123456789") == "" && strings.HasPrefix(path, "/v")
	return first, ok
}

// maxTime bounds how long a request may take, lists over cold views included;
// of a CSV export, each page.
const maxTime = 20 * time.Second

// enter runs a route for a caller that was authenticated if it has a scope.
func (a *api) enter(x *exchange) error {
	if need := x.route.scope; need != "" {
		if !x.caller.key.Has(need) {
			return problem{Code: domain.ScopeMissing, RequiredScope: need}
		}
		budget := a.reads
		if x.route.method != http.MethodGet {
			budget = a.writes
		}
		if x.inside && x.route.method == http.MethodGet {
			budget = nil // one page makes several
		}
		if err := x.throttle(budget, x.caller.project.ID); err != nil {
			return err
		}
	}
	return run(x)
}

func run(x *exchange) error {
	if x.route.body {
		if err := x.readBody(); err != nil {
			return err
		}
	}
	if !x.route.endless {
		x.within = &within{Context: x.ctx(), until: time.Now().Add(maxTime)}
		defer x.within.end()
	}
	return x.route.handle(x)
}

// sees reports whether a payment is the caller's.
func (a *api) sees(x *exchange, p domain.Payment) bool { return p.Project == x.caller.project.ID }

// dispatch finds who stands at the request's path. What the router would put
// into the request's context the exchange holds.
func (x *exchange) dispatch(router *mux.Router) {
	var found mux.RouteMatch
	router.Match(x.r, &found) // there is a handler for what is not found
	x.vars = found.Vars
	found.Handler.ServeHTTP(x, x.r)
}

// newRouter builds the router of a table. Paths match byte for byte: nothing
// is cleaned, decoded or redirected, and what matches nothing is a problem
// document like every other failure.
func newRouter(table []route, enter func(*exchange) error) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath().StrictSlash(false)
	router.NotFoundHandler = notFound()
	at := make(map[string]*resource)
	for i := range table {
		rt := &table[i]
		res, ok := at[rt.path]
		if !ok {
			res = &resource{enter: enter}
			at[rt.path] = res
			router.Path(rt.path).Handler(res)
		}
		res.routes = append(res.routes, rt)
	}
	return router
}

// resource is what stands at one path.
type resource struct {
	routes []*route
	enter  func(*exchange) error
}

// ServeHTTP finds the route of the method. w is the *exchange.
func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.r = r
	for _, rt := range res.routes {
		if rt.method == r.Method || (rt.method == http.MethodGet && r.Method == http.MethodHead) {
			x.route = rt
			if err := res.enter(x); err != nil && !x.fail(err) {
				panic(http.ErrAbortHandler) // so that nobody takes the part for the whole
			}
			return
		}
	}
	x.fail(problem{Code: domain.MethodNotAllowed}.with("Allow", strings.Join(res.allowed(), ", ")))
}

func (res *resource) allowed() []string {
	var methods []string
	for _, rt := range res.routes {
		methods = append(methods, rt.method)
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return methods
}

func notFound() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := domain.PathNotFound
		if v, ok := version(r.URL.EscapedPath()); ok && v != "v1" {
			code = domain.VersionNotSupported
		}
		w.(*exchange).fail(problem{Code: code})
	})
}

// labelled gives a handler that is no row of the table its name in logs and
// metrics.
func labelled(operation string, h http.Handler) http.Handler {
	rt := &route{operation: operation}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.route = rt
		log := x.edge.log.With().Str("request_id", x.id).Logger()
		h.ServeHTTP(w, r.WithContext(log.WithContext(r.Context())))
	})
}
