package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"payledger/cmd/payledger/process"
)

const testTrace = "0af7651916cd43dd8448eb211c80319c"

// Everything that follows from a request is in its trace: its events, the messages
// on NATS and the notifications.
func TestTraceFollowsAPayment(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	notified := make(map[string]string) // traceparent by payment
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		_ = json.UnmarshalRead(r.Body, &n)
		mu.Lock()
		defer mu.Unlock()
		notified[n.Data.ID] = r.Header.Get("Traceparent")
	}))
	t.Cleanup(hook.Close)
	s := start(t, "demo", "--data", t.TempDir(), "--webhook-allow-private", "--nats-listen", "127.0.0.1:0", "--log-level", "debug")
	s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`"}`)
	books := connected(t, s, newConsumer(t, s, "books"))

	const parent = "00-" + testTrace + "-b7ad6b7169203331-01"
	traced := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00"}`, "Traceparent", parent).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+traced, `{"outcome":"paid"}`)
	plain := s.paid(t)
	eventually(t, "both are notified", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(notified) == 2
	})
	if notified[traced] != parent || notified[plain] != "" {
		t.Errorf("notifications have traces %v", notified)
	}

	durable, err := books.js.Consumer(t.Context(), books.Stream, books.Durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := durable.Fetch(4, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		want := ""
		if strings.HasSuffix(m.Headers().Get("ce-subject"), traced) {
			want = parent
		}
		if got := m.Headers().Get("ce-traceparent"); got != want {
			t.Errorf("%s has traceparent %q, want %q", m.Headers().Get("ce-type"), got, want)
		}
	}
	out, _ := payledger(t, "events", "tail", "--data", s.Data, "--json")
	if n := strings.Count(out, `,"traceparent":"`+parent+`"`); n != 2 {
		t.Errorf("%d events have the trace, want 2:\n%s", n, out)
	}
	eventually(t, "the delivery is logged with its trace", func() bool {
		for line := range strings.Lines(s.stderr.String()) {
			if strings.Contains(line, "a notification was sent") && strings.Contains(line, `"trace_id":"`+testTrace+`"`) {
				return true
			}
		}
		return false
	})
	s.stops(t)
	if out, code := payledger(t, "verify", "--data", s.Data); code != 0 {
		t.Error(out)
	}
}

// spanCollector is an OpenTelemetry collector that keeps what it receives.
type spanCollector struct {
	mu    sync.Mutex
	raw   []byte
	spans []*tracepb.Span
	about []*commonpb.KeyValue // of the service
	bad   error
}

func (c *spanCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body...)
	if err != nil {
		c.bad = err
	}
	for _, of := range request.ResourceSpans {
		c.about = of.Resource.Attributes
		for _, in := range of.ScopeSpans {
			c.spans = append(c.spans, in.Spans...)
		}
	}
}

// find is the span of that name with the attribute; nil: it has not come.
func (c *spanCollector) find(name, key, value string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name && (key == "" || attributeOf(s.Attributes, key) == value) {
			return s
		}
	}
	return nil
}

func attributeOf(all []*commonpb.KeyValue, key string) string {
	for _, a := range all {
		if a.Key != key {
			continue
		}
		if n, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			return fmt.Sprint(n.IntValue)
		}
		return a.Value.GetStringValue()
	}
	return ""
}

// startWithEnv is start with variables of the environment.
func startWithEnv(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	cmd := exec.Command("payledger", append(args, "--json", "--listen", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), env...)
	s, err := runServer(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("stderr of payledger %s:\n%s", strings.Join(args, " "), s.stderr)
		}
	})
	return s
}

// TestSpansOfAPaymentAreExported follows a payment at a collector: the request, the
// commits of its events, the calls of its provider and its notification are one
// trace, which goes on at the receiver. No span holds a secret or the merchant's
// data.
func TestSpansOfAPaymentAreExported(t *testing.T) {
	t.Parallel()
	collector := &spanCollector{}
	listening := httptest.NewServer(collector)
	t.Cleanup(listening.Close)
	received := make(chan string, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r.Header.Get("Traceparent") }))
	t.Cleanup(hook.Close)
	routes, secret := filepath.Join(t.TempDir(), "routes.json"), filepath.Join(t.TempDir(), "secret")
	for file, content := range map[string]string{
		secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n",
		routes: `{"rules":[{"route":"acme"}],"connectors":{"acme":{"type":"http","url":"http://127.0.0.1:9","secret_file":"` + secret + `"}}}`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startWithEnv(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + listening.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=collector-secret",
		"OTEL_SERVICE_NAME=till", "OTEL_BSP_SCHEDULE_DELAY=100",
	}, "demo", "--data", t.TempDir(), "--webhook-allow-private", "--routes", routes, "--admin-listen", "127.0.0.1:0")
	endpoint := s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`/path-secret?token=query-secret","kinds":["payment.awaiting_payment"]}`).object(t)

	const caller = "b7ad6b7169203331"
	answered := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00","description":"a description","payload":{"a":"payload"}}`,
		"Traceparent", "00-"+testTrace+"-"+caller+"-01")
	created := answered.object(t)
	id := fmt.Sprint(created["id"])
	link := created["instructions"].(map[string]any)["url"].(string)
	untraced := s.do(t, 201, "POST", "/v1/payments", `{"amount":"2.00"}`).text(t, "id")
	s.do(t, 404, "GET", "/v1/payments/none", "")
	live, err := http.Get(s.BaseURL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	live.Body.Close()
	var form [][]byte
	eventually(t, "the page has its form", func() bool {
		resp, err := http.Get(link)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		page, _ := io.ReadAll(resp.Body)
		form = formToken.FindSubmatch(page)
		return form != nil
	})
	resp, err := http.PostForm(link, url.Values{"form": {string(form[1])}}) // presses Pay: the provider cannot be reached
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	wait := func(name, key, value string) *tracepb.Span {
		t.Helper()
		eventually(t, "the span "+name, func() bool { return collector.find(name, key, value) != nil })
		return collector.find(name, key, value)
	}
	request := wait("POST /v1/payments", "payledger.request.id", answered.Header.Get("X-Request-Id"))
	below := []*tracepb.Span{
		wait("commit payment.created", "payledger.payment.id", id),
		wait("POST webhook", "payledger.payment.id", id),
		wait("commit payment.attempt_begun", "payledger.payment.id", id),
		wait("provider begin", "payledger.payment.id", id),
	}
	if hex.EncodeToString(request.TraceId) != testTrace || hex.EncodeToString(request.ParentSpanId) != caller || request.Kind != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span is %v", request)
	}
	for _, span := range below {
		if !bytes.Equal(span.TraceId, request.TraceId) || !bytes.Equal(span.ParentSpanId, request.SpanId) {
			t.Errorf("%s is not below the request: %v", span.Name, span)
		}
	}
	notified := below[1]
	if attributeOf(notified.Attributes, "http.response.status_code") != "200" || attributeOf(notified.Attributes, "server.address") != "127.0.0.1" {
		t.Errorf("%v", notified)
	}
	want := "00-" + testTrace + "-" + hex.EncodeToString(notified.SpanId) + "-01"
	for got := ""; got != want; {
		select {
		case got = <-received:
		case <-time.After(patience):
			t.Fatalf("no notification came with %s", want)
		}
	}
	if failed := below[3]; failed.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || attributeOf(failed.Attributes, "error.type") != "unknown" {
		t.Errorf("%v", failed)
	}
	own := wait("commit payment.created", "payledger.payment.id", untraced)
	if bytes.Equal(own.TraceId, request.TraceId) || len(own.ParentSpanId) == 0 {
		t.Errorf("a request without a trace begins none of its own: %v", own)
	}
	refused := wait("GET /v1/payments/{id}", "http.response.status_code", "404")
	if refused.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("a client's mistake is marked as an error: %v", refused)
	}
	s.stops(t)

	collector.mu.Lock()
	defer collector.mu.Unlock()
	if collector.bad != nil || attributeOf(collector.about, "service.name") != "till" {
		t.Errorf("%v, %v", collector.bad, collector.about)
	}
	secretOf := link[strings.LastIndex(link, "/")+1:]
	for _, s := range []string{
		s.APIKey, fmt.Sprint(endpoint["secret"]), secretOf, "path-secret", "query-secret", "collector-secret", "a description", "payload\"", "1500.00", "livez",
	} {
		if bytes.Contains(collector.raw, []byte(s)) {
			t.Errorf("a span holds %q", s)
		}
	}
	for _, secret := range []string{"collector-secret", "path-secret"} {
		if strings.Contains(s.stderr.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// TestCollectorThatHangsDelaysNoPayment: requests are answered while the collector
// accepts connections and answers nothing. Dropped spans are counted, and the
// program ends in time.
func TestCollectorThatHangsDelaysNoPayment(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(collector.Close)
	t.Cleanup(func() { close(hang) })
	s := startWithEnv(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_MAX_QUEUE_SIZE=16",
	}, "demo", "--data", t.TempDir(), "--admin-listen", "127.0.0.1:0")
	for range 20 {
		s.paid(t)
	}
	if !bytes.Contains(s.scrape(t), []byte(`payledger_trace_spans_total{end="dropped"}`)) || bytes.Contains(s.scrape(t), []byte(`payledger_trace_spans_total{end="dropped"} 0`)) {
		t.Error("no span was dropped")
	}
	began := time.Now()
	s.stops(t)
	if took := time.Since(began); took < process.TracesStopTime {
		t.Errorf("it ended after %s: the collector did not hang", took)
	}
	if n := strings.Count(s.stderr.String(), "spans are dropped"); n != 1 {
		t.Errorf("%d lines say that spans are dropped", n)
	}
}

// TestTracesHideNothingFromVerify: a server that makes spans knows that its log was opened without
// its checkpoint.
func TestTracesHideNothingFromVerify(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	s := start(t, "demo", "--data", dir)
	s.stops(t)
	if err := os.Remove(filepath.Join(dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	collector := httptest.NewServer(&spanCollector{})
	t.Cleanup(collector.Close)
	startWithEnv(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}, "demo", "--data", dir)
	if out := does(t, "verify", "--data", dir); !strings.Contains(out, "the log was opened without its checkpoint 1 times") {
		t.Errorf("verify says\n%s", out)
	}
}
