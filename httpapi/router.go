package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"payledger/domain"
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

// maxTime bounds how long a request may take, lists over cold views included;
// of a CSV export, each page.
const maxTime = 20 * time.Second

// run reads the body of a request where its route takes one, and answers it.
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

// version is the first segment of a path when it is that of an API version.
func version(path string) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	digits, ok := strings.CutPrefix(first, "v")
	ok = ok && digits != "" && strings.Trim(digits, "0123456789") == "" && strings.HasPrefix(path, "/v")
	return first, ok
}
