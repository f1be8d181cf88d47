package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/eventstore"
	"payledger/notifier/health"
)

// startKey is the metadata of a durable consumer that holds Consumer.Start. Other consumers do not
// have it.
const startKey = "payledger-start"

// Durables are the durable consumers of EVENTS with which outsiders read it: one for the
// subscriber's credentials, from the first event on, and one for each Consumer. Outsiders may not
// create one themselves, since they would choose what it reads and where it delivers.
//
// They are derived: one that is lost or damaged is recreated, the subscriber's from the first event
// on, others after their Consumer.Position. That position is never ahead of what was acknowledged,
// so events may come again, and none is skipped.
type Durables struct {
	conn  *Conn
	log   zerolog.Logger
	state *health.State
	made  prometheus.Counter

	mu sync.Mutex // one Keep at a time
}

// NewDurables returns the keeper of the consumers.
func NewDurables(c *Conn, log zerolog.Logger, metrics prometheus.Registerer) *Durables {
	d := &Durables{conn: c, log: log, state: &health.State{Log: log, Part: "subscriber's consumer"}}
	if c.Embedded() {
		d.made = health.Counter(metrics, "payledger_subscriber_resets_total", "Times that the consumer of a subscriber was recreated, because its state was lost or damaged: events may come again.")
		health.UpGauge(metrics, "subscriber", "subscribers can read events with their consumers", d.state.Err)
	}
	return d
}

// Keep makes the consumers that are missing, replaces those that are ahead of
// EVENTS, since their state belongs to another copy and they would skip events,
// and those that were reset, and deletes those of consumers that were removed.
func (d *Durables) Keep(ctx context.Context, stream jetstream.Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.keep(ctx, stream)
	if ctx.Err() == nil {
		d.state.Set(err)
	}
}

// KeepNow is Keep after a change of the consumers. It does nothing while the relay
// has not found EVENTS to hold the log: the relay calls Keep then.
func (d *Durables) KeepNow(ctx context.Context) error {
	stream, err := d.conn.JetStream().Stream(ctx, EventsStream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the JetStream stream %s: %w", EventsStream, err)
	case !d.conn.copied(stream.CachedInfo().Created):
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keep(ctx, stream)
}

func (d *Durables) keep(ctx context.Context, stream jetstream.Stream) error {
	had := make(map[string]*jetstream.ConsumerInfo)
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		had[info.Name] = info
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("listing the consumers of %s: %w", EventsStream, err)
	}
	info, err := stream.Info(ctx) // later than the consumers'
	if err != nil {
		return fmt.Errorf("looking at the JetStream stream %s: %w", EventsStream, err)
	}
	all := append(d.conn.server.Consumers().List(), Consumer{Name: SubscriberConsumer})
	var errs []error
	for _, c := range all {
		errs = append(errs, d.ensure(ctx, stream, c, had[c.Name], info.State.LastSeq))
		delete(had, c.Name)
	}
	for name, info := range had {
		if info.Config.Metadata[startKey] != "" {
			errs = append(errs, remove(ctx, stream, name))
		}
	}
	return errors.Join(errs...)
}

func remove(ctx context.Context, stream jetstream.Stream, name string) error {
	if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("deleting the consumer %s of %s: %w", name, EventsStream, err)
	}
	return nil
}

// ensure makes the durable consumer of c what it should be; had is nil if there is
// none.
func (d *Durables) ensure(ctx context.Context, stream jetstream.Stream, c Consumer, had *jetstream.ConsumerInfo, last uint64) error {
	switch {
	case had == nil:
		lost, err := d.conn.server.ForgetConsumer(EventsStream, c.Name)
		if err != nil {
			return err
		}
		if lost {
			d.reset(c, "its state on disk is damaged")
		}
	case had.Config.Metadata[startKey] != c.Start, !slices.Equal(had.Config.FilterSubjects, c.Subjects()):
		if err := remove(ctx, stream, c.Name); err != nil {
			return err
		}
	// One that begins after events that are still to be copied is not ahead.
	case max(had.Delivered.Stream, had.AckFloor.Stream) <= max(last, uint64(c.Position)):
		if c.Start != "" {
			d.conn.server.Consumers().Progress(c, eventstore.Position(had.AckFloor.Stream), had.NumPending+uint64(had.NumAckPending))
		}
		return nil
	default:
		if err := remove(ctx, stream, c.Name); err != nil {
			return err
		}
		d.reset(c, fmt.Sprintf("it was at %d, %s ends at %d", had.Delivered.Stream, EventsStream, last))
	}
	want := jetstream.ConsumerConfig{
		Durable: c.Name, Description: "Events of payments for the credentials of " + c.Name + ".",
		FilterSubjects: c.Subjects(), DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 4096, MaxWaiting: 128,
	}
	if c.Position > 0 {
		want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(c.Position)+1
	}
	if c.Start != "" {
		want.Metadata = map[string]string{startKey: c.Start}
	}
	if _, err := stream.CreateConsumer(ctx, want); err != nil {
		return fmt.Errorf("making the consumer %s of %s: %w", c.Name, EventsStream, err)
	}
	return nil
}

func (d *Durables) reset(c Consumer, reason string) {
	d.made.Inc()
	d.log.Warn().Str("consumer", c.Name).Str("reason", reason).Uint64("first", uint64(c.Position)+1).
		Msg("a consumer of " + EventsStream + " is recreated; its readers may get events again")
}
