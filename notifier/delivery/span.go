package delivery

import (
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"payledger/eventstore/tracing"
	"payledger/notifier/webhook"
)

// endSpan ends the span of an attempt. Of the URL it has the host and port: the rest
// may be a secret.
func endSpan(span tracing.Span, a attempt, o webhook.Outcome) {
	about := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(http.MethodPost), tracing.Project.String(a.target.project), tracing.Endpoint.String(a.target.id),
		tracing.Payment.String(a.Payment.String()), tracing.Event.String(a.Event.String()), tracing.EventType.String(string(a.Kind)),
	}
	if u, err := url.Parse(a.endpoint.URL); err == nil {
		about = append(about, semconv.ServerAddress(u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			about = append(about, semconv.ServerPort(port))
		}
	}
	if a.Total > 0 {
		about = append(about, semconv.HTTPRequestResendCount(a.Total))
	}
	failure := string(o.Class)
	if o.Status != 0 {
		about = append(about, semconv.HTTPResponseStatusCode(o.Status))
		if !o.Delivered {
			failure = strconv.Itoa(o.Status)
		}
	}
	span.End(failure, about...)
}
