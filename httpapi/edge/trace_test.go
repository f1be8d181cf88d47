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

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	good := "00-" + trace + "-" + parent + "-01"
	for _, c := range []struct {
		lines []string
		known bool
	}{
		{[]string{good}, true},
		{[]string{"00-" + trace + "-" + parent + "-ff"}, true},
		{[]string{"01-" + trace + "-" + parent + "-00"}, true},
		{[]string{"cc-" + trace + "-" + parent + "-01-what-the-future-brings"}, true},
		{nil, false},
		{[]string{good, good}, false},
		{[]string{""}, false},
		{[]string{good[:54]}, false},
		{[]string{good + "-01"}, false}, // version 00 has no more fields
		{[]string{"cc" + good[2:] + "x"}, false},
		{[]string{"ff" + good[2:]}, false},
		{[]string{strings.ToUpper(good)}, false},
		{[]string{strings.Replace(good, trace, strings.Repeat("0", 32), 1)}, false},
		{[]string{strings.Replace(good, parent, strings.Repeat("0", 16), 1)}, false},
		{[]string{strings.Replace(good, "0af", "0ag", 1)}, false},
		{[]string{strings.ReplaceAll(good, "-", "_")}, false},
		{[]string{" " + good}, false},
		{[]string{"01" + good[2:] + "-" + strings.Repeat("a", 300)}, false},
	} {
		h := http.Header{"Traceparent": c.lines}
		want := ""
		if c.known {
			want = trace + parent
		}
		if gotTrace, gotParent := traceOf(h); gotTrace+gotParent != want {
			t.Errorf("%q: %s %s", c.lines, gotTrace, gotParent)
		}
	}
}

// The record of a request names the trace that it belongs to, and nothing of a
// traceparent that is none.
func TestTraceInTheRecord(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e, err := New(Config{Now: time.Now, Entropy: strings.NewReader(strings.Repeat("x", 1<<10)), Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
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
