package signals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

const (
	// With minBacklog signals that JetStream has not delivered yet, the enforcer
	// looks behind them.
	minBacklog = 2000
	// Up to maxListedSubjects all subjects are listed, beyond that those of the routes
	// without a flood. maxAhead bounds the signals taken ahead of one list.
	maxListedSubjects = 4096
	maxAhead          = 256
	// A route with floodSize signals inflight is flooded: its other signals have
	// to wait.
	floodSize = 1024
	// restFactor is how many times as long as a look the pause after it is: a list
	// may be long.
	restFactor = 4
	// maxKnownRoutes bounds the routes that are learned from payments.
	maxKnownRoutes = 256
)

// scout fetches signals that the consumer has not delivered yet. JetStream
// delivers in the order in which signals came, which takes seconds behind a flood
// of a hundred thousand. But it has an index by subject: signals of other
// payments, or with too many payments those of other routes, are read from
// SIGNALS directly.
func (e *Enforcer) scout(ctx context.Context, h inflight, stream jetstream.Stream) error {
	for rest := e.times.Scout; health.Pause(ctx, rest); {
		rest = e.times.Scout
		if h.behind.Load() < minBacklog {
			continue
		}
		began := time.Now()
		if err := e.lookAhead(ctx, h, stream); err != nil && ctx.Err() == nil {
			e.config.Log.Debug().Err(err).Msg("what waits behind many signals is not taken ahead of them")
		}
		rest = max(rest, restFactor*time.Since(began))
	}
	return ctx.Err()
}

func (e *Enforcer) lookAhead(ctx context.Context, h inflight, stream jetstream.Stream) error {
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("looking at the JetStream stream %s: %w", bus.SignalsStream, err)
	}
	filters := []string{bus.SignalsSubjects}
	if info.State.NumSubjects > maxListedSubjects {
		filters = filters[:0]
		for _, rule := range e.config.Table() {
			e.routes.learn(domain.Payment{Route: rule.Route})
		}
		for _, route := range e.routes.all() {
			if h.countOf(route) < floodSize {
				filters = append(filters, bus.SignalsPrefix+route+".>")
			}
		}
	}
	for _, filter := range filters {
		listed, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return fmt.Errorf("listing the subjects of the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		left := maxAhead
		for subject := range listed.State.Subjects {
			if left == 0 {
				break
			}
			if h.has(subject) {
				continue
			}
			left--
			if err := e.takeAhead(ctx, h, stream, subject); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeAhead takes the first signal of a subject.
func (e *Enforcer) takeAhead(ctx context.Context, h inflight, stream jetstream.Stream, subject string) error {
	m, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
	}
	came, err := e.admit(h, newSignal(m.Subject, m.Sequence, m.Time, m.Data, m.Header))
	if came == queued {
		e.progress.Add(1)
	}
	return err
}

// forget deletes finished signals that the consumer has not delivered. One that
// stays is delivered later, and changes nothing the second time.
func (e *Enforcer) forget(ctx context.Context, h inflight, stream jetstream.Stream) error {
	for {
		sequence, ok := h.finishedAhead.Take(ctx)
		if !ok {
			return ctx.Err()
		}
		if err := stream.DeleteMsg(ctx, sequence); err != nil && ctx.Err() == nil {
			e.config.Log.Debug().Err(err).Msg("a signal that was judged stays in SIGNALS until it is delivered")
		}
	}
}

// knownRoutes are those of the routing table and of payments seen. Safe for
// concurrent use.
type knownRoutes struct {
	mu    sync.Mutex
	names []string
}

func (k *knownRoutes) learn(p domain.Payment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.Route != "" && len(k.names) < maxKnownRoutes && !slices.Contains(k.names, p.Route) {
		k.names = append(k.names, p.Route)
	}
}

func (k *knownRoutes) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.names)
}
