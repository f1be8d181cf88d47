// Package otlp exports spans to an OpenTelemetry collector by OTLP over HTTP, as
// the environment variables of OpenTelemetry ask for it. See RUNBOOK.md, "Traces".
//
// The official SDK batches the spans and the official encoder makes protobuf of
// them. Their sending is our own, because the official client otlptracehttp links
// all of gRPC: with it the program grows by 3.2 MB, without it by 1.1 MB.
//
// Nobody waits for an export: at most OTEL_BSP_MAX_QUEUE_SIZE spans wait in memory,
// those beyond it are dropped and counted.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"payledger/eventstore/tracing"
)

// StopTime is how long Stop tries to export what waits.
const StopTime = 3 * time.Second

// Config configures an Exporter.
type Config struct {
	Version string // of the program
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// Exporter exports the spans of its Tracer until Stop.
type Exporter struct {
	Tracer *tracing.Tracer // nil: nothing is exported

	provider *sdk.TracerProvider
	cut      context.CancelFunc // ends exports under way
}

// Start starts an exporter if the environment names an endpoint. If not, nothing
// runs and Tracer is nil. A setting that cannot be followed is logged, and nothing
// is exported: it is no reason not to take payments.
func Start(c Config) *Exporter {
	counts := newCounts(c.Metrics)
	settings, err := settingsOf(os.Getenv)
	switch {
	case err != nil:
		c.Log.Error().Err(err).Msg("traces are not exported")
		return &Exporter{}
	case settings == nil:
		return &Exporter{}
	}
	about, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("payledger"), semconv.ServiceVersion(c.Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		c.Log.Warn().Err(err).Msg("part of what the environment says of this service is left out of its traces")
	}
	exporter, err := otlptrace.New(context.Background(), &client{settings: *settings, http: settings.client()})
	if err != nil {
		c.Log.Error().Err(err).Msg("traces are not exported")
		return &Exporter{}
	}
	running, cut := context.WithCancel(context.Background())
	out := &outlet{SpanExporter: exporter, counts: counts, log: c.Log, running: running}
	queue := queueSize()
	out.room.Store(int64(queue))
	e := &Exporter{cut: cut, provider: sdk.NewTracerProvider(
		sdk.WithResource(about),
		sdk.WithSpanProcessor(&queued{SpanProcessor: sdk.NewBatchSpanProcessor(out, sdk.WithMaxQueueSize(queue)), outlet: out}),
	)}
	e.Tracer = tracing.New(e.provider)
	c.Log.Info().Str("to", settings.shown()).Msg("traces are exported")
	return e
}

// queueSize is how many spans may wait.
func queueSize() int {
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		return n
	}
	return sdk.DefaultMaxQueueSize
}

// Stop exports what waits, within StopTime, and ends.
func (e *Exporter) Stop() error {
	if e.provider == nil {
		return nil
	}
	timed := time.AfterFunc(StopTime, e.cut)
	defer timed.Stop()
	defer e.cut()
	// The exports end with cut, so that this does.
	if err := e.provider.Shutdown(context.Background()); err != nil {
		return fmt.Errorf("stopping the export of traces: %w", err)
	}
	return nil
}

// counts are the spans by what became of them.
type counts struct{ exported, failed, dropped prometheus.Counter }

func newCounts(m prometheus.Registerer) counts {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_trace_spans_total",
		Help: "Spans by what became of them: exported, failed (the collector did not take them), dropped (too many waited).",
	}, []string{"end"})
	m.MustRegister(spans)
	return counts{spans.WithLabelValues("exported"), spans.WithLabelValues("failed"), spans.WithLabelValues("dropped")}
}

// queued is the SDK's processor behind a bound of its own: the SDK does not say
// how many spans it drops.
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
	counts  counts
	log     zerolog.Logger
	running context.Context // ends soon after the exporter is to stop
	room    atomic.Int64    // for more spans

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.running, cancel)()
	err := o.SpanExporter.ExportSpans(ctx, spans)
	rejected := 0
	if partly := (*rejectedError)(nil); errors.As(err, &partly) {
		rejected = min(partly.spans, len(spans))
	} else if err != nil {
		rejected = len(spans)
	}
	o.counts.failed.Add(float64(rejected))
	o.counts.exported.Add(float64(len(spans) - rejected))

	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil && !o.failing:
		o.log.Warn().Err(err).Msg("traces cannot be exported; spans are lost until they can")
	case err == nil && (o.failing || o.dropping):
		o.log.Info().Msg("traces are exported again")
	}
	o.failing = err != nil
	o.dropping = o.dropping && err != nil
	return nil
}
