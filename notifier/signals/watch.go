package signals

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// errSilent: signals wait in SIGNALS and its consumer does not deliver them.
var errSilent = errors.New("the consumer of " + bus.SignalsStream + " does not deliver the signals that wait")

// watch fails when the JetStream stream is deleted or replaced, when the
// consumer is gone or ahead of it, and when the consumer is silent while
// signals wait, whether it knows of them or not.
func (e *Enforcer) watch(ctx context.Context, stream jetstream.Stream, l *signalQueues) error {
	created, last := stream.CachedInfo().Created, stream.CachedInfo().State.LastSeq
	moved, silent := e.progress.Load(), 0
	for health.Pause(ctx, e.times.Watch) {
		consumer, err := stream.Consumer(ctx, bus.EnforcerConsumer)
		if err != nil {
			return fmt.Errorf("looking at the consumer of %s: %w", bus.SignalsStream, err)
		}
		now, err := stream.Info(ctx) // later than the consumer's
		if err != nil {
			return fmt.Errorf("looking at the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		if !now.Created.Equal(created) || now.State.LastSeq < last || consumer.CachedInfo().Delivered.Stream > now.State.LastSeq {
			return fmt.Errorf("the JetStream stream %s was replaced", bus.SignalsStream)
		}
		last = now.State.LastSeq
		before, held := moved, l.count()
		moved = e.progress.Load()
		switch {
		case moved != before || now.State.Msgs <= uint64(held):
			silent = 0
			if e.silent.Swap(false) {
				e.trouble.Set(nil)
			}
		case silent == 0:
			silent++ // acknowledgements may be on their way
		default:
			e.silent.Store(true)
			e.remade.Inc()
			return errSilent
		}
	}
	return ctx.Err()
}
