package delivery

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/notifier/delivery/store"
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

	unconfirmed prometheus.Counter
}

// classDelivered is the label of attempts that had no class of failure.
const classDelivered = "delivered"

func newMetrics(l *Lanes) metrics {
	r := prometheus.NewRegistry()
	m := metrics{
		registry: r,
		attempts: health.CounterVec(r, "payledger_webhook_attempts_total", "Attempts to notify an endpoint, by how they ended.", "outcome"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "payledger_webhook_attempt_duration_seconds", Help: "How long attempts took until the answer was judged.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20},
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "payledger_webhook_delivery_lag_seconds", Help: "From an event to its delivery, for those that were delivered.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 5, 30, 120, 600, 3600, 6 * 3600, 24 * 3600, 76 * 3600},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "payledger_webhook_in_flight", Help: "Attempts under way.",
		}),
		disabled: health.CounterVec(r, "payledger_webhook_endpoints_disabled_total", "Endpoints that were disabled because they failed or wished it, by reason.",
			"reason", string(projects.DisabledGone), string(projects.DisabledFailing)),
		unconfirmed: health.Counter(r, "payledger_webhook_unconfirmed_total",
			"Outcomes listed as unconfirmed, because the lane file that told whether they were delivered was lost."),
	}
	for _, c := range append(webhook.Classes(), classDelivered, classInternal) {
		m.attempts.WithLabelValues(string(c))
	}
	r.MustRegister(m.duration, m.lag, m.inFlight)
	gauge := func(name, help string, of func(*target) int) {
		health.GaugeFunc(r, name, help, func() float64 {
			n := 0
			for _, t := range l.all() {
				n += of(t)
			}
			return float64(n)
		})
	}
	health.GaugeFunc(r, "payledger_webhook_up", "1 while webhooks are sent, 0 while the disk is too full to note what was sent.",
		func() float64 { return float64(1 - one(l.writer.full.Load())) })
	health.GaugeFunc(r, "payledger_webhook_in_flight_max", "How many attempts may be under way at the same time.",
		func() float64 { return float64(l.slots.max) })
	health.GaugeFunc(r, "payledger_webhook_endpoints_waiting", "Endpoints that wait because too many attempts are under way.",
		func() float64 { return float64(l.slots.waiting()) })
	gauge("payledger_webhook_breakers_open", "Endpoints whose circuit breaker is open.",
		func(t *target) int { return one(t.open(l.clock.now()) != 0) })
	gauge("payledger_webhook_lanes_waiting", "Payments with notifications in line, counted per endpoint.",
		func(t *target) int { return t.counted().Lanes })
	gauge("payledger_webhook_deliveries_pending", "Notifications not settled.",
		func(t *target) int { return t.counted().Pending })
	health.GaugeFunc(r, "payledger_webhook_oldest_pending_age_seconds", "Age of the oldest event with a notification not settled; 0 when there is none.",
		l.oldestPendingAge)
	gauge("payledger_webhook_deliveries_undelivered", "Notifications given up, parked, held or unconfirmed: the dead letters.",
		func(t *target) int { return t.counted().Undelivered })
	health.Register(l.config.Metrics, r)
	return m
}

// oldestPendingAge takes one look into the file for each endpoint with something
// in line. It is NaN when the file cannot be read.
func (l *Lanes) oldestPendingAge() float64 {
	var oldest domain.ID
	err := l.file.View(func(x store.Tables) error {
		for _, t := range l.all() {
			if t.counted().Pending == 0 {
				continue
			}
			if event, ok := x.OldestPending(t.number); ok && (oldest.IsZero() || event.Compare(oldest) < 0) {
				oldest = event
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return math.NaN()
	case oldest.IsZero():
		return 0
	}
	return max(0, float64(l.clock.now()-domain.IDTime(oldest))/1000)
}

func (m metrics) attempted(o outcome, d store.Record, now domain.Instant) {
	class := string(o.Class)
	if o.Delivered {
		class = classDelivered
		m.lag.Observe(float64(now-domain.IDTime(d.Event)) / 1000)
	}
	m.attempts.WithLabelValues(class).Inc()
	m.duration.Observe(o.Duration.Seconds())
}
