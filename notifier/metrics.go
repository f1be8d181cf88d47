package notifier

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/eventstore"
)

// counter makes a counter, registered unless r is nil. Registering the same
// name twice is a mistake in the program and panics.
func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	register(r, c)
	return c
}

// counterVec makes a counter for each value of a label. Those named here are
// there from the beginning: a rate over one that appears misses its first.
func counterVec(r prometheus.Registerer, name, help string, label string, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	register(r, c)
	return c
}

// counterFunc is a counter whose value is kept elsewhere.
func counterFunc(r prometheus.Registerer, name, help string, value func() float64) {
	register(r, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

func gaugeFunc(r prometheus.Registerer, name, help string, value func() float64) {
	register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// upGauge tells whether a part works just now; does completes "1 while …".
func upGauge(r prometheus.Registerer, part, does string, trouble func() error) {
	gaugeFunc(r, "payledger_"+part+"_up", "1 while "+does+", 0 while something is in the way.", func() float64 {
		if trouble() != nil {
			return 0
		}
		return 1
	})
}

// lag is how many events of the log are behind a position, -1 if that cannot
// be told.
func lag(log eventstore.Store, p eventstore.Position) float64 {
	last, err := log.Last(context.Background()) //nolint:forbidigo // asked by whoever scrapes the metrics
	if err != nil {
		return -1
	}
	return max(float64(last)-float64(p), 0)
}

func register(r prometheus.Registerer, c prometheus.Collector) {
	if r != nil {
		r.MustRegister(c)
	}
}
