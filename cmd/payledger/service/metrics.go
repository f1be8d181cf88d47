package service

import (
	"context"
	"math"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/notifier/health"
)

// scrapePatience is how long a scrape waits for the projections, which may be
// behind the log for a short time.
const scrapePatience = time.Second

// operatorHandler serves metrics and profiles.
func (a *app) operatorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		all := prometheus.Gatherers{a.metrics}
		if term := a.term.Load(); term != nil {
			all = append(all, term)
		}
		promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// newMetrics makes the registry of a running service, with the metrics of the
// process itself. All that payledger measures is listed in METRICS.md.
func newMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	version, revision := process.BuiltFrom()
	promauto.With(r).NewGauge(prometheus.GaugeOpts{
		Name: "payledger_build_info", Help: "1, with what the program was built from.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "go": runtime.Version()},
	}).Set(1)
	return r
}

// commitMetrics measure the groups of commits: two observations a group.
func commitMetrics(m prometheus.Registerer) func(commits int, took time.Duration) {
	duration := promauto.With(m).NewHistogram(prometheus.HistogramOpts{
		Name: "payledger_log_commit_duration_seconds", Help: "How long a group of commits took until it was synced.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
	})
	size := promauto.With(m).NewHistogram(prometheus.HistogramOpts{
		Name: "payledger_log_commit_group_size", Help: "Commits that one sync made durable.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	})
	return func(commits int, took time.Duration) {
		duration.Observe(took.Seconds())
		size.Observe(float64(commits))
	}
}

// paymentMetrics count the outcomes of payments and refunds. The function is for the goroutine that
// folds the log.
//
// seed lets the counters of a route begin with 0, so that its first payment is seen
// as growth.
func paymentMetrics(m prometheus.Registerer) (changed func(e domain.Event, before, after *domain.Payment), seed func(route string)) {
	payments := promauto.With(m).NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_payments_total", Help: "Payments that came to a status since the start, by their route; empty while they have none.",
	}, []string{"status", "route"})
	refunds := promauto.With(m).NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_refunds_total", Help: "Refunds that came to a status since the start, by the route of their payment; returned: the money of one that had succeeded came back.",
	}, []string{"status", "route"})
	for _, s := range []domain.PaymentStatus{domain.Created, domain.Expired, domain.Failed} {
		payments.WithLabelValues(string(s), "")
	}
	seed = func(route string) {
		for _, s := range domain.PaymentStatuses()[1:] { // a created one has no route
			payments.WithLabelValues(string(s), route)
		}
		for _, s := range append(domain.RefundStatuses(), domain.RefundCameBack) {
			refunds.WithLabelValues(string(s), route)
		}
	}
	return func(e domain.Event, before, after *domain.Payment) {
		if before == nil || before.Status != after.Status {
			payments.WithLabelValues(string(after.Status), after.Route).Inc()
		}
		id := domain.FactsOf(e).Refund
		if id.IsZero() || before == nil {
			return
		}
		was, _ := before.Refund(id)
		switch refund, ok := after.Refund(id); {
		case ok && refund.Status != was.Status:
			refunds.WithLabelValues(string(refund.Status), after.Route).Inc()
		case ok && refund.Returned != was.Returned:
			refunds.WithLabelValues(string(domain.RefundCameBack), after.Route).Inc()
		}
	}, seed
}

// watchDirectory registers the metrics of the directory, of the log's faults, and of money that waits
// for the operator, which each read one row at a scrape.
func (a *app) watchDirectory() {
	watchNode(a.metrics, a.node)
	free, floor, full := a.space()
	if full != nil {
		a.Log.Error().Err(full).Uint64("free_bytes", free).Uint64("min_free_bytes", floor).Msg("nothing new is recorded until there is room; reading goes on")
	}
	health.FlagFunc(a.metrics, "payledger_log_suspended", "1 while nothing more is recorded, because the event log is damaged or its file is not at its place.",
		func() bool { return a.ready() != nil })
	health.FlagFunc(a.metrics, "payledger_log_damaged", "1 when damage to the event log was found since the start.", a.store.Damaged)
	health.GaugeFunc(a.metrics, "payledger_disk_free_bytes", "Free bytes on the disk of the data directory.", func() float64 {
		free, err := bolt.FreeSpace(string(a.dir))
		if err != nil {
			return math.NaN()
		}
		return float64(free)
	})
	health.GaugeFunc(a.metrics, "payledger_disk_free_min_bytes", "Free bytes below which nothing is recorded.", func() float64 { return float64(floor) })
	a.metrics.MustRegister(newLabelled("payledger_suspense_amount",
		"Money on the suspense accounts, in units of the currency; it is owed to someone, and the operator has to clear it.", "currency", a.suspense))
	health.GaugeFunc(a.metrics, "payledger_payment_oldest_unrouted_age_seconds", "Age of the oldest payment that waits for its route; 0 when none does.", func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		at, waits, err := a.views.OldestUnrouted(ctx)
		if err != nil {
			return math.NaN()
		}
		if !waits {
			return 0
		}
		created, err := a.views.TimeOf(ctx, at)
		if err != nil {
			return math.NaN()
		}
		return max(0, time.Since(created.Time()).Seconds())
	})
}

// otherCurrencies is the label of codes that no project can have enabled: a
// provider may have written anything.
const otherCurrencies = "other"

// suspense is the suspense of all projects by currency. The default currency is always there,
// so that there is something to compare before the first late funds.
func (a *app) suspense() map[string]float64 {
	owed := map[string]domain.Sum{string(domain.DefaultCurrency): {}}
	for currency, sum := range a.views.Suspense() {
		label := otherCurrencies
		if currency.TwoMinorDigits() {
			label = string(currency)
		}
		owed[label] = owed[label].Add(sum.Neg())
	}
	amounts := make(map[string]float64)
	for label, sum := range owed {
		amount, err := strconv.ParseFloat(sum.String(), 64) // for display; the books are exact
		if err == nil {
			amounts[label] = amount
		}
	}
	return amounts
}

// newLabelled is a gauge whose values are asked for, by the value of its label.
func newLabelled(name, help, label string, values func() map[string]float64) prometheus.Collector {
	desc := prometheus.NewDesc(name, help, []string{label}, nil)
	return prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
		for label, v := range values() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, label)
		}
	})
}
