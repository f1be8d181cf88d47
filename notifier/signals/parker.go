package signals

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// Reasons for parking, as they are answered and counted.
const (
	ParkedMalformed      = "malformed"       // no signal, or not on the subject of one
	ParkedUnknownPayment = "unknown_payment" // the project has no such payment
	ParkedUnreadable     = "unreadable"      // the payment's own record is damaged
)

// Headers of a parked signal, besides its own.
const (
	HeaderParkedReason  = "Payledger-Parked-Reason"
	HeaderParkedDetail  = "Payledger-Parked-Detail"
	HeaderParkedSubject = "Payledger-Parked-Subject" // it was published on
	headerParkedCut     = "Payledger-Parked-Cut"     // its size in bytes, where only the first are stored
)

const (
	// maxParkedBody bytes of a body are stored, and maxParkedDetail of the reason.
	maxParkedBody   = 4 << 10
	maxParkedDetail = 512
	// parkWait bounds how long JetStream may take to acknowledge a parked signal. After a failure PARKED
	// is left alone until it is looked at again.
	parkWait  = 500 * time.Millisecond
	parkWatch = 5 * time.Second
	// parkedAlarm is how full PARKED is when an error is logged.
	parkedAlarm = 0.5
)

// parker keeps signals that cannot be judged in the JetStream stream PARKED. Safe for
// concurrent use.
type parker struct {
	config  Config
	trouble health.State
	log     zerolog.Logger // of single signals
	parked  *prometheus.CounterVec
	watch   time.Duration // parkWatch
	stream  jetstream.StreamConfig
	fill    parkedFill

	mu     sync.Mutex
	opened bool // PARKED is there
}

func newParker(c Config) *parker {
	p := &parker{
		config: c, trouble: health.State{Log: c.Log, Part: "parking"}, log: limitLines(c.Log),
		parked: health.CounterVec(c.Metrics, "payledger_signals_parked_total", "Signals that could not be judged and were kept aside.", "reason",
			ParkedMalformed, ParkedUnknownPayment, ParkedUnreadable),
		watch: parkWatch, stream: bus.ParkedConfig(c.LogID),
	}
	p.fill.log = c.Log
	health.UpGauge(c.Metrics, "parking", "signals that cannot be judged are kept in PARKED", p.trouble.Err)
	read := func(value func() float64) func() float64 {
		return func() float64 {
			p.fill.mu.Lock()
			defer p.fill.mu.Unlock()
			return value()
		}
	}
	health.GaugeFunc(c.Metrics, "payledger_signals_parked", "Signals in the JetStream stream PARKED.",
		read(func() float64 { return float64(p.fill.state.Msgs) }))
	health.GaugeFunc(c.Metrics, "payledger_signals_parked_fill_ratio", "How full the JetStream stream PARKED is; at 1 the oldest signals give way.",
		read(p.fill.ratio))
	health.CounterFunc(c.Metrics, "payledger_signals_parked_dropped_total", "Parked signals that gave way to newer ones.", p.fill.gaveWay)
	return p
}

// open finds, makes or adapts PARKED, unless it is there.
func (p *parker) open(ctx context.Context) {
	if p.isOpen() {
		return
	}
	if _, err := bus.OpenParked(ctx, p.config.Conn, p.stream); ctx.Err() == nil {
		p.set(err)
	}
}

func (p *parker) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// set notes whether PARKED is there, or why it has to be opened again.
func (p *parker) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = err == nil
	p.trouble.Set(err)
}

// park writes a signal to PARKED, and reports whether it is there.
func (p *parker) park(ctx context.Context, s *signal, reason, detail string) bool {
	if !p.isOpen() {
		return false
	}
	m := &nats.Msg{
		Subject: bus.ParkedSubject,
		Header: nats.Header{
			HeaderParkedReason:  {reason},
			HeaderParkedDetail:  {oneLine(detail, maxParkedDetail)},
			HeaderParkedSubject: {s.subject},
			// A crash before the acknowledgement parks it again: recognised
			// for as long as JetStream remembers.
			jetstream.MsgIDHeader: {fmt.Sprintf("%d-%d", s.stored.UnixNano(), s.sequence)},
		},
		Data: s.body,
	}
	if s.replyTo != "" {
		m.Header[bus.ReplyHeader] = []string{s.replyTo}
	}
	if s.cut > 0 {
		m.Header[headerParkedCut] = []string{strconv.Itoa(s.cut)}
	}
	wait, cancel := context.WithTimeout(ctx, parkWait)
	defer cancel()
	if _, err := p.config.Conn.JetStream().PublishMsg(wait, m, jetstream.WithExpectStream(bus.ParkedStream)); err != nil {
		if ctx.Err() == nil {
			p.set(fmt.Errorf("the JetStream stream %s takes no signals: %w", bus.ParkedStream, err))
		}
		return false
	}
	p.parked.WithLabelValues(reason).Inc()
	p.log.Warn().Str("reason", reason).Str("detail", detail).Str("subject", s.subject).
		Msg("a signal could not be judged and is kept in the JetStream stream " + bus.ParkedStream + ": see payledger signals parked")
	return true
}

// oneLine makes a text fit for a header.
func oneLine(s string, most int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s[:min(len(s), most)])
}

// watchFill checks how full PARKED is, until ctx ends, and opens it when it is not open.
func (p *parker) watchFill(ctx context.Context) error {
	for {
		p.open(ctx)
		p.fill.turn.Lock()
		if s, err := p.config.Conn.JetStream().Stream(ctx, bus.ParkedStream); err == nil {
			p.fill.set(s.CachedInfo())
		}
		p.fill.turn.Unlock()
		if !health.Pause(ctx, p.watch) {
			return ctx.Err()
		}
	}
}

// parkedFill is how full PARKED was at the last check. Safe for concurrent use.
type parkedFill struct {
	log zerolog.Logger

	turn    sync.Mutex // held from a check or a removal until it is noted: neither sees half of the other
	mu      sync.Mutex
	state   jetstream.StreamState
	most    int64 // bytes
	looked  bool
	base    uint64 // how many were removed before the first check
	alarmed bool
	removed uint64 // by command
	dropped uint64 // that gave way; what a command has removed since is no part of it
}

func (f *parkedFill) set(info *jetstream.StreamInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := info.State
	f.most = info.Config.MaxBytes
	if !f.looked || goneFrom(s) < f.base+f.removed { // it is another JetStream stream
		f.base, f.removed, f.dropped, f.looked = goneFrom(s), 0, 0, true
	}
	f.dropped = max(f.dropped, goneFrom(s)-f.base-f.removed)
	f.state = s
	full := f.ratio()
	switch {
	case full >= parkedAlarm && !f.alarmed:
		f.alarmed = true
		f.log.Error().Uint64("signals", s.Msgs).Uint64("bytes", s.Bytes).Int("percent", int(100*full)).
			Msg("many signals could not be judged and fill the JetStream stream " + bus.ParkedStream + "; when it is full the oldest give way: " +
				"see payledger signals parked, correct their sender, then retry or discard them")
	case full < parkedAlarm/2 && f.alarmed:
		f.alarmed = false
		f.log.Info().Uint64("signals", s.Msgs).Msg("the JetStream stream " + bus.ParkedStream + " has space again")
	}
}

// ratio is how full PARKED is. The caller holds f.mu.
func (f *parkedFill) ratio() float64 {
	if f.most <= 0 {
		return 0
	}
	return float64(f.state.Bytes) / float64(f.most)
}

// goneFrom is how many messages a JetStream stream has had and has no more.
func goneFrom(s jetstream.StreamState) uint64 { return s.LastSeq - s.Msgs }

// begin is called before the first check of a reading: since an earlier one, signals may have been
// removed elsewhere.
func (f *parkedFill) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = false
}

// took notes that a command removed signals.
func (f *parkedFill) took(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed += n
}

func (f *parkedFill) gaveWay() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.dropped)
}
