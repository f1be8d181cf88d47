package edge

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"payledger/eventstore/tracing"
)

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
