package delivery

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// metrics are registered together, and go when the lanes are closed.
type metrics struct {
	registry *prometheus.Registry

	attempts *prometheus.CounterVec
	duration prometheus.Histogram
	lag      prometheus.Histogram
	inFlight prometheus.Gauge
	disabled *prometheus.CounterVec
}

// classDelivered is the label of attempts that had no class of failure.
const classDelivered = "delivered"

func newMetrics(s *sender, in prometheus.Registerer) metrics {
	r := prometheus.NewRegistry()
	m := metrics{
		registry: r,
		attempts: health.CounterVec(r, "payledger_webhook_attempts_total", "Attempts to notify an endpoint, by how they ended.", "outcome"),
		duration: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
			Name: "payledger_webhook_attempt_duration_seconds", Help: "How long attempts took until the answer was judged.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20},
		}),
		lag: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
			Name: "payledger_webhook_delivery_lag_seconds", Help: "From an event to its delivery, for those that were delivered.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 5, 30, 120, 600, 3600, 6 * 3600, 24 * 3600, 76 * 3600},
		}),
		inFlight: promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: "payledger_webhook_in_flight", Help: "Attempts under way."}),
		disabled: health.CounterVec(r, "payledger_webhook_endpoints_disabled_total", "Endpoints that were disabled because they failed or answered 410, by reason.",
			"reason", string(projects.DisabledGone), string(projects.DisabledFailing)),
	}
	for _, c := range append(webhook.Classes(), classDelivered, classInternal) {
		m.attempts.WithLabelValues(string(c))
	}
	gauge := func(name, help string, of func(*deliveries.Endpoint) int) {
		health.GaugeFunc(r, name, help, func() float64 {
			n := 0
			for _, e := range s.config.Rows.Endpoints() {
				n += of(e)
			}
			return float64(n)
		})
	}
	health.GaugeFunc(r, "payledger_webhook_up", "1 while webhooks are sent, 0 while the disk is too full to note what was sent.",
		func() float64 { return float64(1 - one(s.writer.full.Load())) })
	health.GaugeFunc(r, "payledger_webhook_in_flight_max", "How many attempts may be under way at the same time.",
		func() float64 { return float64(s.slots.max) })
	health.GaugeFunc(r, "payledger_webhook_endpoints_waiting", "Endpoints that wait because too many attempts are under way.",
		func() float64 { return float64(s.slots.waiting()) })
	health.GaugeFunc(r, "payledger_webhook_breakers_open", "Endpoints whose circuit breaker is open.", func() float64 {
		n := 0
		for _, t := range s.all() {
			n += one(t.open(s.clock.now()) != 0)
		}
		return float64(n)
	})
	gauge("payledger_webhook_lanes_waiting", "Payments with queued notifications, counted per endpoint.",
		func(e *deliveries.Endpoint) int { return e.Lanes })
	gauge("payledger_webhook_deliveries_pending", "Notifications not settled.", func(e *deliveries.Endpoint) int { return e.Pending })
	health.GaugeFunc(r, "payledger_webhook_oldest_pending_age_seconds", "Age of the oldest event with a notification not settled; 0 when there is none.",
		s.oldestPendingAge)
	gauge("payledger_webhook_deliveries_undelivered", "Notifications given up, parked, held or unconfirmed: the dead letters.",
		(*deliveries.Endpoint).DeadLetters)
	if in != nil {
		in.MustRegister(r)
	}
	return m
}

// oldestPendingAge takes one look into the rows for each endpoint with something
// pending. It is NaN when they cannot be read.
func (s *sender) oldestPendingAge() float64 {
	var oldest domain.ID
	for id, e := range s.config.Rows.Endpoints() {
		if e.Pending == 0 {
			continue
		}
		event, ok, err := s.config.Rows.OldestPending(s.sending, id)
		if err != nil {
			return math.NaN()
		}
		if ok && (oldest.IsZero() || event.Compare(oldest) < 0) {
			oldest = event
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return max(0, float64(s.clock.now()-domain.IDTime(oldest))/1000)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m metrics) attempted(o webhook.Outcome, d deliveries.Delivery, now domain.Instant) {
	class := string(o.Class)
	if o.Delivered {
		class = classDelivered
		m.lag.Observe(float64(now-domain.IDTime(d.Event)) / 1000)
	}
	m.attempts.WithLabelValues(class).Inc()
	m.duration.Observe(o.Duration.Seconds())
}
