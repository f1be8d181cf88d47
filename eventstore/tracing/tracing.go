// Package tracing makes the spans of requests and of what follows from their events, in the terms
// of OpenTelemetry. The caller of New chooses their exporter.
//
// A span belongs to the trace of its event, see eventstore.Cause. Its attributes
// follow OpenTelemetry's semantic conventions; those of our own begin with
// "payledger.". None may hold a secret, a path or query of a request (that of a
// payment page is a secret), or anything of a customer.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"payledger/domain"
)

// The attributes of our own.
const (
	Project   = attribute.Key("payledger.project.id")
	Payment   = attribute.Key("payledger.payment.id")
	Endpoint  = attribute.Key("payledger.webhook_endpoint.id")
	Request   = attribute.Key("payledger.request.id")
	Operation = attribute.Key("payledger.operation")
	Event     = attribute.Key("payledger.event.id")
	EventType = attribute.Key("payledger.event.type")
	Position  = attribute.Key("payledger.event.position")
	Route     = attribute.Key("payledger.route")
	Call      = attribute.Key("payledger.connector.call")
)

// The kinds of spans that Follow begins.
const (
	Internal = trace.SpanKindInternal
	Client   = trace.SpanKindClient // of a call to another program
)

const traceparent = "traceparent" // of W3C Trace Context

// Tracer makes spans. A nil Tracer makes none. Safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer whose spans go to the provider.
func New(p trace.TracerProvider) *Tracer { return &Tracer{p.Tracer("payledger")} }

// Receive begins the span of a request that has arrived: a child of its caller's
// span, or the first of a new trace if caller is "".
func (t *Tracer) Receive(caller domain.Traceparent) Span {
	if t == nil {
		return Span{}
	}
	return t.start(trace.SpanKindServer, caller, "")
}

// Follow begins a span of what follows from an event; of is the event's trace. There
// is no span if that is "".
func (t *Tracer) Follow(kind trace.SpanKind, of domain.Traceparent, name string) Span {
	if t == nil || of == "" {
		return Span{}
	}
	return t.start(kind, of, name)
}

func (t *Tracer) start(kind trace.SpanKind, parent domain.Traceparent, name string) Span {
	ctx := context.Background() //nolint:forbidigo // it carries the parent and nothing else
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: string(parent)})
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	if !span.IsRecording() {
		return Span{}
	}
	return Span{span}
}

// Span is a span that has begun. The zero Span records nothing.
type Span struct{ span trace.Span }

// Recorded reports whether there is a span.
func (s Span) Recorded() bool { return s.span != nil }

// Traceparent is what to pass on: the span's position, or otherwise without one.
func (s Span) Traceparent(otherwise domain.Traceparent) domain.Traceparent {
	if s.span == nil {
		return otherwise
	}
	header := propagation.MapCarrier{}
	ctx := context.Background() //nolint:forbidigo // it carries the span and nothing else
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(ctx, s.span), header)
	p, _ := domain.ParseTraceparent(header[traceparent])
	return p
}

// Name changes the name.
func (s Span) Name(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// End ends the span. failure is a short code of what went wrong; "": nothing did.
func (s Span) End(failure string, a ...attribute.KeyValue) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(a...)
	if failure != "" {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(failure))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
