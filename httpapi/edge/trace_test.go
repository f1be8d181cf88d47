package edge

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// The record of a request names the trace that it belongs to, and nothing of a
// traceparent that is none.
func TestTraceInTheRecord(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := New(Config{Now: time.Now, Entropy: strings.NewReader(strings.Repeat("x", 1<<10)), Log: zerolog.New(&log)})
	ask := func(traceparent string) string {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Traceparent", traceparent)
		e.Wrap(func(x *Exchange) { x.ReplyBytes(http.StatusOK, "text/plain", nil) }).ServeHTTP(httptest.NewRecorder(), r)
		return log.String()
	}
	if got := ask("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); !strings.Contains(got, `"trace_id":"0af7651916cd43dd8448eb211c80319c","parent_id":"b7ad6b7169203331"`) {
		t.Error(got)
	}
	if got := ask("sk_secret"); strings.Contains(got, "trace") || strings.Contains(got, "secret") {
		t.Error(got)
	}
}
