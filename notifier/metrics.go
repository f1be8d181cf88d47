package notifier

import "github.com/prometheus/client_golang/prometheus"

// counter makes a counter, registered unless r is nil. Registering the same
// name twice is a mistake in the program and panics.
func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	register(r, c)
	return c
}

func counterVec(r prometheus.Registerer, name, help string, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	register(r, c)
	return c
}

func gaugeFunc(r prometheus.Registerer, name, help string, value func() float64) {
	register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func register(r prometheus.Registerer, c prometheus.Collector) {
	if r != nil {
		r.MustRegister(c)
	}
}
