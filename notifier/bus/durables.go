package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// startKey is the metadata of a durable consumer of Consumers that holds the id of the order that
// said where it begins. Other consumers do not have it.
const startKey = "payledger-start"

// Durables are the durable consumers of EVENTS with which outsiders read it: one for the
// subscriber's credentials, from the first event on, and one for each of Consumers. Outsiders may not
// create one themselves, since they would choose what it reads and where it delivers.
//
// They are derived: one that is lost or damaged is recreated, the subscriber's from the first event
// on, others after their position. That is never ahead of what was acknowledged,
// so events may come again, and none is skipped.
type Durables struct {
	conn  *Conn
	log   zerolog.Logger
	state *health.State
	made  prometheus.Counter

	mu   sync.Mutex // one Keep at a time
	copy time.Time  // when the EVENTS of the last Keep was made
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

// Keep is called with an EVENTS that was compared with the log and holds a beginning of it.
// It makes the consumers that are missing, replaces those that are ahead of EVENTS, since
// their state belongs to another copy and they would skip events, and those that were reset,
// and deletes those of consumers that were removed.
func (d *Durables) Keep(ctx context.Context, stream jetstream.Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copy = stream.CachedInfo().Created
	err := d.keep(ctx, stream)
	if ctx.Err() == nil {
		d.state.Set(err)
	}
}

// external reports whether the NATS server is an external one, which has no Consumers.
func (d *Durables) external() bool { return d != nil && !d.conn.Embedded() }

// follow lets the server and JetStream follow a change of the Consumers.
func (d *Durables) follow(ctx context.Context) error {
	if d == nil || d.external() {
		return nil
	}
	err := d.conn.server.ReloadConsumers()
	d.keepNow(ctx)
	return err
}

// keepNow is Keep after a change of the Consumers. It does nothing while the relay has not found
// EVENTS to hold the log: the relay calls Keep then, as it does again where this fails.
func (d *Durables) keepNow(ctx context.Context) {
	if d == nil || d.external() {
		return
	}
	stream, err := d.conn.JetStream().Stream(ctx, EventsStream)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && stream.CachedInfo().Created.Equal(d.copy) {
		_ = d.keep(ctx, stream)
	}
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
	all := append(d.conn.server.Consumers().All(), installation.Consumer{Name: SubscriberConsumer})
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
func (d *Durables) ensure(ctx context.Context, stream jetstream.Stream, c installation.Consumer, had *jetstream.ConsumerInfo, last uint64) error {
	start := ""
	if c.Name != SubscriberConsumer {
		start = c.Start.String()
	}
	switch {
	case had == nil:
		lost, err := d.conn.server.ForgetConsumer(EventsStream, c.Name)
		if err != nil {
			return err
		}
		if lost {
			d.reset(c, "its state on disk is damaged")
		}
	case had.Config.Metadata[startKey] != start, !slices.Equal(had.Config.FilterSubjects, ConsumerSubjects(c)):
		if err := remove(ctx, stream, c.Name); err != nil {
			return err
		}
	// One that begins after events that are still to be copied is not ahead.
	case max(had.Delivered.Stream, had.AckFloor.Stream) <= max(last, c.From):
		if start != "" {
			d.conn.server.Consumers().progress(c, eventstore.Position(had.AckFloor.Stream), had.NumPending+uint64(had.NumAckPending))
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
		FilterSubjects: ConsumerSubjects(c), DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 4096, MaxWaiting: 128,
	}
	if c.From > 0 {
		want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, c.From+1
	}
	if start != "" {
		want.Metadata = map[string]string{startKey: start}
	}
	if _, err := stream.CreateConsumer(ctx, want); err != nil {
		return fmt.Errorf("making the consumer %s of %s: %w", c.Name, EventsStream, err)
	}
	return nil
}

func (d *Durables) reset(c installation.Consumer, reason string) {
	d.made.Inc()
	d.log.Warn().Str("consumer", c.Name).Str("reason", reason).Uint64("first", c.From+1).
		Msg("a consumer of " + EventsStream + " is recreated; its readers may get events again")
}
