package edge

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"

	"github.com/gorilla/mux"
)

// Route is one row of the table of routes. Every HEAD goes where GET goes.
type Route struct {
	Method    string
	Path      string // exact; {name} matches one segment, {name:.+} the rest
	Operation string // operationId in openapi.yaml, and label of logs and metrics
	Scope     projects.Scope
	Body      bool // takes a JSON object
	Optional  bool // no body means {}
	Most      int  // the longest body, in bytes; 0: MaxBody
	Endless   bool // lasts as long as the client stays
	Handle    func(*Exchange) error
}

// maxTime bounds how long a request may take, lists over cold views included;
// of a CSV export, each page.
const maxTime = 20 * time.Second

// run reads the body of a request where its route takes one, and answers it.
func (x *Exchange) run() error {
	if x.Route.Body {
		if err := x.readBody(); err != nil {
			return err
		}
	}
	if !x.Route.Endless {
		x.renew(maxTime)
		defer func() { x.stop() }()
	}
	return x.Route.Handle(x)
}

// Dispatch looks the request's path up and calls its handler. The path's variables go into
// the exchange, not into the request's context.
func (x *Exchange) Dispatch(router *mux.Router) {
	var found mux.RouteMatch
	router.Match(x.Request, &found) // there is a handler for what is not found
	x.Vars = found.Vars
	found.Handler.ServeHTTP(x, x.Request)
}

// NewRouter builds the router of a table. enter admits a request to its route, before
// its body is read. Paths match byte for byte: nothing
// is cleaned, decoded or redirected, and what matches nothing is a problem
// document like every other failure.
func NewRouter(table []Route, enter func(*Exchange) error) *mux.Router {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath().StrictSlash(false)
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := domain.PathNotFound
		if v, ok := Version(r.URL.EscapedPath()); ok && v != "v1" {
			code = domain.VersionNotSupported
		}
		w.(*Exchange).Fail(wire.Problem{Code: code})
	})
	at := make(map[string]*resource)
	for i := range table {
		rt := &table[i]
		res, ok := at[rt.Path]
		if !ok {
			res = &resource{enter: enter}
			at[rt.Path] = res
			router.Path(rt.Path).Handler(res)
		}
		res.routes = append(res.routes, rt)
	}
	return router
}

// resource has the routes of one path, one for each method.
type resource struct {
	routes []*Route
	enter  func(*Exchange) error
}

// ServeHTTP finds the route of the method. w is the *exchange.
func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*Exchange)
	for _, rt := range res.routes {
		if rt.Method == r.Method || (rt.Method == http.MethodGet && r.Method == http.MethodHead) {
			x.Route = rt
			err := res.enter(x)
			if err == nil {
				err = x.run()
			}
			x.finish(err)
			return
		}
	}
	var methods []string
	for _, rt := range res.routes {
		methods = append(methods, rt.Method)
		if rt.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	list := strings.Join(methods, ", ")
	x.Fail(wire.Problem{Code: domain.MethodNotAllowed, Allowed: methods, Detail: "This path takes " + list + "."}.With("Allow", list))
}

// finish answers the error of a handler. An answer that has begun is cut
// short, so that no client takes the part for the whole.
func (x *Exchange) finish(err error) {
	if err != nil && !x.Fail(err) {
		panic(http.ErrAbortHandler)
	}
}

// Pages is the handler of a set of pages that finds the page itself. All of
// them have one name in logs and metrics. Each request has maxTime, as those of
// routes, and an error that serve answers becomes a problem document.
func Pages(operation string, serve func(*Exchange) error) http.Handler {
	rt := &Route{Operation: operation, Handle: serve}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x := w.(*Exchange)
		x.Route = rt
		x.finish(x.run())
	})
}

// Version is the first segment of a path when it is that of an API version.
func Version(path string) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	digits, ok := strings.CutPrefix(first, "v")
	ok = ok && digits != "" && strings.Trim(digits, "0123456789") == "" && strings.HasPrefix(path, "/v")
	return first, ok
}
