package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore/tracing"
	"payledger/httpapi/conns"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Server is what every request meets first, whichever handler it is for.
type Server struct {
	config     Config
	requestIDs *domain.IDs
	problems   problems
	metrics    metrics
}

// Config is what a server works with.
type Config struct {
	Now       func() time.Time
	Entropy   io.Reader // of request ids
	PublicURL string    // base of problem types, without a trailing slash
	Prefix    string    // that a proxy takes off the paths of requests, "" for none
	Log       zerolog.Logger
	Metrics   prometheus.Registerer // nil: none
	Listener  string                // label of the metrics: public or admin
	Tracer    *tracing.Tracer       // nil: requests have no spans
	Untraced  []string              // paths whose requests have none

	// Explain maps an error of other packages to a problem; false: it does not know the error.
	Explain func(error) (wire.Problem, bool)
}

// New registers the metrics of a listener.
func New(c Config) *Server {
	return &Server{
		config: c, requestIDs: domain.NewIDs(c.Now, c.Entropy, domain.ID{}), problems: newProblems(c.PublicURL, c.Explain),
		metrics: newMetrics(c.Metrics, c.Listener),
	}
}

// Exchange is one request with its answer, and what is known of both. It is the http.ResponseWriter
// that the router passes on, so every handler of this package can convert it back.
type Exchange struct {
	http.ResponseWriter
	Request *http.Request
	edge    *Server
	ID      string            // of this request, in X-Request-Id
	Route   *Route            // nil until one matched
	Vars    map[string]string // of the route's path
	timed   context.Context   // nil: for as long as the client stays
	stop    context.CancelFunc
	Project projects.Project // who asks; zero: nobody in particular
	Key     projects.Key
	Trace   domain.Traceparent // what follows from the request is in it; "": none
	Actor   string             // the operator who asks; "": none does
	Body    []byte             // nil unless the route takes one

	span   tracing.Span
	status int   // of the answer; 0 while there is none
	bytes  int64 // of the answer's body
	code   domain.Code
	err    error
	alarm  bool // what failed is recorded as an error
}

// Wrap makes an http.Handler that gives every request an id, survives panics, and leaves one log
// record and one observation. The record has no body and no raw path, and of the header only the
// ids of a trace: the rest may hold secrets.
func (e *Server) Wrap(serve func(*Exchange)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{ResponseWriter: w, Request: r, edge: e, ID: e.requestIDs.Next().String()}
		start := e.config.Now()
		x.Header().Set("X-Request-Id", x.ID)
		if lines := r.Header["Traceparent"]; len(lines) == 1 {
			x.Trace, _ = domain.ParseTraceparent(lines[0]) // one that is malformed must be ignored
		}
		e.metrics.inFlight.Inc()
		if e.config.Tracer != nil && !slices.Contains(e.config.Untraced, r.URL.Path) {
			x.span = e.config.Tracer.Receive(x.Trace)
			x.Trace = x.span.Traceparent(x.Trace) // what follows from the request is below its span
		}
		defer func() {
			v := recover()
			cut := v == http.ErrAbortHandler //nolint:errorlint // identity is its contract
			if v != nil && !cut {
				e.config.Log.Error().Str("request_id", x.ID).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("handler panicked")
				cut = !x.Fail(fmt.Errorf("panic: %v", v))
			}
			took := e.config.Now().Sub(start)
			e.metrics.end(x, took)
			x.record(took)
			if x.span.Recorded() {
				x.end(cut)
			}
			if cut {
				panic(http.ErrAbortHandler) // the answer is cut short: so must be the connection
			}
		}()
		serve(x)
	})
}

func (x *Exchange) record(took time.Duration) {
	level := zerolog.InfoLevel
	if x.alarm || (x.status >= http.StatusInternalServerError && !errors.Is(x.err, context.Canceled)) {
		level = zerolog.ErrorLevel
	}
	rec := x.edge.config.Log.WithLevel(level)
	if rec == nil {
		return
	}
	rec.Str("request_id", x.ID).Str("method", methodLabel(x.Request.Method)).Str("operation", x.operation()).
		Int("status", x.status).Int64("bytes", x.bytes).Dur("took_ms", took).Str("client", conns.Client(x.Request))
	if x.Project.ID != "" {
		rec.Str("project", x.Project.ID)
	}
	if x.Key.ID != "" {
		rec.Str("key", x.Key.ID)
	}
	if x.code != "" {
		rec.Str("code", string(x.code))
	}
	if x.Actor != "" {
		rec.Str("actor", x.Actor)
	}
	if x.Trace != "" {
		id := "parent_id"
		if x.span.Recorded() {
			id = "span_id"
		}
		rec.Str("trace_id", x.Trace.Trace()).Str(id, x.Trace.Parent())
	}
	if x.err != nil && (x.status >= http.StatusInternalServerError || x.code == "") {
		rec.AnErr("error", x.err)
	}
	rec.Msg("request")
}

func (x *Exchange) operation() string {
	if x.Route == nil {
		return "none"
	}
	return x.Route.Operation
}

// WriteHeader notes the status. A second one, as a file server sends when its
// client left in the middle of the file, comes too late to be sent.
func (x *Exchange) WriteHeader(status int) {
	if x.status != 0 {
		return
	}
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (x *Exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Context ends when the client leaves or the time for the answer is over.
func (x *Exchange) Context() context.Context {
	if x.timed != nil {
		return x.timed
	}
	return x.Request.Context()
}

// renew gives the answer time from now on. Contexts of before end.
func (x *Exchange) renew(d time.Duration) {
	if x.stop != nil {
		x.stop()
	}
	x.timed, x.stop = context.WithTimeout(x.Request.Context(), d)
}

// AsWritten preserves a merchant's payload byte for byte.
func AsWritten() json.Options { return jsontext.PreserveRawStrings(true) }

// Reply answers with v as JSON.
func (x *Exchange) Reply(status int, v any) error { return x.ReplyJSON(status, "application/json", v) }

// ReplyJSON is Reply with the media type of what v is.
func (x *Exchange) ReplyJSON(status int, contentType string, v any) error {
	b, err := json.Marshal(v, AsWritten())
	if err != nil {
		return fmt.Errorf("encoding an answer: %w", err)
	}
	x.ReplyBytes(status, contentType, b)
	return nil
}

// Answer answers 200 with v, unless there is an error, which it returns.
func (x *Exchange) Answer(v any, err error) error {
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, v)
}

// ReplyBytes answers with a body that may not be cached.
func (x *Exchange) ReplyBytes(status int, contentType string, body []byte) {
	h := x.Header()
	end := x.lineEnd(contentType)
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)+len(end)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(status)
	_, _ = x.Write(body) // an error means that the client has gone away
	if end != "" {
		_, _ = io.WriteString(x, end)
	}
}

// lineEnd is a newline after JSON for curl, so that a terminal's prompt begins on a new line. Only
// curl without a media type in its request gets it, and never in an answer that can be repeated
// under an idempotency key: its bytes must not depend on the client.
func (x *Exchange) lineEnd(contentType string) string {
	h := x.Request.Header
	agent := h["User-Agent"]
	if len(agent) != 1 || !strings.HasPrefix(agent[0], "curl/") {
		return ""
	}
	accept, key := h["Accept"], h["Idempotency-Key"]
	if len(key) > 0 || len(accept) > 1 || (len(accept) == 1 && accept[0] != "*/*") ||
		(contentType != "application/json" && contentType != "application/problem+json") {
		return ""
	}
	return "\n"
}

// Outside is a path of this listener as its clients write it.
func (x *Exchange) Outside(path string) string { return x.edge.config.Prefix + path }

// Problem is the problem that err amounts to, with everything that an answer
// says of it. It becomes part of the request's record.
func (x *Exchange) Problem(err error) wire.Problem {
	p := x.edge.problems.of(err)
	p.RequestID = x.ID
	if p.Detail == notKnown && (x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead) {
		p.Detail = notRead
	}
	x.err, x.alarm, x.code = err, p.Alarm, p.Code
	return p
}

// Failed makes an error that is answered elsewhere part of the request's record.
func (x *Exchange) Failed(err error) { x.err = err }

// Log is the log for what belongs to the request.
func (x *Exchange) Log() *zerolog.Logger {
	log := x.edge.config.Log.With().Str("request_id", x.ID).Logger()
	return &log
}

// Begun reports whether an answer has begun.
func (x *Exchange) Begun() bool { return x.status != 0 }

// Fail answers with the problem that err amounts to. It reports false when an
// answer has begun: that one can only be cut short.
func (x *Exchange) Fail(err error) bool {
	if x.Begun() {
		x.err, x.alarm, x.code = err, x.edge.problems.of(err).Alarm, ""
		return false
	}
	p := x.Problem(err)
	maps.Copy(x.Header(), p.Header)
	body, err := json.Marshal(p)
	if err != nil { // a problem holds nothing that cannot be encoded
		x.err = errors.Join(x.err, err)
		body = []byte("{}")
	}
	x.ReplyBytes(p.Status, "application/problem+json", body)
	return true
}
