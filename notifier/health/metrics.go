package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/eventstore"
)

// Counter makes a counter, registered unless r is nil. Registering the same
// name twice is a mistake in the program and panics.
func Counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	Register(r, c)
	return c
}

// CounterVec makes a counter for each value of a label. Those named here are
// there from the beginning: a rate over one that appears misses its first.
func CounterVec(r prometheus.Registerer, name, help string, label string, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	Register(r, c)
	return c
}

// CounterFunc is a counter whose value is read from a function.
func CounterFunc(r prometheus.Registerer, name, help string, value func() float64) {
	Register(r, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// GaugeFunc is a gauge whose value is asked for.
func GaugeFunc(r prometheus.Registerer, name, help string, value func() float64) {
	Register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// UpGauge is 1 while a part works; does completes "1 while …".
func UpGauge(r prometheus.Registerer, part, does string, trouble func() error) {
	GaugeFunc(r, "payledger_"+part+"_up", "1 while "+does+", 0 while an error prevents it.", func() float64 {
		if trouble() != nil {
			return 0
		}
		return 1
	})
}

// Lag is how many events of the log follow a position, -1 if the log does not
// answer.
func Lag(log eventstore.Store, p eventstore.Position) float64 {
	last, err := log.Last(context.Background()) //nolint:forbidigo // called by a scrape of the metrics
	if err != nil {
		return -1
	}
	return max(float64(last)-float64(p), 0)
}

// Age is how many seconds ago the first event after a position was recorded, 0 if there is none and
// -1 if the log does not answer. It reads only that event.
func Age(log eventstore.Store, p eventstore.Position) float64 {
	ctx := context.Background() //nolint:forbidigo // called by a scrape of the metrics
	for next, err := range log.Scan(ctx, p, eventstore.Filter{}) {
		if err != nil {
			return -1
		}
		return max(time.Since(next.At).Seconds(), 0)
	}
	return 0
}

// Register registers a collector unless r is nil.
func Register(r prometheus.Registerer, c prometheus.Collector) {
	if r != nil {
		r.MustRegister(c)
	}
}
