package edge

import (
	"net/http"

	"payledger/domain"
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
