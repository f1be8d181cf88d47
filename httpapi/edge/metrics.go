package edge

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics observes requests. Labels come from fixed lists, never from what a
// client sent.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// newMetrics registers the metrics of one listener, "public" or "admin"; with nil they
// are observed and shown nowhere.
func newMetrics(to prometheus.Registerer, listener string) metrics {
	in := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"listener": listener}, to))
	return metrics{
		requests: in.NewCounterVec(prometheus.CounterOpts{
			Name: "payledger_http_requests_total", Help: "Requests answered, by operation, method and status.",
		}, []string{"operation", "method", "status"}),
		seconds: in.NewHistogramVec(prometheus.HistogramOpts{
			Name: "payledger_http_request_seconds", Help: "Time from the request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"operation"}),
		inFlight: in.NewGauge(prometheus.GaugeOpts{
			Name: "payledger_http_requests_in_flight", Help: "Requests being answered.",
		}),
	}
}

func (m metrics) end(x *Exchange, took time.Duration) {
	m.inFlight.Dec()
	m.requests.WithLabelValues(x.operation(), methodLabel(x.Request.Method), strconv.Itoa(x.status)).Inc()
	m.seconds.WithLabelValues(x.operation()).Observe(took.Seconds())
}

// methodLabel keeps invented methods out of labels and logs.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return otherMethod
}

const otherMethod = "other"
