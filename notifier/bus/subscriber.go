package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/notifier/health"
)

// Subscriber is the consumer with which the subscriber's credentials read
// EVENTS from the beginning. Outsiders may not make one themselves, since they
// would choose what it reads and where it delivers. Nothing else depends on it.
type Subscriber struct {
	server *Server
	log    zerolog.Logger
	state  *health.State
	made   prometheus.Counter
}

// NewSubscriber makes what keeps the consumer of the subscriber's credentials.
func NewSubscriber(c *Conn, log zerolog.Logger, metrics prometheus.Registerer) Subscriber {
	s := Subscriber{server: c.server, log: log, state: &health.State{Log: log, Part: "subscriber's consumer"}}
	if c.Embedded() {
		s.made = health.Counter(metrics, "payledger_subscriber_resets_total", "Times that the consumer subscriber was made anew, because its state was lost or damaged: it begins with the first event again.")
		health.UpGauge(metrics, "subscriber", "subscribers can read events with their consumer", s.state.Err)
	}
	return s
}

// Keep makes the consumer when there is none, and replaces it when it is ahead of
// EVENTS: then its state belongs to another copy, and it would skip events.
func (s Subscriber) Keep(ctx context.Context, stream jetstream.Stream) {
	err := s.ensure(ctx, stream)
	if ctx.Err() == nil {
		s.state.Set(err)
	}
}

func (s Subscriber) ensure(ctx context.Context, stream jetstream.Stream) error {
	had, err := stream.Consumer(ctx, SubscriberConsumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		lost, err := s.server.forgetConsumer(EventsStream, SubscriberConsumer)
		if err != nil {
			return err
		}
		if lost {
			s.reset("its state on disk is damaged")
		}
	case err != nil:
		return fmt.Errorf("looking at the consumer %s of %s: %w", SubscriberConsumer, EventsStream, err)
	default:
		info, err := stream.Info(ctx) // later than the consumer's
		if err != nil {
			return fmt.Errorf("looking at the JetStream stream %s: %w", EventsStream, err)
		}
		at := had.CachedInfo()
		if max(at.Delivered.Stream, at.AckFloor.Stream) <= info.State.LastSeq {
			return nil
		}
		if err := stream.DeleteConsumer(ctx, SubscriberConsumer); err != nil {
			return fmt.Errorf("making the consumer %s of %s anew: %w", SubscriberConsumer, EventsStream, err)
		}
		s.reset(fmt.Sprintf("it was at %d, %s ends at %d", at.Delivered.Stream, EventsStream, info.State.LastSeq))
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: SubscriberConsumer, Description: "Events of payments for the subscriber's credentials.",
		FilterSubject: PaymentSubjects, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 4096, MaxWaiting: 128,
	})
	if err != nil {
		return fmt.Errorf("making the consumer %s of %s: %w", SubscriberConsumer, EventsStream, err)
	}
	return nil
}

func (s Subscriber) reset(reason string) {
	s.made.Inc()
	s.log.Warn().Str("reason", reason).Msg("the consumer " + SubscriberConsumer + " of " + EventsStream +
		" is made anew; subscribers get the events from the first on again")
}
