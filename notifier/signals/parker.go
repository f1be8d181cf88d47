package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// Headers of a parked signal, beside those it came with.
const (
	HeaderParkedReason  = "Payledger-Parked-Reason"
	HeaderParkedDetail  = "Payledger-Parked-Detail"
	HeaderParkedSubject = "Payledger-Parked-Subject" // it was published on
	headerParkedCut     = "Payledger-Parked-Cut"     // bytes it had, where only the first are kept
)

const (
	// maxParkedBody bytes of a body are kept, and maxParkedDetail of the reason.
	maxParkedBody   = 4 << 10
	maxParkedDetail = 512
	// maxParkBatch signals are on their way to PARKED at most.
	maxParkBatch = 256
	// maxToPark signals wait while PARKED cannot be written.
	maxToPark = 4096
	// parkedAlarm is how full PARKED is when an error is logged.
	parkedAlarm = 0.5
)

// parker keeps signals that cannot be judged in the JetStream stream PARKED. It
// works independently: no fault of PARKED keeps other signals from being judged.
// While PARKED cannot be written, maxToPark signals wait; more are dropped
// without an answer, so that their senders send them again.
type parker struct {
	config  Config
	trouble health.State
	log     zerolog.Logger // of single signals
	parked  *prometheus.CounterVec
	retry   health.Backoff
	watch   time.Duration // between looks at how full PARKED is
	stream  jetstream.StreamConfig

	failing atomic.Bool
	opened  bool // PARKED is there; not for concurrent use
	fill    parkedFill
}

// parking is a signal on its way to PARKED.
type parking struct {
	signal *signal
	reason string
	detail string
}

func newParker(c Config) *parker {
	p := &parker{
		config: c, trouble: health.State{Log: c.Log, Part: "parking"}, log: limitLines(c.Log),
		parked: health.CounterVec(c.Metrics, "payledger_signals_parked_total", "Signals that could not be judged and were kept aside.", "reason",
			ParkedMalformed, ParkedUnknownPayment, ParkedUnreadable),
		retry: health.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}, watch: 5 * time.Second, stream: bus.ParkedConfig(c.LogID),
	}
	p.fill.log = c.Log
	health.UpGauge(c.Metrics, "parking", "signals that cannot be judged are kept in PARKED", p.trouble.Err)
	p.fill.register(c.Metrics)
	return p
}

// put adds a signal that has left its queue to those to be parked, and reports
// whether there was room for it.
func (p *parker) put(h inflight, k parking) bool {
	most := math.MaxInt
	if p.failing.Load() {
		most = maxToPark
	}
	return h.toPark.PutWithin(k, most)
}

// run parks signals until ctx ends, and calls done for each that is parked.
func (p *parker) run(ctx context.Context, h inflight, done func(parking) error) error {
	var left []parking
	for ctx.Err() == nil {
		if !p.opened && !p.prepare(ctx) {
			p.retry.Wait(ctx)
			continue
		}
		if len(left) == 0 {
			if left = h.toPark.TakeAll(ctx, left, maxParkBatch); len(left) == 0 {
				break
			}
		}
		parked, rest, failure := p.park(ctx, left)
		for _, k := range parked {
			p.parked.WithLabelValues(k.reason).Inc()
			p.log.Warn().Str("reason", k.reason).Str("detail", k.detail).Str("subject", k.signal.subject).
				Msg("a signal could not be judged and is kept in the JetStream stream " + bus.ParkedStream + ": see payledger signals parked")
			if err := done(k); err != nil {
				return err
			}
		}
		if left = rest; failure != nil && ctx.Err() == nil {
			p.fails(failure)
			p.retry.Wait(ctx)
		}
	}
	return ctx.Err()
}

// prepare finds, makes or adapts PARKED, and reports whether it is there.
func (p *parker) prepare(ctx context.Context) bool {
	_, err := bus.OpenParked(ctx, p.config.Conn, p.stream)
	switch {
	case err == nil:
		p.opened = true
		p.failing.Store(false)
		p.trouble.Set(nil)
		p.retry.Reset()
	case ctx.Err() == nil:
		p.fails(err)
	}
	return p.opened
}

func (p *parker) fails(err error) {
	p.opened = false
	p.failing.Store(true)
	p.trouble.Set(err)
}

// park publishes the signals all at once, and answers which are parked, which are
// left, and why.
func (p *parker) park(ctx context.Context, all []parking) (parked, left []parking, err error) {
	sent := make([]jetstream.PubAckFuture, len(all))
	for i, k := range all {
		if sent[i], err = p.config.Conn.JetStream().PublishMsgAsync(k.message(), jetstream.WithExpectStream(bus.ParkedStream)); err != nil {
			break
		}
	}
	for i, k := range all {
		if unconfirmed := confirmed(ctx, sent[i]); unconfirmed != nil {
			left, err = append(left, k), cmp.Or(err, unconfirmed)
		} else {
			parked = append(parked, k)
		}
	}
	if err != nil {
		err = fmt.Errorf("the JetStream stream %s takes no signals: %w", bus.ParkedStream, err)
	}
	return parked, left, err
}

// confirmed waits for JetStream's answer; nil was not sent.
func confirmed(ctx context.Context, f jetstream.PubAckFuture) error {
	if f == nil {
		return errNotSent
	}
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errNotSent = errors.New("it was not sent")

// message is the message in PARKED for a signal.
func (k parking) message() *nats.Msg {
	s := k.signal
	m := &nats.Msg{
		Subject: bus.ParkedSubject,
		Header: nats.Header{
			HeaderParkedReason:  {k.reason},
			HeaderParkedDetail:  {oneLine(k.detail, maxParkedDetail)},
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
	return m
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

// watchFill looks how full PARKED is, until ctx ends.
func (p *parker) watchFill(ctx context.Context) error {
	for {
		if s, err := p.config.Conn.JetStream().Stream(ctx, bus.ParkedStream); err == nil {
			p.fill.set(s.CachedInfo())
		}
		if !health.Pause(ctx, p.watch) {
			return ctx.Err()
		}
	}
}

// parkedFill is how full PARKED was at the last look. Safe for concurrent use.
type parkedFill struct {
	log zerolog.Logger

	mu      sync.Mutex
	state   jetstream.StreamState
	most    int64 // bytes
	looked  bool
	base    uint64 // how many were gone when first looked
	alarmed bool
	removed uint64 // by command
}

func (f *parkedFill) set(info *jetstream.StreamInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := info.State
	f.most = info.Config.MaxBytes
	if !f.looked || goneFrom(s) < f.base+f.removed { // it is another JetStream stream
		f.base, f.removed, f.looked = goneFrom(s), 0, true
	}
	f.state = s
	full := f.ratio()
	switch {
	case full >= parkedAlarm && !f.alarmed:
		f.alarmed = true
		f.log.Error().Uint64("signals", s.Msgs).Uint64("bytes", s.Bytes).Int("percent", int(100*full)).
			Msg("many signals could not be judged and fill the JetStream stream " + bus.ParkedStream + "; when it is full the oldest give way: " +
				"see payledger signals parked, mend what sends them, then retry or discard them")
	case full < parkedAlarm/2 && f.alarmed:
		f.alarmed = false
		f.log.Info().Uint64("signals", s.Msgs).Msg("the JetStream stream " + bus.ParkedStream + " has room again")
	}
}

// ratio is how full PARKED is. f.mu is held.
func (f *parkedFill) ratio() float64 {
	if f.most <= 0 {
		return 0
	}
	return float64(f.state.Bytes) / float64(f.most)
}

// goneFrom is how many messages a JetStream stream has had and has no more.
func goneFrom(s jetstream.StreamState) uint64 { return s.LastSeq - s.Msgs }

// took notes that a command removed signals.
func (f *parkedFill) took(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed += n
}

func (f *parkedFill) gaveWay() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, float64(goneFrom(f.state))-float64(f.base)-float64(f.removed))
}

func (f *parkedFill) register(r prometheus.Registerer) {
	read := func(value func() float64) func() float64 {
		return func() float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return value()
		}
	}
	health.GaugeFunc(r, "payledger_signals_parked", "Signals in the JetStream stream PARKED.",
		read(func() float64 { return float64(f.state.Msgs) }))
	health.GaugeFunc(r, "payledger_signals_parked_fill_ratio", "How full the JetStream stream PARKED is; at 1 the oldest signals give way.",
		read(f.ratio))
	health.CounterFunc(r, "payledger_signals_parked_dropped_total", "Parked signals that gave way to newer ones.", f.gaveWay)
}
