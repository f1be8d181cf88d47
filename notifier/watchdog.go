package notifier

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/health"
	"payledger/notifier/signals"
)

// WatchdogConfig configures a Watchdog.
type WatchdogConfig struct {
	Server   *embedded.Server // the embedded one; nil: the server is external
	Conn     *bus.Conn
	Relay    *Relay
	Enforcer *signals.Enforcer
	Stall    time.Duration // without movement, while work waits; 0: 15 s
	MaxPause time.Duration // between repairs; 0: 10 min
	Log      zerolog.Logger
	Metrics  prometheus.Registerer // nil: none
}

// Watchdog notices work that waits without progress, reports it, and repairs the
// cause.
//
// The relay and the enforcer replace their own consumers. If there
// is still no progress within stall, the watchdog starts the embedded JetStream again
// in the running process. If that does not help, the JetStream stream that the work
// waits for is made anew: EVENTS is a copy of the log, and signals are sent again until
// they are answered, so nothing is lost, though subscribers may get events twice.
// Pauses between repairs grow, so that repairs that do not help cost little.
//
// A node of a cluster only starts its server again, and not while another node is away:
// what waits may wait for an election, and another one less would make it impossible.
//
// The JetStream streams of an external server belong to the operator: there the
// watchdog only reports which work waits and where to look.
type Watchdog struct {
	config WatchdogConfig
	parts  []*watched
}

// watched is a part that moves work on.
type watched struct {
	name   string // as the metric calls it
	waits  string // the sentence for Degraded
	stream string // the JetStream stream whose repair may help
	look   func(context.Context) (moved uint64, waiting bool)

	moved   uint64
	since   time.Time // it last moved, or had nothing to do
	stalled atomic.Bool
}

// NewWatchdog makes a watchdog; Run lets it work.
func NewWatchdog(c WatchdogConfig) *Watchdog {
	c.Stall, c.MaxPause = cmp.Or(c.Stall, 15*time.Second), cmp.Or(c.MaxPause, 10*time.Minute)
	w := &Watchdog{config: c}
	w.parts = []*watched{
		{name: "relay", stream: bus.EventsStream, look: c.Relay.Progress, waits: "Events are not copied to NATS; subscribers wait."},
		{name: "enforcer", stream: bus.SignalsStream, look: c.Enforcer.Progress, waits: "Providers' outcomes wait."},
	}
	for _, p := range w.parts {
		health.FlagFunc(prometheus.WrapRegistererWith(prometheus.Labels{"part": p.name}, c.Metrics), "payledger_stalled",
			"1 while work waits for the part and nothing moves.", p.stalled.Load)
	}
	return w
}

// parkingFails is the sentence of Degraded while PARKED cannot be written. The
// watchdog does not repair that: a repair could cost signals that can be judged.
const parkingFails = "Signals that cannot be judged wait to be parked; of a route with more than some thousand waiting, some are dropped without an answer."

// Degraded returns a sentence for each kind of work that waits without progress
// at present; none while all is well. The ledger itself goes on.
func (w *Watchdog) Degraded() (waiting []string) {
	for _, p := range w.parts {
		if p.stalled.Load() {
			waiting = append(waiting, p.waits)
		}
	}
	if w.config.Enforcer.ParkingFails() {
		waiting = append(waiting, parkingFails)
	}
	return waiting
}

// Run watches until ctx ends.
func (w *Watchdog) Run(ctx context.Context) error {
	for _, p := range w.parts {
		p.since = time.Now()
	}
	var e escalation
	for health.Pause(ctx, w.config.Stall/5) {
		worst := w.look(ctx, time.Now())
		if worst == nil || w.config.Server == nil || w.config.Conn.Err() != nil || w.config.Server.Err() != nil {
			continue // Server.Run repairs the faults that it finds
		}
		if w.config.Server.Deserted() {
			continue
		}
		renew, due := e.next(time.Now(), w.config.Stall, w.config.MaxPause)
		if !due {
			continue
		}
		aside := ""
		if renew {
			aside = worst.stream
		}
		log := w.config.Log.With().Str("part", worst.name).Str("made_anew", aside).Logger()
		log.Error().Msg("work waits and nothing moves; the embedded JetStream is started again")
		if err := w.config.Server.Repair(aside); err != nil && !errors.Is(err, embedded.ErrClosed) {
			log.Error().Err(err).Msg("the embedded JetStream could not be repaired; it is tried again")
		}
		for _, p := range w.parts {
			p.since = time.Now()
		}
	}
	return nil
}

// look updates the state of all parts and returns the first one without progress
// for stall: those after it wait for it.
func (w *Watchdog) look(ctx context.Context, now time.Time) (worst *watched) {
	for _, p := range w.parts {
		moved, waits := p.look(ctx)
		if moved != p.moved || !waits {
			p.moved, p.since = moved, now
			if p.stalled.Swap(false) {
				w.config.Log.Info().Str("part", p.name).Msg("work moves again")
			}
		}
		if now.Sub(p.since) >= w.config.Stall {
			if worst == nil {
				worst = p
			}
			if !p.stalled.Swap(true) {
				w.config.Log.Error().Str("part", p.name).Msg(p.waits + w.advice())
			}
		}
	}
	return worst
}

func (w *Watchdog) advice() string {
	if err := w.config.Conn.Err(); err != nil {
		return " " + err.Error() + "; it is tried until it is back."
	}
	if w.config.Server != nil {
		if err := w.config.Server.Err(); err != nil {
			return " " + err.Error() + "."
		}
		return " The embedded JetStream is repaired until they move. If they do not: is there room on the disk of nats/? Stop the server, move nats/ away and start it."
	}
	return " Look at the NATS server of --nats-url: its log, the room on its disk, and the JetStream streams " +
		bus.EventsStream + " and " + bus.SignalsStream + ". payledger never deletes them there; deleted by you, they are made anew."
}

// escalation chooses repairs: a start, then one that makes the stream anew, in turns, with
// pauses between them that grow.
type escalation struct {
	renew bool // the next one makes the stream anew
	last  time.Time
	pause time.Duration
}

func (e *escalation) next(now time.Time, first, longest time.Duration) (renew, due bool) {
	switch {
	case e.last.IsZero(), now.Sub(e.last) > 10*max(e.pause, first): // the last one helped
		e.renew, e.pause = false, first
	case now.Sub(e.last) < e.pause:
		return false, false
	default:
		e.pause = min(2*e.pause, longest)
	}
	renew = e.renew
	e.renew, e.last = !renew, now
	return renew, true
}
