package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
)

// edge is what every request meets first, whichever handler it is for.
type edge struct {
	now        func() time.Time
	requestIDs *domain.IDs
	problems   problems
	metrics    *metrics
	log        zerolog.Logger
	rooms      sync.Pool // of *[]byte, to write answers in
}

// exchange is one request with its answer under way, and what is known of
// both. It is the http.ResponseWriter that the router hands on, so every
// handler of this package can take it back.
type exchange struct {
	http.ResponseWriter
	r       *http.Request
	edge    *edge
	id      string            // of this request, in X-Request-Id
	route   *route            // nil until one matched
	vars    map[string]string // of the route's path
	within  *within           // nil: for as long as the client stays
	project domain.Project    // who asks; zero: nobody in particular
	key     domain.Key
	body    []byte // nil unless the route takes one
	inside  bool   // from this process: a page of the account asks
	page    string // then the id of the request to the page

	lines  [fewLines]string // room for values of the answer's header
	set    int              // of them
	status int              // of the answer; 0 while there is none
	bytes  int64            // of the answer's body
	code   domain.Code
	err    error
	alarm  bool // what failed is recorded as an error
}

// fewLines is how many header fields an answer has, or more.
const fewLines = 7

// header sets a field of the answer's header, whose name is in canonical form.
func (x *exchange) header(name, value string) {
	if x.set == len(x.lines) {
		x.Header()[name] = []string{value}
		return
	}
	x.lines[x.set] = value
	x.set++
	x.Header()[name] = x.lines[x.set-1 : x.set : x.set]
}

// wrap makes an http.Handler that gives every request an id, survives panics,
// and leaves one log record and one observation behind, whatever the request.
// The record has no body, no header and no raw path: those may hold secrets.
func (e *edge) wrap(serve func(*exchange)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, r: r, edge: e, id: e.requestIDs.Next().String()}
		start := e.now()
		x.header("X-Request-Id", x.id)
		e.metrics.begin()
		defer func() {
			v := recover()
			aborted := v == http.ErrAbortHandler //nolint:errorlint // identity is its contract
			if v != nil && !aborted {
				e.log.Error().Str("request_id", x.id).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("handler panicked")
				x.fail(fmt.Errorf("panic: %v", v))
			}
			took := e.now().Sub(start)
			e.metrics.end(x, took)
			x.record(took)
			if aborted || (v != nil && x.code == "") {
				panic(http.ErrAbortHandler) // the answer is cut short: so must be the connection
			}
		}()
		serve(x)
	})
}

func (x *exchange) record(took time.Duration) {
	level := zerolog.InfoLevel
	if x.alarm || (x.status >= http.StatusInternalServerError && !errors.Is(x.err, context.Canceled)) {
		level = zerolog.ErrorLevel
	}
	rec := x.edge.log.WithLevel(level)
	if rec == nil {
		return
	}
	rec.Str("request_id", x.id).Str("method", methodLabel(x.r.Method)).Str("operation", x.operation()).
		Int("status", x.status).Int64("bytes", x.bytes).Dur("took_ms", took).Str("client", clientHost(x.r))
	if x.project.ID != "" {
		rec.Str("project", x.project.ID).Str("key", x.key.ID)
	}
	if x.page != "" {
		rec.Str("page_request_id", x.page)
	}
	if x.code != "" {
		rec.Str("code", string(x.code))
	}
	if x.err != nil && (x.status >= http.StatusInternalServerError || x.code == "") {
		rec.AnErr("error", x.err)
	}
	rec.Msg("request")
}

func (x *exchange) operation() string {
	if x.route == nil {
		return "none"
	}
	return x.route.operation
}

// WriteHeader notes the status. A second one, as a file server sends when its
// client left in the middle of the file, comes too late to be sent.
func (x *exchange) WriteHeader(status int) {
	if x.status != 0 {
		return
	}
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush sends what was written so far.
func (x *exchange) Flush() { _ = http.NewResponseController(x.ResponseWriter).Flush() }

// ctx ends when the client leaves or the time for the answer is over.
func (x *exchange) ctx() context.Context {
	if x.within != nil {
		return x.within
	}
	return x.r.Context()
}

// asWritten keeps a merchant's payload byte for byte.
func asWritten() json.Options { return jsontext.PreserveRawStrings(true) }

// reply answers with v as JSON.
func (x *exchange) reply(status int, v any) error {
	room := x.edge.rooms.Get().(*[]byte)
	defer x.edge.rooms.Put(room)
	b, err := encode(room, v)
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	x.replyBytes(status, "application/json", b)
	return nil
}

// replyBytes answers with a body that nobody may keep.
func (x *exchange) replyBytes(status int, contentType string, body []byte) {
	x.header("Content-Type", contentType)
	x.header("Content-Length", strconv.Itoa(len(body)))
	x.header("Cache-Control", "no-store")
	x.header("X-Content-Type-Options", "nosniff")
	x.WriteHeader(status)
	_, _ = x.Write(body) // the client went away: nobody is left to tell
}

// fail answers with the problem that err amounts to. It reports false when an
// answer has begun: that one can only be cut short.
func (x *exchange) fail(err error) bool {
	x.err = err
	p := x.edge.problems.of(err)
	x.alarm = p.alarm
	if x.status != 0 {
		return false
	}
	p.RequestID = x.id
	x.code = p.Code
	maps.Copy(x.Header(), p.header)
	body, err := json.Marshal(p)
	if err != nil { // a problem holds nothing that cannot be encoded
		x.err = errors.Join(x.err, err)
		body = []byte("{}")
	}
	x.replyBytes(p.Status, "application/problem+json", body)
	return true
}

// edgeConfig is what an edge works with.
type edgeConfig struct {
	Now       func() time.Time
	Entropy   io.Reader // of request ids
	PublicURL string    // base of problem types, without a trailing slash
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none are kept
	Listener  string                // label of the metrics: public or admin

	// Explain names the problem that an error of the rooms behind the edge
	// amounts to; false: it does not know the error.
	Explain func(error) (problem, bool)
}

func newEdge(c edgeConfig) (*edge, error) {
	m, err := newMetrics(c.Metrics, c.Listener)
	if err != nil {
		return nil, err
	}
	return &edge{
		now:        c.Now,
		requestIDs: domain.NewIDs(c.Now, c.Entropy, domain.ID{}),
		problems:   newProblems(c.PublicURL, c.Explain),
		metrics:    m,
		log:        c.Log,
		rooms:      sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}
