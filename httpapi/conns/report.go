package conns

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// reason is why a connection was refused or closed by this program.
type reason string

const (
	tooMany          reason = "all"
	tooManyOfAddress reason = "address"
	noFiles          reason = "files"

	gaveWay     reason = "gave_way"
	notReading  reason = "not_reading"
	slowRequest reason = "slow_request"
)

// reportEvery is the least time between two log messages of a listener about connections that were
// refused or evicted.
const reportEvery = 30 * time.Second

// report counts and logs connections that were refused or closed.
type report struct {
	full, slow zerolog.Logger
	counters   map[reason]prometheus.Counter
}

func newReport(c Config, open func() float64) *report {
	to := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"listener": c.Name}, c.Metrics))
	refused := to.NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_connections_refused_total",
		Help: "Connections closed as they came: there were too many of all or of one address, or no file could be opened.",
	}, []string{"reason"})
	dropped := to.NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_connections_dropped_total",
		Help: "Connections closed because the client did not read its answer or sent its request too slowly, or to let another one in.",
	}, []string{"reason"})
	to.NewGauge(prometheus.GaugeOpts{Name: "payledger_connections_max", Help: "Connections that may be open at once."}).Set(float64(c.Max))
	to.NewGaugeFunc(prometheus.GaugeOpts{Name: "payledger_connections_open", Help: "Connections of clients that are open."}, open)

	log := c.Log.With().Str("listener", c.Name).Logger()
	r := &report{
		full:     log.Sample(&zerolog.BurstSampler{Burst: 1, Period: reportEvery}),
		slow:     log.Sample(&zerolog.BurstSampler{Burst: 1, Period: reportEvery}),
		counters: make(map[reason]prometheus.Counter),
	}
	for _, why := range []reason{tooMany, tooManyOfAddress, noFiles} {
		r.counters[why] = refused.WithLabelValues(string(why))
	}
	for _, why := range []reason{gaveWay, notReading, slowRequest} {
		r.counters[why] = dropped.WithLabelValues(string(why))
	}
	return r
}

// count counts a connection, with the address it counts for or "", and logs it unless
// one was logged shortly before.
func (r *report) count(why reason, address string) {
	r.counters[why].Inc()
	switch why {
	case notReading, slowRequest:
		r.slow.Info().Str("reason", string(why)).Str("client", address).
			Msg("a connection was closed: its client did not read or send")
	default:
		r.full.Warn().Str("reason", string(why)).Str("client", address).
			Msg("the limit of connections is reached: see which clients hold them, raise --max-connections, " +
				"--max-connections-per-address or the limit of open files, or put a proxy in front")
	}
}
