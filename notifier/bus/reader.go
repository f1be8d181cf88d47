package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// Event is one event as JetStream brought it: the record of the log at its
// position. Without Event, it is also without Claim and Prev.
type Event struct {
	eventstore.Stored

	Type string // the event's wire name
}

// Reader reads EVENTS with one consumer without durable state and hands on
// the events behind a position, each once and without a gap, as long as the
// program runs. Where to begin comes from the log or what was derived from it.
//
// It reads only a JetStream stream that the relay has found to hold the log. A
// consumer that dies, skips, stalls or outlives its JetStream stream is
// replaced by one that starts behind the last event handed on. Positions are
// the log's, so this holds even when EVENTS was deleted and is being copied
// anew: the consumer waits until the copy gets there.
type Reader struct {
	ReaderConfig

	trouble health.State

	next    eventstore.Position // to be handed on; 0: not known yet
	reached atomic.Uint64       // next, for others to see
	handed  atomic.Uint64       // events handed on by the current consumer
	reading atomic.Bool         // run is under way
	waiting atomic.Bool         // hand is under way
	worked  atomic.Bool         // the current consumer has delivered an event
}

// ReaderConfig configures a Reader.
type ReaderConfig struct {
	Conn  *Conn
	Store eventstore.Store
	LogID domain.ID
	Begin func(context.Context) (eventstore.Position, error) // the first position to hand on
	Hand  func(context.Context, Event) error
	Times ReaderTimes // zero: those of a real deployment
	Log   zerolog.Logger
}

// ReaderTimes are the pauses of what reads EVENTS.
type ReaderTimes struct {
	Retry health.Backoff // after a failure
	Watch time.Duration  // between looks at the consumer
}

const (
	fetchAhead    = 1024             // events asked for ahead
	fetchBytes    = 4 << 20          // of them
	inactiveAfter = 30 * time.Second // a consumer left behind is removed by the server
)

// ErrUnchecked: the relay has not looked yet whether EVENTS holds the log.
var ErrUnchecked = errors.New("the JetStream stream " + EventsStream + " has not been compared with the log yet")

// NewReader makes a reader; Run lets it work.
func NewReader(c ReaderConfig) *Reader {
	if c.Times == (ReaderTimes{}) {
		c.Times = ReaderTimes{
			Retry: health.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second},
			Watch: 3 * time.Second,
		}
	}
	return &Reader{ReaderConfig: c, trouble: health.State{Log: c.Log, Part: "reader of EVENTS"}}
}

// Err says why events are not handed on just now, nil when they are.
func (d *Reader) Err() error { return d.trouble.Err() }

// Progress is the next position to hand on, 0 while it is not known, and
// whether it is being read and whether hand is under way.
func (d *Reader) Progress() (next eventstore.Position, reading, waiting bool) {
	return eventstore.Position(d.reached.Load()), d.reading.Load(), d.waiting.Load()
}

// Run hands events on until ctx ends or the store takes no more commands.
func (d *Reader) Run(ctx context.Context) error {
	d.reading.Store(true)
	defer d.reading.Store(false)
	for {
		err := d.consume(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case health.Ends(err):
			return err
		}
		// The relay is about to make or check the JetStream stream.
		soon := errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, ErrUnchecked)
		if !soon {
			d.Conn.replaced.Add(1)
		}
		if d.worked.Swap(false) {
			d.Times.Retry.Reset()
		}
		if !soon || d.Times.Retry.Next >= d.Times.Retry.Max {
			d.trouble.Set(err)
		}
		if undelivered, ok := errors.AsType[*undeliveredError](err); ok {
			d.Conn.Doubt(undelivered.position)
		}
		if stray, ok := errors.AsType[*StrayError](err); ok {
			d.Conn.Doubt(stray.Position)
		}
		if !d.Times.Retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// undeliveredError: the consumer of EVENTS does not deliver the event that the
// log has at the position. Another consumer may do so, unless the message
// itself is damaged.
type undeliveredError struct {
	position eventstore.Position
	reason   string
}

func (e *undeliveredError) Error() string {
	return fmt.Sprintf("the JetStream stream %s does not deliver position %d of the log: %s", EventsStream, e.position, e.reason)
}

// consume hands events on until the consumer fails.
func (d *Reader) consume(ctx context.Context) error {
	ctx, cancel := d.Conn.WhileConnected(ctx)
	defer cancel()
	if d.next == 0 {
		first, err := d.Begin(ctx)
		if err != nil {
			return err
		}
		d.next = first
	}
	d.reached.Store(uint64(d.next))
	stream, err := d.Conn.JetStream().Stream(ctx, EventsStream)
	if err != nil {
		return fmt.Errorf("looking for the JetStream stream %s: %w", EventsStream, err)
	}
	if reason := unlike(stream.CachedInfo().Config, EventsConfig(d.LogID)); reason != "" {
		return &ForeignStreamError{Stream: EventsStream, Reason: reason}
	}
	if !d.Conn.copied(stream.CachedInfo().Created) {
		return ErrUnchecked
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description:   "payledger's own reader, for webhooks.",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(d.next),
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: inactiveAfter,
	})
	if err != nil {
		return fmt.Errorf("making a consumer of %s: %w", EventsStream, err)
	}
	defer d.remove(ctx, stream, consumer)
	d.handed.Store(0)
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(fetchAhead, fetchBytes))
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.read(ctx, messages) })
	g.Go(func() error { return d.watch(ctx, stream, consumer) })
	g.Go(func() error {
		<-ctx.Done()
		messages.Stop()
		return nil
	})
	return g.Wait()
}

// remove deletes a consumer that is not read any more, as far as the server
// can be reached; otherwise the server does it by itself a little later.
func (d *Reader) remove(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	if d.Conn.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
}

func (d *Reader) read(ctx context.Context, messages jetstream.MessagesContext) error {
	var last eventstore.Position // of the log, as far as it was asked for
	for expected := uint64(1); ; expected++ {
		msg, err := messages.Next()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var at *jetstream.MsgMetadata
		if err == nil {
			at, err = msg.Metadata()
		}
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
		}
		if at.Sequence.Consumer != expected {
			return errors.New("a message from JetStream was lost on the way")
		}
		position := eventstore.Position(at.Sequence.Stream)
		if position > last {
			if last, err = d.Store.Last(ctx); err != nil {
				return err
			}
		}
		if position > last {
			return fmt.Errorf("the JetStream stream %s is ahead of the log", EventsStream)
		}
		if position != d.next {
			return &undeliveredError{d.next, fmt.Sprintf("%s at %d came in its place", msg.Subject(), position)}
		}
		event, err := d.event(ctx, msg, position)
		if err != nil {
			return err
		}
		d.waiting.Store(true)
		err = d.Hand(ctx, event)
		d.waiting.Store(false)
		if err != nil {
			return err
		}
		d.next = position + 1
		d.reached.Store(uint64(d.next))
		d.handed.Add(1)
		if at.NumPending == 0 || expected == 1 {
			d.working()
		}
	}
}

// event is what the message brought.
func (d *Reader) event(ctx context.Context, msg jetstream.Msg, at eventstore.Position) (Event, error) {
	event, ok := eventOf(msg.Subject(), msg.Headers(), msg.Data(), at)
	if !ok {
		return event, &StrayError{at}
	}
	if d.Conn.Embedded() {
		return event, nil
	}
	return event, d.compare(ctx, event.Stored)
}

// compare makes sure that what came is the log's record at its position. Into
// EVENTS of an external server others may write. A record that cannot be read is
// no reason not to go on: commands on its stream meet the damage by themselves.
func (d *Reader) compare(ctx context.Context, came eventstore.Stored) error {
	for r, err := range d.Store.Scan(ctx, came.Position-1, eventstore.Filter{}) {
		if errors.As(err, new(*eventstore.CorruptError)) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.Position == came.Position && r.Stream == came.Stream && r.Sequence == came.Sequence && bytes.Equal(r.Body, came.Body) {
			return nil
		}
		break
	}
	return &StrayError{came.Position}
}

func (d *Reader) working() {
	d.worked.Store(true)
	d.trouble.Set(nil)
}

// watch fails when the consumer does not deliver what there is, or has got
// ahead of its JetStream stream.
func (d *Reader) watch(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) error {
	var handed uint64
	created := stream.CachedInfo().Created
	for health.Pause(ctx, d.Times.Watch) {
		pending, err := consumer.Info(ctx)
		if err != nil {
			return fmt.Errorf("looking at the consumer of %s: %w", EventsStream, err)
		}
		now, err := stream.Info(ctx)
		if err != nil {
			return fmt.Errorf("looking at the JetStream stream %s: %w", EventsStream, err)
		}
		before := handed
		handed = d.handed.Load()
		switch {
		case !now.Created.Equal(created),
			pending.Delivered.Consumer > 0 && pending.Delivered.Stream > now.State.LastSeq:
			return fmt.Errorf("the JetStream stream %s was replaced", EventsStream)
		case pending.NumPending > 0 && handed == before && !d.waiting.Load():
			return &undeliveredError{eventstore.Position(d.reached.Load()), "the consumer is silent"}
		}
		if pending.NumPending == 0 {
			d.working()
		}
	}
	return ctx.Err()
}

// StrayError: a message in EVENTS is not the event that the log has at its
// position.
type StrayError struct{ Position eventstore.Position }

func (e *StrayError) Error() string {
	return fmt.Sprintf("position %d of the JetStream stream %s is not the event of the log", e.Position, EventsStream)
}

// Hear calls fn for each event of the types that is published until ctx ends, as far as
// the connection stands: one that is lost on the way is not heard of.
func (c *Conn) Hear(ctx context.Context, types []string, fn func(Event)) error {
	subscriptions := make([]*nats.Subscription, 0, len(types))
	defer func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // it fails where the connection is closed
		}
	}()
	for _, typ := range types {
		s, err := c.nc.Subscribe(EventSubject("*", typ), func(m *nats.Msg) {
			if e, ok := eventOf(m.Subject, m.Header, m.Data, 0); ok {
				fn(e)
			}
		})
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", EventSubject("*", typ), err)
		}
		subscriptions = append(subscriptions, s)
	}
	<-ctx.Done()
	return nil
}
