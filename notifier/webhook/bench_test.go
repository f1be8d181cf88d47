//go:build unix

package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// body is of the usual size.
var body = []byte(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","data":{"payload":"` + strings.Repeat("x", 400) + `"}}`)

func BenchmarkSign(b *testing.B) {
	b.ReportAllocs()
	now := time.Now()
	for b.Loop() {
		if _, err := Sign("01M7W7EYW0Q6V8B0N5R7T2M4C6", now, body, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSend sends to a receiver in this process, whose part is in the
// numbers too: deliveries per second of CPU time are at least those shown.
func BenchmarkSend(b *testing.B) {
	for _, c := range []struct {
		name  string
		start func(*httptest.Server)
	}{{"http", (*httptest.Server).Start}, {"https", (*httptest.Server).StartTLS}} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) //nolint:errcheck // the sender sees it
			}))
			c.start(server)
			defer server.Close()
			config := Config{AllowPrivate: true}
			if server.TLS != nil {
				config.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			}
			s := NewSender(config)
			defer s.Close()
			before := cpuTime(b)
			b.ReportAllocs()
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					a := attempt(server.URL)
					a.Body = body
					if o := s.Send(b.Context(), a); !o.Delivered {
						b.Errorf("%+v", o)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), "deliveries/core-s")
		})
	}
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
