package edge

import (
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"payledger/domain"
	"payledger/eventstore/tracing"
)

// traceOf is a request's traceparent; "" for none, or one that must be ignored.
func traceOf(h http.Header) domain.Traceparent {
	lines := h["Traceparent"]
	if len(lines) != 1 {
		return ""
	}
	trace, _ := domain.ParseTraceparent(lines[0])
	return trace
}

// begin begins the request's span. What follows from the request is below it.
func (x *Exchange) begin() {
	if slices.Contains(x.edge.untraced, x.Request.URL.Path) {
		return
	}
	x.span = x.edge.tracer.Receive(x.Trace)
	x.Trace = x.span.Traceparent(x.Trace)
}

// end ends the span. cut: the answer was cut short.
func (x *Exchange) end(cut bool) {
	method := methodLabel(x.Request.Method)
	name := method
	if method == otherMethod {
		name, method = "HTTP", "_OTHER"
	}
	about := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(method), semconv.HTTPResponseStatusCode(x.status), tracing.Request.String(x.ID),
	}
	if x.Route != nil {
		about = append(about, tracing.Operation.String(x.Route.Operation))
		if x.Route.Path != "" {
			name += " " + x.Route.Path
			about = append(about, semconv.HTTPRoute(x.Route.Path))
		} else {
			name += " " + x.Route.Operation // a set of pages
		}
	}
	if x.Project.ID != "" {
		about = append(about, tracing.Project.String(x.Project.ID))
	}
	failure := ""
	switch {
	case cut:
		failure = "cut_short"
	case x.status >= http.StatusInternalServerError && x.code != "":
		failure = string(x.code)
	case x.status >= http.StatusInternalServerError:
		failure = strconv.Itoa(x.status)
	}
	x.span.Name(name)
	x.span.End(failure, about...)
}
