package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"payledger/eventstore"
)

// Counter makes a counter, registered unless r is nil. Registering the same
// name twice is a mistake in the program and panics.
func Counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// CounterVec makes a counter for each value of a label. Those named here are
// there from the beginning: a rate over one that appears misses its first.
func CounterVec(r prometheus.Registerer, name, help string, label string, values ...string) *prometheus.CounterVec {
	c := promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

// CounterFunc is a counter whose value is read from a function.
func CounterFunc(r prometheus.Registerer, name, help string, value func() float64) {
	promauto.With(r).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
}

// GaugeFunc is a gauge whose value is asked for.
func GaugeFunc(r prometheus.Registerer, name, help string, value func() float64) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// FlagFunc is a gauge that is 1 while what is asked for is so, else 0.
func FlagFunc(r prometheus.Registerer, name, help string, is func() bool) {
	GaugeFunc(r, name, help, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
}

// UpGauge is 1 while a part works; does completes "1 while …".
func UpGauge(r prometheus.Registerer, part, does string, trouble func() error) {
	FlagFunc(r, "payledger_"+part+"_up", "1 while "+does+", 0 while an error prevents it.", func() bool { return trouble() == nil })
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
