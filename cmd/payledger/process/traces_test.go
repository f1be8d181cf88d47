package process

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"payledger/domain"
	"payledger/eventstore/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// collector takes exports as OTLP/HTTP specifies them.
type collector struct {
	answer func(w http.ResponseWriter, r *http.Request) // instead of 200; nil: none

	mu      sync.Mutex
	headers []http.Header
	spans   []*tracepb.Span
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.answer != nil {
		c.answer(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	var request tracepb.TracesData
	if err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	for _, of := range request.ResourceSpans {
		for _, in := range of.ScopeSpans {
			c.spans = append(c.spans, in.Spans...)
		}
	}
}

func (c *collector) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

// exporting is a started exporter with what it logs and counts.
type exporting struct {
	tracer  *tracing.Tracer
	stop    func() error
	log     syncBuffer
	metrics *prometheus.Registry
}

type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) lines(of string) int { return strings.Count(b.String(), of) }

// export starts an exporter to the URL with further variables of the environment.
func export(t *testing.T, url string, env ...string) *exporting {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
	e := &exporting{metrics: prometheus.NewRegistry()}
	e.tracer, e.stop = StartTraces(zerolog.New(&e.log), e.metrics)
	t.Cleanup(func() { _ = e.stop() })
	return e
}

func (e *exporting) span() { e.tracer.Receive("").End("") }

func (e *exporting) count(t *testing.T, end string) int {
	t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == end {
			return int(m.GetCounter().GetValue())
		}
	}
	return 0
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what + ": not in time")
		}
	}
}

func serve(t *testing.T, c *collector) string {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return s.URL
}

func TestSpansReachTheCollector(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			c := &collector{}
			e := export(t, serve(t, c), "OTEL_EXPORTER_OTLP_COMPRESSION", compression, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
			parent, _ := domain.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			s := e.tracer.Receive(parent)
			s.Name("GET /")
			s.End("broken")
			eventually(t, "the export", func() bool { return e.count(t, "exported") == 1 })
			got := c.spans[0]
			if got.Name != "GET /" || got.Kind != tracepb.Span_SPAN_KIND_SERVER || got.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
				string(got.ParentSpanId) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" {
				t.Errorf("%v", got)
			}
			if h := c.headers[0]; h.Get("Api-Key") != "a secret" {
				t.Errorf("%v", h)
			}
			if e.log.lines("secret") > 0 || e.log.lines("traces are exported") != 1 {
				t.Error(e.log.String())
			}
		})
	}
}

// TestUnsampledRequestsHaveNoSpans: what the caller does not keep is not exported,
// and its traceparent is passed on as it came.
func TestUnsampledRequestsHaveNoSpans(t *testing.T) {
	c := &collector{}
	e := export(t, serve(t, c))
	const unsampled = domain.Traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	if s := e.tracer.Receive(unsampled); s.Recorded() || s.Traceparent(unsampled) != unsampled {
		t.Error("a span")
	}
	if s := e.tracer.Follow(0, "", "commit"); s.Recorded() {
		t.Error("a span without a trace")
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	if s := export(t, serve(t, c)).tracer.Receive(""); s.Recorded() || s.Traceparent("") != "" {
		t.Error("a span that the sampler does not want")
	}
}

// TestCollectorThatHangs costs nobody time: what is beyond the queue is dropped and
// counted, and stopping waits TracesStopTime.
func TestCollectorThatHangs(t *testing.T) {
	hang := make(chan struct{})
	c := &collector{answer: func(http.ResponseWriter, *http.Request) { <-hang }}
	url := serve(t, c)
	defer close(hang)
	e := export(t, url, "OTEL_BSP_MAX_QUEUE_SIZE", "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4", "OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")
	for range 1000 {
		e.span() // would hang here if it waited
	}
	if dropped := e.count(t, "dropped"); dropped != 992 {
		t.Errorf("%d of 1000 are dropped, and 8 may wait", dropped)
	}
	if n := e.log.lines("spans are dropped"); n != 1 {
		t.Errorf("%d lines", n)
	}
	began := time.Now()
	if err := e.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < TracesStopTime || took > TracesStopTime+patience/2 {
		t.Errorf("stopping took %s", took)
	}
	if failed := e.count(t, "failed"); failed != 8 {
		t.Errorf("%d of the 8 that waited have failed", failed)
	}
}

// TestCollectorThatIsDown is logged once, and its return too.
func TestCollectorThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	e := export(t, "http://"+address, "OTEL_EXPORTER_OTLP_TIMEOUT", "50", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
	for n := range 3 {
		e.span()
		eventually(t, "the failure", func() bool { return e.count(t, "failed") == n+1 })
	}
	if n := e.log.lines("cannot be exported"); n != 1 {
		t.Errorf("%d lines for three failures:\n%s", n, e.log.String())
	}
	c := &collector{}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skip("somebody else has the port now: ", err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: c}}
	s.Start()
	defer s.Close()
	eventually(t, "an export", func() bool {
		e.span()
		return c.taken() > 0
	})
	eventually(t, "the line", func() bool { return e.log.lines("exported again") == 1 })
	if e.log.lines("secret") > 0 {
		t.Error(e.log.String())
	}
}

// TestRefusedSpansHaveFailed, also those that are refused in part. What the collector
// says is not logged: it might repeat a header.
func TestRefusedSpansHaveFailed(t *testing.T) {
	partial := protowire.AppendTag(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), 2, protowire.BytesType)
	partial = protowire.AppendString(partial, "a secret")
	for _, c := range []struct {
		status int
		body   string
		log    string
	}{
		{401, "a secret", "401 Unauthorized"},
		{500, strings.Repeat("a secret", 1<<14), "500 Internal Server Error"},
		{200, string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)), `OTLP partial success"`},
	} {
		t.Run(http.StatusText(c.status), func(t *testing.T) {
			e := export(t, serve(t, &collector{answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}}))
			e.span()
			eventually(t, "the failure", func() bool { return e.count(t, "failed") == 1 })
			eventually(t, "the line", func() bool { return e.log.lines("cannot be exported") == 1 })
			if e.log.lines(c.log) != 1 || e.log.lines("secret") > 0 || len(e.log.String()) > 1000 {
				t.Errorf("%.1000s", e.log.String())
			}
		})
	}
}

func TestNothingRunsWithoutAnEndpoint(t *testing.T) {
	for _, env := range [][2]string{
		{"OTEL_SERVICE_NAME", "payledger"},
		{"OTEL_SDK_DISABLED", "true"},
		{"OTEL_TRACES_EXPORTER", "none"},
	} {
		t.Run(env[0], func(t *testing.T) {
			url := ""
			if env[0] != "OTEL_SERVICE_NAME" {
				url = "http://127.0.0.1:1"
			}
			if e := export(t, url, env[0], env[1]); e.tracer != nil || e.log.String() != "" {
				t.Error(e.log.String())
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	const generic, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, c := range []struct {
		env  map[string]string
		want string // URL, or the variable at fault
	}{
		{map[string]string{generic: "http://c:4318"}, "http://c:4318/v1/traces"},
		{map[string]string{generic: "https://c/otlp/"}, "https://c/otlp/v1/traces"},
		{map[string]string{traces: "https://c"}, "https://c"},
		{map[string]string{traces: "https://c/in/", generic: "http://other"}, "https://c/in/"},
		{map[string]string{generic: "c:4318"}, generic},
		{map[string]string{generic: "ftp://c"}, generic},
		{map[string]string{generic: "http://user:secret@c"}, generic},
		{map[string]string{generic: "http://c?token=secret"}, generic},
		{map[string]string{generic: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{generic: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "http://c/v1/traces"},
		{map[string]string{generic: "http://c", "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"},
	} {
		u, err := endpoint(func(name string) string { return c.env[name] })
		if err != nil {
			if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v", c.env, err)
			}
			continue
		}
		if u.String() != c.want {
			t.Errorf("%v: %s, want %s", c.env, u, c.want)
		}
	}
	if problems, err := testutil.GatherAndLint(registryOfCounts()); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestWrongSettingsAreLogged without their values, and what remains is exported.
func TestWrongSettingsAreLogged(t *testing.T) {
	c := &collector{}
	e := export(t, serve(t, c), "OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OTEL_EXPORTER_OTLP_HEADERS", "secret,api-key=b", "OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere")
	for _, line := range []string{"parse duration", "parse headers", "open /nowhere"} {
		if e.log.lines(line) != 1 {
			t.Errorf("nothing is said of %q:\n%s", line, e.log.String())
		}
	}
	e.span()
	eventually(t, "the export", func() bool { return e.count(t, "exported") == 1 })
	if e.log.lines("secret") > 0 || c.headers[0].Get("Api-Key") != "b" {
		t.Error(e.log.String())
	}
}

func registryOfCounts() *prometheus.Registry {
	r := prometheus.NewRegistry()
	newCounts(r)
	return r
}
