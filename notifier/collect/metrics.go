package collect

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/health"
)

// metrics count by route. Routes come from the operator's file, so there are few.
type metrics struct {
	calls    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	notices  *prometheus.CounterVec
	overdue  *prometheus.CounterVec

	open, missing *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer, ts *tasks, routes *connector.Set) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	health.GaugeFunc(r, "payledger_collector_payments", "Payments with an open attempt, refund or return that are polled.",
		func() float64 { return float64(ts.size()) })
	m := &metrics{
		calls:    vec("payledger_connector_calls_total", "Calls of connectors by their end: ok, refused, spent_key, busy, not_found, unknown.", "route", "call", "end"),
		attempts: vec("payledger_attempts_total", "Attempts to pay by what became of them: begun, offered, failed, paid.", "route", "became"),
		notices:  vec("payledger_connector_notifications_total", "Notifications of providers by their end: judged, forged, malformed, foreign, failed.", "route", "end"),
		overdue:  vec("payledger_attempts_overdue_total", "Attempts that were still open an hour after their payment's end.", "route"),
		open: promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{
			Name: "payledger_connector_open", Help: "What is open at the provider, counted once a minute: attempt, cancel, refund, return, dispute.",
		}, []string{"route", "kind"}),
		missing: promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{
			Name: "payledger_connector_missing",
			Help: "Payments that are open at the provider of a route without a connector: they are not polled. Counted once a minute.",
		}, []string{"route"}),
	}
	m.seed(routes)
	return m
}

// showBacklog sets the gauges of a route.
func (m *metrics) showBacklog(route string, b Backlog) {
	for _, kind := range domain.WorkKinds() {
		m.open.WithLabelValues(route, string(kind)).Set(float64(b.Work[kind]))
	}
	m.missing.WithLabelValues(route).Set(float64(b.Lost))
}

// seed lets the counters of all routes begin with 0: what is there from the start is
// seen to grow when it happens first.
func (m *metrics) seed(routes *connector.Set) {
	for route := range routes.Routes().Connectors {
		for _, became := range []string{"begun", "offered", "failed", "paid"} {
			m.attempts.WithLabelValues(route, became)
		}
		for _, end := range []string{"judged", "forged", "malformed", "foreign", "failed"} {
			m.notices.WithLabelValues(route, end)
		}
		m.calls.WithLabelValues(route, "begin", "ok")
		m.overdue.WithLabelValues(route)
	}
}

// endOf names how a call ended.
func endOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, new(*connector.RefusedError)):
		return "refused"
	case errors.As(err, new(*connector.SpentKeyError)):
		return "spent_key"
	case errors.As(err, new(*connector.BusyError)):
		return "busy"
	case errors.Is(err, connector.ErrNotFound):
		return "not_found"
	}
	return "unknown"
}
