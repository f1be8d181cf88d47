package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"payledger/eventstore/tracing"
)

// TracesStopTime is how long stopping waits for a collector to take the remaining spans.
const TracesStopTime = 3 * time.Second

// StartTraces exports the spans of the tracer to an OpenTelemetry collector by OTLP over HTTP, until
// stop, if the environment variables of OpenTelemetry name an endpoint. If not, nothing runs and the
// tracer is nil. A setting that cannot be followed is logged: it is no reason not to take payments.
// stop exports the remaining spans, within TracesStopTime. See RUNBOOK.md, "Traces".
//
// The official SDK batches the spans and the official client sends them. Requests never wait for an
// export: at most OTEL_BSP_MAX_QUEUE_SIZE spans wait in memory, further ones are dropped and
// counted.
func StartTraces(log zerolog.Logger, m prometheus.Registerer) (tracer *tracing.Tracer, stop func() error) {
	counts := newCounts(m)
	none := func() error { return nil }
	to, err := endpoint(os.Getenv)
	if err != nil {
		log.Error().Err(err).Msg("traces are not exported")
	}
	if to == nil {
		return nil, none
	}
	otel.SetLogger(logr.New(sink{log})) // it is the library's, for the whole process
	version, _ := BuiltFrom()
	about, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("payledger"), semconv.ServiceVersion(version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn().Err(err).Msg("part of what the environment says of this service is left out of its traces")
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(to.String()))
	if err != nil {
		log.Error().Err(err).Msg("traces are not exported")
		return nil, none
	}
	out := &outlet{SpanExporter: exporter, counts: counts, log: log}
	queue := queueSize()
	out.room.Store(int64(queue))
	provider := sdk.NewTracerProvider(
		sdk.WithResource(about),
		sdk.WithSpanProcessor(&queued{SpanProcessor: sdk.NewBatchSpanProcessor(out, sdk.WithMaxQueueSize(queue)), outlet: out}),
	)
	log.Info().Str("to", to.Scheme+"://"+to.Host).Msg("traces are exported")
	return tracing.New(provider), func() error {
		// An exporter that is shut down cuts off the export under way and all that follow.
		late := time.AfterFunc(TracesStopTime, func() { _ = exporter.Shutdown(context.Background()) })
		defer late.Stop()
		if err := provider.Shutdown(context.Background()); err != nil {
			return fmt.Errorf("stopping the export of traces: %w", err)
		}
		return nil
	}
}

// endpoint is the URL that the environment names; nil: nothing is to be exported. The
// SDK and the client read the other variables. No error holds a value, since there are
// secrets among them.
func endpoint(env func(string) string) (*url.URL, error) {
	const traces, all = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
	raw := strings.TrimSpace(cmp.Or(env(traces), env(all)))
	exporter := env("OTEL_TRACES_EXPORTER")
	if raw == "" || exporter == "none" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	if exporter != "" && exporter != "otlp" {
		return nil, errors.New("OTEL_TRACES_EXPORTER: only otlp is known, and none")
	}
	if p := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL")); p != "" && p != "http/protobuf" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is known, to a collector's port 4318")
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: want a URL without user and query, as http://127.0.0.1:4318; credentials go into OTEL_EXPORTER_OTLP_HEADERS")
	}
	if env(traces) == "" {
		u = u.JoinPath("v1/traces")
	}
	return u, nil
}

// queueSize is how many spans may wait.
func queueSize() int {
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		return n
	}
	return sdk.DefaultMaxQueueSize
}

// sink logs what OpenTelemetry finds wrong in its settings, without the values that it
// adds: there are secrets among them.
type sink struct{ log zerolog.Logger }

func (sink) Init(logr.RuntimeInfo)               {}
func (sink) Enabled(level int) bool              { return level <= 1 } // warnings
func (s sink) Info(_ int, text string, _ ...any) { s.Error(nil, text) }
func (s sink) WithValues(...any) logr.LogSink    { return s }
func (s sink) WithName(string) logr.LogSink      { return s }
func (s sink) Error(err error, text string, _ ...any) {
	s.log.Warn().Err(err).Msg("OpenTelemetry: " + text)
}

// counts are the spans by what became of them.
type counts struct{ exported, failed, dropped prometheus.Counter }

func newCounts(m prometheus.Registerer) counts {
	spans := promauto.With(m).NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_trace_spans_total",
		Help: "Spans by what became of them: exported, failed (the collector did not take all of their batch), dropped (too many waited).",
	}, []string{"end"})
	return counts{spans.WithLabelValues("exported"), spans.WithLabelValues("failed"), spans.WithLabelValues("dropped")}
}

// queued bounds the queue of the SDK's processor itself: the SDK does not report how many spans it
// drops.
type queued struct {
	sdk.SpanProcessor
	outlet *outlet
}

// OnEnd implements sdk.SpanProcessor.
func (q *queued) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.outlet.room.Add(-1) < 0 {
		q.outlet.room.Add(1)
		q.outlet.dropped()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// outlet exports, counts, and logs when exporting begins to fail and when it works
// again.
type outlet struct {
	sdk.SpanExporter
	counts counts
	log    zerolog.Logger
	room   atomic.Int64 // for more spans

	mu       sync.Mutex
	failing  bool
	dropping bool // since the last export
}

func (o *outlet) dropped() {
	o.counts.dropped.Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dropping {
		o.dropping = true
		o.log.Warn().Msg("spans are dropped: more end than can be exported; payledger_trace_spans_total counts them")
	}
}

// ExportSpans implements sdk.SpanExporter. A failure is dealt with here, so that
// the SDK does not log each.
func (o *outlet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer o.room.Add(int64(len(spans)))
	err := o.SpanExporter.ExportSpans(ctx, spans)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.counts.failed.Add(float64(len(spans)))
	} else {
		o.counts.exported.Add(float64(len(spans)))
	}
	switch {
	case err != nil && !o.failing:
		o.log.Warn().Str("error", withoutAnswer(err)).Msg("traces cannot be exported; spans are lost until they can")
	case err == nil && (o.failing || o.dropping):
		o.log.Info().Msg("traces are exported again")
	}
	o.failing = err != nil
	o.dropping = o.dropping && err != nil
	return nil
}

// withoutAnswer is an error of the client up to what the collector says, which might be
// long, or hold secrets.
func withoutAnswer(err error) string {
	text, _, _ := strings.Cut(err.Error(), "body: ")
	if before, _, partly := strings.Cut(text, " success: "); partly {
		text = before + " success"
	}
	return strings.TrimRight(text, " (:")
}
