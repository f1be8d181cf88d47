package conns

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// refused reports whether the client was not let in.
func (r reason) refused() bool { return r == tooMany || r == tooManyOfAddress || r == noFiles }

func reasons() []reason {
	return []reason{tooMany, tooManyOfAddress, noFiles, gaveWay, notReading, slowRequest}
}

// reportEvery is how often at most a listener's record is logged.
const reportEvery = 30 * time.Second

// report counts connections that were refused or closed, and logs them
// together.
type report struct {
	log     zerolog.Logger
	name    string
	counter map[reason]prometheus.Counter // of those with metrics

	mu    sync.Mutex
	next  time.Time      // of the next record
	since map[reason]int // since the last record
}

func newReport(c Config, open func() float64) (*report, error) {
	r := &report{log: c.Log, name: c.Name, counter: make(map[reason]prometheus.Counter), since: make(map[reason]int)}
	if c.Metrics == nil {
		return r, nil
	}
	to := prometheus.WrapRegistererWith(prometheus.Labels{"listener": c.Name}, c.Metrics)
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_connections_refused_total",
		Help: "Connections closed as they came: there were too many of all or of one address, or no file could be opened.",
	}, []string{"reason"})
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "payledger_connections_dropped_total",
		Help: "Connections closed because the client did not read its answer or sent its request too slowly, or to let another one in.",
	}, []string{"reason"})
	for _, why := range reasons() {
		of := closed
		if why.refused() {
			of = refused
		}
		r.counter[why] = of.WithLabelValues(string(why))
	}
	limit := prometheus.NewGauge(prometheus.GaugeOpts{Name: "payledger_connections_max", Help: "Connections that may be open at once."})
	limit.Set(float64(c.Max))
	for _, m := range []prometheus.Collector{
		refused, closed, limit,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "payledger_connections_open", Help: "Connections of clients that are open."}, open),
	} {
		if err := to.Register(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// count counts a connection, with the address it counts for or "", and logs all
// counts since the last record, at most every reportEvery.
func (r *report) count(why reason, address string) {
	if c := r.counter[why]; c != nil {
		c.Inc()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since[why]++
	now := time.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(reportEvery)
	level, advice := zerolog.InfoLevel, "connections were closed: their clients did not read or send"
	if r.full() {
		level = zerolog.WarnLevel
		advice = "there is no room for more connections: see which clients hold them (client is the last one), raise --max-connections, " +
			"--max-connections-per-address or the limit of open files, or put a proxy in front"
	}
	record := r.log.WithLevel(level).Str("listener", r.name)
	for _, why := range reasons() {
		if n := r.since[why]; n > 0 {
			record.Int(string(why), n)
		}
	}
	clear(r.since)
	if address != "" {
		record.Str("client", address)
	}
	record.Msg(advice)
}

// full reports whether the room for connections was too small since the last
// record. The caller holds mu.
func (r *report) full() bool {
	for why := range r.since {
		if why == gaveWay || why.refused() {
			return true
		}
	}
	return false
}
